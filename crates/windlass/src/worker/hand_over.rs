//! Attempts that this worker started and that continue in an endpoint which returned 202: from then on the endpoint
//! holds them, with a separate lease, and they no longer depend on this worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::Result;
use crate::model::job::claimed::Claimed;
use crate::store;
use crate::store::database::Database;
use crate::store::pull::PRESENT;
use crate::store::worker::WorkerRegistration;
use crate::telemetry;

/// How often a failing database is tried again. The worker's own lease covers the attempt meanwhile.
const TRIES: u32 = 20;

#[derive(Debug)]
pub(crate) struct HandOver {
    database: Database,
    /// The number of the row that represents each definition's endpoint.
    endpoints: Mutex<HashMap<Arc<str>, i32>>,
}

impl HandOver {
    pub(crate) fn new(database: Database) -> Self {
        Self { database, endpoints: Mutex::default() }
    }

    /// Hands the attempt over. It is not an error if it has already ended: its endpoint was faster. While an open
    /// transaction of the application holds the job, it is tried again without a limit: the endpoint works on it.
    pub(crate) async fn give(&self, claimed: &Claimed, lease: Duration) -> Result<()> {
        let seconds = i32::try_from(lease.as_secs().clamp(1, 86_400)).unwrap_or(86_400);
        let mut tries = 0;
        loop {
            match self.give_once(claimed, seconds).await {
                Err(error) if error.is_lock_timeout() => pause().await,
                Err(error) if error.is_transient() && tries < TRIES => {
                    telemetry::database_error("hand_over", &error);
                    tries += 1;
                    pause().await;
                }
                result => return result.map(drop),
            }
        }
    }

    async fn give_once(&self, claimed: &Claimed, seconds: i32) -> Result<bool> {
        let worker = self.endpoint(&claimed.definition_key).await?;
        store::pull::hand_over(&self.database, &claimed.fence, worker, seconds).await
    }

    async fn endpoint(&self, key: &Arc<str>) -> Result<i32> {
        let known = self.endpoints.lock().get(key).copied();
        if let Some(worker) = known {
            return Ok(worker);
        }
        let me = WorkerRegistration {
            worker_id: format!("{}@endpoint", key.replace('/', "_")),
            hostname: String::new(),
            queues: None,
            definition_keys: vec![key.to_string()],
            lease_seconds: PRESENT,
            metadata: r#"{"kind": "endpoint"}"#.to_owned(),
        };
        let (worker, _) = store::pull::register(&self.database, &me, "").await?;
        self.endpoints.lock().insert(key.clone(), worker);
        Ok(worker)
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(200).mul_f64(0.5 + rand::random::<f64>())).await;
}
