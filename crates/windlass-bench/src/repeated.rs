//! A figure that is measured several times. The machine may be shared, so each time the stolen CPU time is recorded, and the figure
//! is the median of the half with less stolen time: chosen by the load of others, never by the result.

use crate::Result;
use crate::percentile::median;
use crate::stolen::Times;

#[derive(Debug, Default)]
pub(crate) struct Repeated(Vec<Once>);

#[derive(Debug, Clone, Copy)]
struct Once {
    rate: f64,
    stolen: f64,
}

impl Repeated {
    pub(crate) async fn measure(&mut self, work: impl Future<Output = Result<f64>>) -> Result<()> {
        let before = Times::now();
        let rate = work.await?;
        self.0.push(Once { rate, stolen: Times::share_since(before) });
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn figure(&self) -> Option<f64> {
        let mut times = self.0.clone();
        times.sort_by(|one, other| one.stolen.total_cmp(&other.stolen));
        let quieter: Vec<f64> = times.iter().take(times.len().div_ceil(2)).map(|once| once.rate).collect();
        median(&quieter)
    }
}

#[cfg(test)]
mod tests {
    use super::{Once, Repeated};

    #[test]
    fn the_figure_is_the_median_of_the_quieter_half() {
        let times = [(5.0, 0.3), (9.0, 0.0), (1.0, 0.0), (7.0, 0.01), (100.0, 0.02)];
        let repeated = Repeated(times.map(|(rate, stolen)| Once { rate, stolen }).to_vec());
        assert_eq!(repeated.figure(), Some(7.0));
        assert_eq!(Repeated::default().figure(), None);
    }

    #[tokio::test]
    async fn a_failure_has_no_figure() {
        let mut repeated = Repeated::default();
        repeated.measure(async { Ok(3.0) }).await.unwrap();
        repeated.measure(async { Err("broke".into()) }).await.unwrap_err();
        assert_eq!(repeated.figure(), Some(3.0));
    }
}
