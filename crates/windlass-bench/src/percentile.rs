//! Order statistics of measured values.

/// The smallest value that at least this share (0 to 1) of the values do not exceed: the nearest rank, so always a measured
/// value. `None` without values.
pub(crate) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The middle value; of an even number the lower of the two, so that it is always a measured value.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::{median, percentile};

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), Some(50.0));
        assert_eq!(percentile(&values, 0.99), Some(99.0));
        assert_eq!(percentile(&values, 1.0), Some(100.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
    }

    #[test]
    fn few_values_and_no_values() {
        assert_eq!(percentile(&[3.0], 0.99), Some(3.0));
        assert_eq!(percentile(&[2.0, 1.0], 0.99), Some(2.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn the_median_of_an_even_number_was_measured() {
        assert_eq!(median(&[4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0]), Some(1.0));
    }
}
