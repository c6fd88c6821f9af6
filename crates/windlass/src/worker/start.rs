//! Starts the parts of a worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::feed::Feed;
use super::hand_over::HandOver;
use super::handled::HandledDefinition;
use super::lease::{self, Lease};
use super::log::LogSink;
use super::progress::ProgressSink;
use super::running::Running;
use super::settler::Settler;
use super::{Shared, Worker, WorkerBuilder};
use crate::attempt::compiled::CompiledDefinition;
use crate::error::{Error, Result};
use crate::keeper::Keeper;
use crate::queue::identity::{hostname, new_worker_id};
use crate::queue::listen;
use crate::store;
use crate::store::database::Database;
use crate::store::worker::WorkerRegistration;
use crate::telemetry::{self, Events, Meters};

impl WorkerBuilder {
    /// Registers the definitions and the worker, and starts to claim jobs.
    pub async fn start(self) -> Result<Worker> {
        if self.handlers.is_empty() {
            return Err(Error::NoHandlers);
        }
        #[cfg(feature = "commands")]
        if self.runs_commands {
            super::command::check_program()?;
        }
        let roles = ["windlass_worker", "windlass_keeper"];
        self.queue.require_roles(if self.keeper.is_some() { &roles } else { &roles[..1] }).await?;
        let definitions = self.define().await?;
        let keys: Vec<String> = definitions.keys().map(ToString::to_string).collect();
        let settings = self.queue.settings().clone();
        let hostname = hostname();
        let me = WorkerRegistration {
            worker_id: new_worker_id(&hostname),
            hostname,
            queues: self.queues.clone(),
            definition_keys: keys.clone(),
            lease_seconds: i32::try_from(self.lease.as_secs()).unwrap_or(i32::MAX),
            metadata: self.metadata.to_string(),
        };
        let worker = store::worker::register(self.queue.database(), &me).await?;

        let (wakes, _) = broadcast::channel(4096);
        let keeper_wakes = wakes.clone();
        let (ended, to_settle) = mpsc::unbounded_channel();
        let running = Arc::new(Running::new(self.concurrency, self.places));
        let lease = Arc::new(Lease::new(worker, self.lease));
        let events = Events::default();
        let give_up = CancellationToken::new();
        // A separate pool, so that an application that exhausts the queue's pool cannot block a worker. One connection
        // each for the feed, the settler, its delayed ends, and everything else.
        let database = Database::for_engine(&settings, 4, self.lease)?;
        let logs = Arc::new(LogSink::new(database.clone()));
        let progress = Arc::new(ProgressSink::new(database.clone()));
        let shared = Arc::new(Shared {
            queue: self.queue.clone(),
            worker_id: me.worker_id.as_str().into(),
            keys,
            queues: self.queues.clone(),
            prefetch: self.prefetch,
            poll_interval: self.poll_interval,
            patience: self.lease,
            listens: settings.listen,
            definitions,
            running: running.clone(),
            lease: lease.clone(),
            runs: TaskTracker::new(),
            ended: RwLock::new(Some(ended)),
            progress: progress.clone(),
            logs: logs.clone(),
            hand_over: HandOver::new(database.clone()),
            redactor: self.redactor,
            events: events.clone(),
            stop_claiming: CancellationToken::new(),
            stop_duties: CancellationToken::new(),
            stop_keeping: CancellationToken::new(),
            _wakes: wakes.clone(),
        });

        let settler = Settler {
            database: database.clone(),
            running: running.clone(),
            events,
            worker_id: shared.worker_id.clone(),
            give_up: give_up.clone(),
            claims_ahead: self.prefetch > 0,
            patience: self.lease,
            refused: Mutex::default(),
        };
        let heartbeat = self.heartbeat.unwrap_or(self.lease / 3);
        let lease_thread = lease::LeaseThread {
            settings: settings.clone(),
            me,
            interval: heartbeat,
            lease,
            running,
            stop: shared.stop_keeping.clone(),
        }
        .start()?;
        let feed = tokio::spawn(Feed::new(shared.clone(), database.clone(), wakes.subscribe()).run());
        let mut tasks = vec![
            tokio::spawn({
                let stop = shared.stop_keeping.clone();
                async move { progress.run(stop).await }
            }),
            tokio::spawn(refresh(shared.clone(), database)),
            tokio::spawn({
                let stop = shared.stop_keeping.clone();
                async move { logs.run(stop).await }
            }),
        ];
        if settings.listen {
            let stop = shared.stop_keeping.clone();
            tasks.push(tokio::spawn(listen::listen(
                settings.direct.clone(),
                wakes,
                shared.lease.clone(),
                stop,
            )));
        }
        if let Some(keeper) = self.keeper {
            let keeper = Keeper::new(self.queue.clone(), keeper).woken_by(keeper_wakes);
            tasks.push(tokio::spawn(keeper.run(shared.stop_duties.clone())));
        }
        Ok(Worker {
            shared,
            feed: Some(feed),
            tasks,
            settler: Some(tokio::spawn(settler.run(to_settle))),
            lease_thread: Some(lease_thread),
            give_up,
            grace: self.grace,
        })
    }

    async fn define(&self) -> Result<HashMap<Arc<str>, HandledDefinition>> {
        let database = self.queue.database();
        let mut definitions = HashMap::with_capacity(self.handlers.len());
        for handler in &self.handlers {
            let definition = handler.definition();
            definition.check()?;
            store::definition::define(database, &definition).await?;
            let compiled = CompiledDefinition::read(database, definition.key()).await?;
            let key: Arc<str> = definition.key().into();
            let handled = HandledDefinition {
                handler: handler.clone(),
                compiled: RwLock::new(Arc::new(compiled)),
                meters: Arc::new(Meters::new(definition.key())),
            };
            if definitions.insert(key, handled).is_some() {
                return Err(Error::DuplicateHandler { key: definition.key().to_owned() });
            }
        }
        Ok(definitions)
    }
}

/// Reads the policies again periodically, so that an edited definition takes effect without a restart.
async fn refresh(shared: Arc<Shared>, database: Database) {
    const EVERY: Duration = Duration::from_secs(5);
    loop {
        tokio::select! {
            () = shared.stop_keeping.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        metrics::gauge!("windlass_running").set(shared.running.running() as f64);
        for (key, handled) in &shared.definitions {
            match CompiledDefinition::read(&database, key).await {
                Ok(compiled) => {
                    *handled.compiled.write() = Arc::new(compiled);
                }
                Err(error) => telemetry::database_error("definitions", &error),
            }
        }
    }
}
