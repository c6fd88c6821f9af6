//! Instants in input: RFC 3339, as documented in the API, and nothing looser. All entry points accept the same format.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de};

/// The error message for an invalid instant.
pub const EXPECTED: &str = "must be an instant such as 2026-02-16T10:30:00Z";

/// The first and the last instant that is accepted, as seconds: from the year 1 to the start of the year 9999, which every client
/// can represent in every time zone. The twin of `check_instant` in SQL.
pub const SECONDS: RangeInclusive<i64> = -62_135_596_800..=253_370_764_800;

/// The error message for an instant that is not one of [`SECONDS`].
pub const OUT_OF_RANGE: &str = "must be between the years 1 and 9998";

/// Parses an instant with a date, a time to the second, and a time zone as `Z` or an offset.
#[must_use]
pub fn read(text: &str) -> Option<Timestamp> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let time = rest.strip_prefix(['T', 't'])?;
    let (clock, rest) = (time.get(..8)?, time.get(8..)?);
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            (1..=9).contains(&digits).then(|| &fraction[digits..])?
        }
        None => rest,
    };
    let is_zone = zone.eq_ignore_ascii_case("z")
        || zone.strip_prefix(['+', '-']).is_some_and(|offset| has_form(offset, "dd:dd"));
    let fits = has_form(date, "dddd-dd-dd") && has_form(clock, "dd:dd:dd") && is_zone;
    fits.then(|| text.parse().ok()).flatten()
}

/// `d` matches a digit, every other character matches itself.
fn has_form(text: &str, form: &str) -> bool {
    let fits =
        |(letter, wanted): (u8, u8)| if wanted == b'd' { letter.is_ascii_digit() } else { letter == wanted };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits)
}

/// For optional fields.
pub(crate) fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| read(&text).ok_or_else(|| de::Error::custom(EXPECTED))).transpose()
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn rfc_3339_is_parsed() {
        for text in [
            "2026-02-16T10:30:00Z",
            "2026-02-16t10:30:00z",
            "2026-02-16T10:30:00.123456789+05:30",
            "1969-12-31T23:59:59-00:00",
        ] {
            assert_eq!(read(text), text.parse().ok(), "{text}");
            assert!(read(text).is_some(), "{text}");
        }
    }

    #[test]
    fn looser_forms_are_rejected() {
        for text in [
            "",
            "2026-02-16",
            "2026-02-16 10:30:00Z",
            "2026-02-16T10:30Z",
            "2026-02-16T10Z",
            "2026-02-16T10:30:00",
            "2026-02-16T10:30:00+05",
            "2026-02-16T10:30:00+0530",
            "2026-02-16T10:30:00.Z",
            "2026-02-16T10:30:00,5Z",
            "2026-02-16T10:30:00Z[UTC]",
            "20260216T103000Z",
            "+002026-02-16T10:30:00Z",
            "2026-02-30T10:30:00Z",
            "2026-02-16T25:30:00Z",
            " 2026-02-16T10:30:00Z",
            "2026-02-16T10:30:00Zä",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
