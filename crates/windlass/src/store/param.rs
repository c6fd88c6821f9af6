//! JSON text as a `json` or `jsonb` parameter, without parsing it first: the server parses it anyway.

use bytes::{BufMut, BytesMut};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// The version byte at the start of the binary format of `jsonb`; `json` is only the text.
const JSONB_FORM: u8 = 1;

#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonText<'a>(pub(crate) &'a str);

impl ToSql for JsonText<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        if *ty == Type::JSONB {
            out.put_u8(JSONB_FORM);
        }
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::JSONB | Type::JSON)
    }

    to_sql_checked!();
}

/// JSON text read from a `json` or `jsonb` column, not parsed.
#[derive(Debug)]
pub(crate) struct JsonOut<'a>(pub(crate) &'a str);

impl<'a> FromSql<'a> for JsonOut<'a> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        let text = match *ty {
            Type::JSONB => raw.strip_prefix(&[JSONB_FORM]).ok_or("unknown version of the jsonb format")?,
            _ => raw,
        };
        Ok(Self(std::str::from_utf8(text)?))
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::JSONB | Type::JSON)
    }
}

/// Reads a column of type `text[]`, which SQL may fill with a multidimensional array or with nulls. A value that is not
/// a list of strings is returned as an empty list: one such row must not prevent reading the others.
pub(crate) fn read_texts<I: RowIndex + std::fmt::Display>(row: &Row, column: I) -> Vec<String> {
    row.try_get::<_, Option<Vec<String>>>(column).ok().flatten().unwrap_or_default()
}

/// Reads a value that a statement returns as one JSON object.
pub(crate) fn read_json<T: DeserializeOwned>(row: &Row, column: usize) -> crate::error::Result<T> {
    serde_json::from_str(row.get::<_, JsonOut<'_>>(column).0)
        .map_err(|error| crate::error::Error::UnexpectedResult { message: error.to_string() })
}
