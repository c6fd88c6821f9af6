//! Numbers of things in text.

/// `1 284 033`, with thin spaces that do not break.
pub(crate) fn grouped(number: impl TryInto<i64>) -> String {
    let number = number.try_into().unwrap_or(i64::MAX);
    let digits = number.unsigned_abs().to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if number < 0 { format!("-{out}") } else { out }
}

/// `1 job`, `1 284 jobs`.
pub(crate) fn count_words(number: impl TryInto<i64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(i64::MAX);
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::{count_words, grouped};

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1284, 1_284_033, -12_345].map(grouped),
            ["0", "999", "1\u{202f}284", "1\u{202f}284\u{202f}033", "-12\u{202f}345"]
        );
    }

    #[test]
    fn one_thing_is_singular() {
        assert_eq!(
            [0, 1, 2000].map(|count| count_words(count, "older job")),
            ["0 older jobs", "1 older job", "2\u{202f}000 older jobs"]
        );
    }
}
