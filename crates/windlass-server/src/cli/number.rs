//! Whole numbers in the arguments.

/// A whole number from the first to the last, both included. The message says what is expected and names no type of this program.
pub(super) fn number<const FIRST: u64, const LAST: u64>(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| (FIRST..=LAST).contains(number));
    number.ok_or_else(|| match LAST {
        u64::MAX => format!("must be a whole number of at least {FIRST}"),
        _ => format!("must be a whole number from {FIRST} to {LAST}"),
    })
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_number_outside_its_range_is_rejected_with_the_range() {
        assert_eq!(number::<1, 10>("10"), Ok(10));
        for wrong in ["0", "11", "-3", "x", ""] {
            assert_eq!(number::<1, 10>(wrong), Err("must be a whole number from 1 to 10".to_owned()));
        }
        assert_eq!(number::<1, { u64::MAX }>("many"), Err("must be a whole number of at least 1".to_owned()));
    }
}
