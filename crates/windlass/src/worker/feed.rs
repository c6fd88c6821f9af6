//! Claims jobs: decides whose turn it is, claims, and starts a task for each job.
//!
//! It claims as long as slots are free and lanes have work. With nothing to do it checks recently busy lanes a few
//! times more, then marks the worker as waiting (so that enqueues send notifications) and sleeps until it is notified
//! or the poll interval has passed. On `stop` it claims no more; running jobs continue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::Shared;
use super::pace::{self, Pace};
use crate::error::Result;
use crate::lane::cursors::LaneCursors;
use crate::queue::listen::Wake;
use crate::store;
use crate::store::database::{Database, Session};
use crate::store::worker::Claimant;
use crate::telemetry;

/// The maximum number of jobs per claim. Larger claims are not faster and make other workers wait.
const MAX: usize = 500;
/// How long a claim waits for more free slots if few are free, and how long an empty lane rests before it is checked
/// again.
const LINGER: Duration = Duration::from_millis(2);
/// How often lanes are searched while there is work, so that a new tenant's first job does not wait for an idle moment.
const SEARCH_EVERY: Duration = Duration::from_millis(250);
/// The same for lanes that had work recently, because a busy worker is not notified of new jobs.
const CHECK_EVERY: Duration = Duration::from_millis(5);
/// A search that took long is followed by a pause of this many times as long.
const SEARCH_SHARE: u32 = 20;
/// The same for a check. It takes long only while the processors are busy, which is when a small tenant depends on it.
const CHECK_SHARE: u32 = 1;
/// The time between two searches, however many notifications name lanes that this worker does not know: any login can send them.
const SEARCH_GAP: Duration = Duration::from_millis(20);
/// After this long without a pause, enqueues need not send notifications.
const BUSY_AFTER: Duration = Duration::from_millis(100);
const SETTLING: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(100)];

pub(crate) struct Feed {
    shared: Arc<Shared>,
    database: Database,
    wakes: broadcast::Receiver<Wake>,
    cursors: LaneCursors,
    /// More than one tenant uses the definitions of this worker, so none of them may have all slots.
    is_shared: bool,
    search_at: Instant,
    /// The end of the pause after a search.
    pause_ends: Instant,
    /// A notification has requested a search, which waits for the end of the pause.
    is_search_requested: bool,
    check_at: Instant,
    /// The worker was idle and was notified of a job in a known lane, which is claimed before other lanes are searched.
    claim_first: bool,
    /// The number under which this worker is marked as waiting. A worker whose lease expired gets a new one.
    waits_as: Option<i32>,
    busy_since: Option<Instant>,
    /// How often the feed has slept since the worker was marked as waiting.
    idle_rounds: usize,
    last_claim: Instant,
    pace: Pace,
    /// The epoch in which the next claim is sent; see [`Claimant`].
    epoch: i32,
    unanswered: Option<Unanswered>,
    /// Tasks that release jobs concurrently with the claims; they end with the feed.
    releasing: JoinSet<()>,
}

/// A claim that was sent and has no response yet. If the response is lost, its jobs are held by a worker that does not
/// know them.
struct Unanswered {
    by: Claimant,
    token: Uuid,
    lanes: Vec<i32>,
}

impl Feed {
    pub(crate) fn new(shared: Arc<Shared>, database: Database, wakes: broadcast::Receiver<Wake>) -> Self {
        let now = Instant::now();
        Self {
            shared,
            database,
            wakes,
            cursors: LaneCursors::new(),
            is_shared: false,
            search_at: now,
            pause_ends: now,
            is_search_requested: false,
            check_at: now,
            claim_first: false,
            waits_as: None,
            busy_since: None,
            idle_rounds: 0,
            last_claim: now,
            pace: Pace::new(now),
            epoch: 0,
            unanswered: None,
            releasing: JoinSet::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        let stop = self.shared.stop_claiming.clone();
        let mut pause = Duration::from_millis(50);
        while !stop.is_cancelled() || self.unanswered.is_some() {
            let Err(error) = self.feed(&mut pause).await else { return };
            telemetry::database_error("feed", &error);
            self.waits_as = None;
            self.search_now();
            let rest = tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>()));
            tokio::select! {
                () = stop.cancelled(), if self.unanswered.is_none() => return,
                () = rest => {}
            }
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    /// Feeds on one connection until it fails or the worker stops. A stop interrupts only the waits: a claim that was
    /// sent takes effect whether or not its response is read, so it is always completed.
    async fn feed(&mut self, pause: &mut Duration) -> Result<()> {
        let stop = self.shared.stop_claiming.clone();
        let mut session = self.database.session().await?.patient_for(self.shared.patience);
        if let Some(lost) = &self.unanswered {
            let is_all = store::worker::unclaim(&session, lost.by, lost.token, &lost.lanes).await?;
            self.epoch = lost.by.epoch + 1;
            if let Some(lost) = self.unanswered.take_if(|_| !is_all) {
                while self.releasing.try_join_next().is_some() {}
                self.releasing.spawn(release(self.database.clone(), lost));
            }
            self.unanswered = None;
        }
        loop {
            let free = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                free = self.wait_for_slots() => free,
            };
            self.receive_wakes();
            if self.shared.lease.is_draining() {
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    _ = self.rest(self.shared.poll_interval) => continue,
                }
            }
            let is_due = Instant::now() >= self.search_at;
            let delays_search = std::mem::take(&mut self.claim_first) && is_due;
            if is_due && !delays_search {
                self.search(&mut session).await?;
            } else if self.busy_since.is_some() && Instant::now() >= self.check_at {
                self.check_recent(&session).await?;
            }
            let claimed = self.claim(&session, free.min(MAX)).await?;
            *pause = Duration::from_millis(50);
            if claimed > 0 {
                self.stay_busy(&session).await?;
                continue;
            }
            if delays_search {
                continue; // Delayed, not skipped: if others are always faster, every sleep may end with a notification.
            }
            self.busy_since = None;
            let rest_for = if self.cursors.wake_recent(Instant::now()) {
                LINGER
            } else {
                self.mark_waiting(&session).await?;
                self.sleep_time()
            };
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                has_timed_out = self.rest(rest_for) => {
                    if has_timed_out && rest_for > LINGER {
                        self.search_now();
                    }
                }
            }
        }
    }

    /// Returns the number of free slots, as soon as there are enough of them to make a claim worthwhile.
    async fn wait_for_slots(&mut self) -> usize {
        self.shared.lease.valid().await;
        let running = &self.shared.running;
        let ahead = loop {
            let ahead = self.pace.ahead(Instant::now(), running.ended()).min(self.shared.prefetch);
            if running.free(ahead) > 0 {
                break ahead;
            }
            running.freed().await;
        };
        let worthwhile = (running.capacity() / 4).clamp(1, 100).max(ahead / 2);
        // Prefetched jobs start meanwhile.
        let linger = if ahead > 0 { pace::HORIZON / 2 } else { LINGER };
        let until = tokio::time::Instant::from_std(self.last_claim + linger);
        // Slots that are reserved for other tenants are no reason to claim for a tenant that has all the rest.
        let kept_free = if self.cursors.holds_back() { running.kept_free() } else { 0 };
        while running.free(ahead) < worthwhile + kept_free
            && tokio::time::timeout_at(until, running.freed()).await.is_ok()
        {}
        running.free(ahead)
    }

    async fn search(&mut self, session: &mut Session) -> Result<()> {
        let began = Instant::now();
        let (lanes, is_shared) =
            store::worker::active_lanes(session, &self.shared.keys, self.shared.queues.as_deref()).await?;
        let now = Instant::now();
        self.is_shared = is_shared;
        self.pause_ends = now + SEARCH_GAP;
        self.is_search_requested = false;
        self.cursors.replace(lanes, now);
        self.search_at = now + SEARCH_EVERY.min(self.shared.poll_interval).max((now - began) * SEARCH_SHARE);
        Ok(())
    }

    /// Finds new work in the lanes that had some recently.
    async fn check_recent(&mut self, session: &Session) -> Result<()> {
        let began = Instant::now();
        let recent = self.cursors.recent(began);
        if !recent.is_empty() {
            self.cursors.found(&store::worker::lanes_with_work(session, &recent).await?);
        }
        let now = Instant::now();
        self.check_at = now + CHECK_EVERY.max((now - began) * CHECK_SHARE);
        Ok(())
    }

    /// Claims jobs and starts them. Returns how many.
    async fn claim(&mut self, session: &Session, slots: usize) -> Result<usize> {
        let began = Instant::now();
        // Another worker of this process may have taken the slots that were free a moment ago.
        let mut reserved = self.shared.running.reserve(slots, self.shared.prefetch);
        if reserved.count() == 0 {
            return Ok(0);
        }
        let dealt = {
            let mut shares = self.shared.running.shares(self.is_shared);
            self.cursors.deal_within(reserved.count(), began, |tenant, wanted| shares.take(tenant, wanted))
        };
        let Some(turn) = dealt else { return Ok(0) };
        let (by, token) =
            (Claimant { worker: self.shared.lease.worker(), epoch: self.epoch }, Uuid::new_v4());
        self.unanswered = Some(Unanswered { by, token, lanes: turn.wanted.lanes.clone() });
        let claimed = store::worker::claim(session, by, token, &turn.wanted, self.cursors.keys()).await?;
        self.unanswered = None;
        let now = Instant::now();
        self.last_claim = now;
        let taken = claimed.iter().map(|(lane, seq, claimed)| (*lane, *seq, claimed.payload.len()));
        self.cursors.settle(&turn, taken, now, now - began);
        let count = claimed.len();
        if count > 0 {
            metrics::histogram!("windlass_claim_batch_size").record(count as f64);
            self.shared.start(claimed.into_iter().map(|(_, _, claimed)| claimed), &mut reserved);
        }
        Ok(count)
    }

    async fn stay_busy(&mut self, session: &Session) -> Result<()> {
        let since = *self.busy_since.get_or_insert_with(Instant::now);
        if let Some(worker) = self.waits_as
            && since.elapsed() > BUSY_AFTER
        {
            self.waits_as = None;
            store::worker::set_waiting(session, worker, false).await?;
        }
        Ok(())
    }

    /// Marks the worker as waiting, once.
    async fn mark_waiting(&mut self, session: &Session) -> Result<()> {
        let worker = self.shared.lease.worker();
        if self.waits_as != Some(worker) && self.shared.listens {
            let is_notified = store::worker::set_waiting(session, worker, true).await?;
            self.waits_as = is_notified.then_some(worker);
            self.idle_rounds = 0;
        }
        Ok(())
    }

    /// Returns how long to sleep. An enqueue that checked before the worker was marked as waiting sends no notification
    /// and commits a moment later, so the first sleeps are short.
    fn sleep_time(&mut self) -> Duration {
        let rest_for = SETTLING.get(self.idle_rounds).copied().unwrap_or(self.shared.poll_interval);
        self.idle_rounds += 1;
        rest_for.min(self.shared.poll_interval)
    }

    /// Sleeps until a notification, until a slot is free that a tenant waits for, or for this long; returns true in the
    /// last case.
    async fn rest(&mut self, most: Duration) -> bool {
        tokio::select! {
            wake = self.wakes.recv() => {
                self.claim_first = true;
                self.wake(&wake);
                false
            }
            () = self.shared.running.freed(), if self.cursors.holds_back() => false,
            () = tokio::time::sleep_until(self.pause_ends.into()), if self.is_search_requested => false,
            () = tokio::time::sleep(most) => true,
        }
    }

    /// Processes the notifications that arrived while the feed was busy. Those that request a search get one together, after
    /// the pause that follows every search.
    fn receive_wakes(&mut self) {
        loop {
            match self.wakes.try_recv() {
                Ok(wake) => self.wake(&Ok(wake)),
                Err(broadcast::error::TryRecvError::Lagged(missed)) => {
                    self.wake(&Err(RecvError::Lagged(missed)));
                }
                Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => break,
            }
        }
        if self.is_search_requested && Instant::now() >= self.pause_ends {
            self.is_search_requested = false;
            self.search_now();
        }
    }

    fn wake(&mut self, wake: &Result<Wake, RecvError>) {
        match wake {
            Ok(Wake::Lane(lane)) => self.is_search_requested |= !self.cursors.wake(*lane, Instant::now()),
            Ok(Wake::LimitFreed(limit)) => {
                self.is_search_requested |= !self.cursors.wake_limit(*limit, Instant::now());
            }
            Ok(Wake::All) | Err(RecvError::Lagged(_)) => self.is_search_requested = true,
            Ok(Wake::Duty(_)) => {}
            // The worker keeps a sender, so this is the end of the worker.
            Err(RecvError::Closed) => {}
        }
    }

    fn search_now(&mut self) {
        self.search_at = Instant::now();
        self.claim_first = false;
    }
}

/// Releases, concurrently with the claims, jobs that another transaction had locked when the rest of their claim was
/// released. A worker that stops leaves them to the reaper.
async fn release(database: Database, lost: Unanswered) {
    const EVERY: Duration = Duration::from_secs(1);
    loop {
        tokio::time::sleep(EVERY).await;
        let Ok(session) = database.session().await else { continue };
        if let Ok(true) = store::worker::unclaim(&session, lost.by, lost.token, &lost.lanes).await {
            return;
        }
    }
}
