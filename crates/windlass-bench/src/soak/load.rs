//! The load: every way in and every feature, each caller in a loop of its own. Callers note what they send before they send it, and what
//! was acknowledged; whatever is neither acknowledged nor rejected may or may not have happened.
//!
//! How it stops: every loop ends after its current call when the token is canceled.

mod http;
mod intent;
mod library;
mod operators;
mod pace;
mod sql;
mod tenants;

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass::{Queue, Settings};

use self::intent::Author;
pub(crate) use self::pace::Pace;
use super::Site;
use super::installation::Installation;
use crate::Result;

/// What every caller shares.
#[derive(Clone)]
pub(crate) struct Callers {
    pub(crate) site: Arc<Site>,
    pub(crate) installation: Arc<Installation>,
    pub(crate) pace: Arc<Pace>,
    queue: Queue,
    http: reqwest::Client,
    stop: CancellationToken,
    seed: u64,
}

/// A call of the library or of HTTP that takes longer has an unknown result.
const CALL_LIMIT: Duration = Duration::from_secs(10);

impl Callers {
    pub(crate) async fn new(
        site: &Arc<Site>,
        installation: &Arc<Installation>,
        pace: &Arc<Pace>,
        stop: &CancellationToken,
        seed: u64,
    ) -> Result<Self> {
        let url = installation.cluster.url(installation.library.port);
        let settings = Settings::new(&url)?.connections(8).statement_timeout(Duration::from_secs(8));
        Ok(Self {
            site: site.clone(),
            installation: installation.clone(),
            pace: pace.clone(),
            queue: Queue::connect(settings).await?,
            http: reqwest::Client::builder().no_proxy().timeout(CALL_LIMIT).build()?,
            stop: stop.clone(),
            seed,
        })
    }

    /// Starts the loops.
    pub(crate) fn start(&self) -> JoinSet<()> {
        let mut loops = JoinSet::new();
        for number in 0..3 {
            loops.spawn(library::single(self.clone(), self.author(number)));
        }
        loops.spawn(library::bulk(self.clone(), self.author(10)));
        for number in 20..22 {
            loops.spawn(sql::transactions(self.clone(), self.author(number)));
        }
        for number in 30..33 {
            loops.spawn(http::single(self.clone(), self.author(number)));
        }
        loops.spawn(http::bulk(self.clone(), self.author(40)));
        loops.spawn(http::events(self.clone(), self.author(50)));
        for number in 60..62 {
            loops.spawn(operators::act(self.clone(), self.author(number)));
        }
        loops.spawn(tenants::churn(self.clone(), self.author(70)));
        loops
    }

    /// Each caller chooses by its own random numbers.
    fn author(&self, number: u64) -> Author {
        let random = StdRng::seed_from_u64(self.seed ^ (number << 32));
        Author::new(number, random, self.site.clone(), self.installation.tenants)
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}
