//! JSON text as a `jsonb` parameter, without parsing it into values first: the server parses it anyway.

use bytes::{BufMut, BytesMut};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonText<'a>(pub(crate) &'a str);

impl ToSql for JsonText<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_u8(1); // the version of jsonb's binary form
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }

    to_sql_checked!();
}

/// JSON text read from a `jsonb` column, not parsed.
#[derive(Debug)]
pub(crate) struct JsonOut<'a>(pub(crate) &'a str);

impl<'a> FromSql<'a> for JsonOut<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        let text = raw.strip_prefix(&[1]).ok_or("jsonb in an unknown form")?;
        Ok(Self(std::str::from_utf8(text)?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }
}

/// A value that a statement answers as one JSON object.
pub(crate) fn read_json<T: DeserializeOwned>(row: &Row, column: usize) -> crate::Result<T> {
    serde_json::from_str(row.get::<_, JsonOut<'_>>(column).0).map_err(|error| crate::Error::Settings {
        message: format!("the database holds what this release cannot read: {error}"),
    })
}
