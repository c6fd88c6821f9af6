//! Claims jobs for all waiting claims and distributes them. One task per process: ten thousand idle claims cost one
//! search of the lanes per second and no statement each, and one notification wakes them.
//!
//! In the database it is a worker that never holds a job: so enqueues send notifications, and its claim can be undone
//! if the response is lost. It stops on its token, after the jobs of the current claim are distributed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::given::job_of;
use super::groups::{Arrivals, Groups, MAX, Waiter};
use super::interest::InterestId;
use super::known::KnownWorkers;
use super::leftovers::{Leftover, Leftovers, Refused};
use super::{Definitions, PulledJob};
use crate::error::Result;
use crate::model::job::claimed::Fence;
use crate::queue::identity::{hostname, new_worker_id};
use crate::queue::listen::Wake;
use crate::store;
use crate::store::database::{Database, Session};
use crate::store::pull::{ClaimSlots, Dealt, PRESENT};
use crate::store::worker::{Claimant, WorkerRegistration};
use crate::telemetry;

/// How often the lanes are searched without a notification, while a claim waits.
pub(super) const POLL: Duration = Duration::from_secs(1);
/// The time between two searches, however many notifications name lanes that are not known: any login can send them.
const SEARCH_GAP: Duration = Duration::from_millis(20);
/// How often active workers are marked as present, and the dispatcher sends its own heartbeat.
const TOUCH: Duration = Duration::from_secs(5);
/// A marked worker is not marked again for this long, or ten thousand of them would be ten thousand writes each time.
const PRESENT_AGAIN: Duration = Duration::from_secs(25);
const LEASE_SECONDS: i32 = 30;
/// A statement without a response within this time is abandoned.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

pub(super) struct Dispatcher {
    database: Database,
    /// Unbounded, but every claim in it holds a place of its tenant.
    arriving: mpsc::UnboundedReceiver<Waiter>,
    arrivals: Arrivals,
    wakes: broadcast::Receiver<Wake>,
    definitions: Arc<Definitions>,
    names: KnownWorkers,
    leftovers: Leftovers,
    me: WorkerRegistration,
    worker: i32,
    is_waiting: bool,
    groups: Groups,
    draining: HashSet<i32>,
    /// When each worker was last marked as present, and the workers that were active since the last check.
    present: HashMap<i32, Instant>,
    seen: HashSet<i32>,
    /// How often the lanes are searched without a notification, and when next.
    poll_interval: Duration,
    search_at: Option<Instant>,
    /// Before this, a notification causes no search.
    look_pause_ends: Instant,
    touch_at: Instant,
    /// The epoch in which the next claim is sent; see [`Claimant`].
    epoch: i32,
    /// A claim that was sent and has no response yet, with its tokens.
    unanswered: Option<(Claimant, Vec<Uuid>)>,
}

impl Dispatcher {
    pub(super) async fn start(
        database: Database,
        arriving: mpsc::UnboundedReceiver<Waiter>,
        wakes: broadcast::Receiver<Wake>,
        definitions: Arc<Definitions>,
        names: KnownWorkers,
        leftovers: Leftovers,
    ) -> Result<Self> {
        let hostname = hostname();
        let me = WorkerRegistration {
            worker_id: new_worker_id(&hostname),
            hostname,
            queues: None,
            definition_keys: Vec::new(),
            lease_seconds: LEASE_SECONDS,
            metadata: r#"{"kind": "pull dispatcher"}"#.to_owned(),
        };
        let worker = store::worker::register(&database, &me).await?;
        Ok(Self {
            database,
            arriving,
            arrivals: Arrivals::default(),
            wakes,
            definitions,
            names,
            leftovers,
            me,
            worker,
            is_waiting: false,
            groups: Groups::default(),
            draining: HashSet::new(),
            present: HashMap::new(),
            seen: HashSet::new(),
            poll_interval: POLL,
            search_at: None,
            look_pause_ends: Instant::now(),
            touch_at: Instant::now() + TOUCH,
            epoch: 0,
            unanswered: None,
        })
    }

    pub(super) fn poll_interval(mut self, every: Duration) -> Self {
        self.poll_interval = every;
        self
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut pause = Duration::from_millis(50);
        while !stop.is_cancelled() {
            let Err(error) = self.dispatch(&stop, &mut pause).await else { break };
            telemetry::database_error("dispatcher", &error);
            self.is_waiting = false;
            self.search_at = Some(Instant::now());
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())) => {}
            }
            pause = (pause * 2).min(Duration::from_secs(5));
        }
        if let Err(error) = self.leave().await {
            telemetry::database_error("dispatcher", &error);
        }
    }

    /// Dispatches on one connection until that fails or the service stops.
    async fn dispatch(&mut self, stop: &CancellationToken, pause: &mut Duration) -> Result<()> {
        let mut session = self.database.session().await?.patient_for(PATIENCE);
        self.release_lost_claim(&session).await?;
        let mut has_more = false;
        loop {
            let wake_at = self.search_at.map_or(self.touch_at, |search| search.min(self.touch_at));
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = self.leftovers.made_room() => self.groups.retry_stuck(),
                arrived = self.arriving.recv() => match arrived {
                    Some(waiter) => self.arrivals.push(waiter),
                    None => return Ok(()),
                },
                wake = self.wakes.recv() => self.receive(&wake),
                () = std::future::ready(()), if has_more => {}
                () = tokio::time::sleep_until(wake_at.into()) => {}
            }
            while let Ok(waiter) = self.arriving.try_recv() {
                self.arrivals.push(waiter);
            }
            for waiter in self.arrivals.turn() {
                self.seen.insert(waiter.worker);
                self.groups.add(waiter, Instant::now());
            }
            loop {
                match self.wakes.try_recv() {
                    Ok(wake) => self.receive(&Ok(wake)),
                    Err(TryRecvError::Lagged(missed)) => self.receive(&Err(RecvError::Lagged(missed))),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            let now = Instant::now();
            if now >= self.touch_at {
                self.touch(&session, now).await?;
            }
            let is_due = self.search_at.is_some_and(|search| now >= search);
            if is_due || self.groups.has_fresh() {
                self.search(&mut session, is_due).await?;
            }
            // One claim for each tenant in turn: regardless of how much one requests or has, the others wait for no more
            // than that.
            for interest in self.groups.turn() {
                if self.serve(&session, interest).await? {
                    self.groups.mark(interest);
                } else {
                    self.groups.mark_stuck(interest);
                }
                self.groups.note_use(interest);
            }
            self.groups.end_claims_without_wait();
            has_more = self.groups.has_ready() || !self.arrivals.is_empty();
            *pause = Duration::from_millis(50);
            tokio::task::yield_now().await;
        }
    }

    fn receive(&mut self, wake: &Result<Wake, RecvError>) {
        let now = Instant::now();
        let is_clear = match wake {
            Ok(Wake::Lane(lane)) => self.groups.wake(*lane, now),
            Ok(Wake::LimitFreed(limit)) => self.groups.wake_limit(*limit, now),
            Ok(Wake::Duty(_)) => true,
            Ok(Wake::All) | Err(RecvError::Lagged(_)) => false,
            // The sender lives as long as the service.
            Err(RecvError::Closed) => true,
        };
        if !is_clear && !self.groups.is_empty() {
            let at = now.max(self.look_pause_ends);
            self.search_at = Some(self.search_at.map_or(at, |search| search.min(at)));
        }
    }

    /// Searches the lanes: those of all groups, or only of the groups that need it.
    async fn search(&mut self, session: &mut Session, is_due: bool) -> Result<()> {
        let is_first = !self.is_waiting;
        if is_first {
            // Before the search: every later enqueue sends a notification.
            self.is_waiting = store::worker::set_waiting(session, self.worker, true).await?;
        }
        let is_whole = is_first || is_due;
        let keys = if is_whole { self.groups.keys() } else { self.groups.fresh_keys() };
        let lanes = store::pull::active_lanes(session, keys.as_deref()).await?;
        let now = Instant::now();
        self.look_pause_ends = now + SEARCH_GAP;
        if !is_whole {
            self.groups.replace_fresh(lanes, now);
            return Ok(());
        }
        self.groups.replace(lanes, now);
        // An enqueue that checked before the dispatcher was marked as waiting sends no notification, and commits a
        // moment later.
        self.search_at = Some(now + if is_first { POLL / 10 } else { self.poll_interval });
        Ok(())
    }

    /// Claims once for a group; returns true if there may be more jobs for it.
    async fn serve(&mut self, session: &Session, interest: InterestId) -> Result<bool> {
        let Some(group) = self.groups.group(interest) else { return Ok(false) };
        if group.backlog.is_full() {
            return Ok(false);
        }
        let (slots, owners) = group.slots(|worker| self.draining.contains(&worker));
        if owners.is_empty() {
            return Ok(false);
        }
        let began = Instant::now();
        let Some(turn) = group.cursors.deal(owners.len(), began) else { return Ok(false) };
        let by = Claimant { worker: self.worker, epoch: self.epoch };
        self.unanswered = Some((by, slots.tokens.clone()));
        let (dealt, is_cut) =
            store::pull::claim(session, by, &turn.wanted, &slots, group.cursors.keys()).await?;
        let taken = dealt.iter().map(|one| one.slot + 1).max().unwrap_or_default();
        if is_cut {
            // They are too large to be distributed at once: jobs whose rows were not kept are released, and fewer are
            // claimed next time. Until they are released the whole claim counts as unanswered: no worker holds the jobs
            // that were kept.
            group.most = taken.max(1);
            store::pull::unclaim(session, by, &slots.tokens[taken..]).await?;
            self.epoch = by.epoch + 1;
        } else if taken == group.most {
            group.most = (group.most * 2).min(MAX);
        }
        self.unanswered = None;
        let now = Instant::now();
        let taken = dealt.iter().map(|one| (one.lane, one.seq, one.claimed.payload.len()));
        group.cursors.settle(&turn, taken, now, now - began);
        if dealt.is_empty() {
            // The lanes of this claim rest now; others of the group may not.
            return Ok(true);
        }
        metrics::histogram!("windlass_claim_batch_size").record(dealt.len() as f64);
        self.hand_out(interest, dealt, &slots, &owners).await?;
        Ok(true)
    }

    async fn hand_out(
        &mut self,
        interest: InterestId,
        dealt: Vec<Dealt>,
        slots: &ClaimSlots,
        owners: &[usize],
    ) -> Result<()> {
        let Some(backlog) = self.groups.group(interest).map(|group| group.backlog.clone()) else {
            return Ok(());
        };
        let mut given: Vec<Vec<PulledJob>> = Vec::new();
        for one in dealt {
            let fence = one.claimed.fence;
            let (compiled, meters) =
                match self.definitions.get(&self.database, &one.claimed.definition_key).await {
                    Ok(read) => read,
                    Err(error) => {
                        telemetry::database_error("dispatcher", &error);
                        self.leftovers.leave(Leftover::Unclaimed(fence), &backlog);
                        continue;
                    }
                };
            meters.claimed.increment(1);
            meters.queue_seconds.record(one.claimed.queued_ms.max(0) as f64 / 1000.0);
            if let Some(refusal) = compiled.refusal(&one.claimed) {
                let refused = Refused { claimed: one.claimed, compiled, meters, refusal };
                self.leftovers.leave(Leftover::Refused(Box::new(refused)), &backlog);
                continue;
            }
            let Some(&owner) = owners.get(one.slot) else {
                self.leftovers.leave(Leftover::Unclaimed(fence), &backlog);
                continue;
            };
            let queue = self.groups.queue_of(one.lane).unwrap_or_default().to_owned();
            let lease_seconds = slots.lease_seconds.get(one.slot).copied().unwrap_or_default();
            if given.len() <= owner {
                given.resize_with(owner + 1, Vec::new);
            }
            given[owner].push(job_of(one, queue, lease_seconds));
        }
        let Some(group) = self.groups.group(interest) else { return Ok(()) };
        let mut left = Vec::new();
        // From the end, so that the positions before stay valid.
        for (owner, jobs) in given.into_iter().enumerate().rev().filter(|(_, jobs)| !jobs.is_empty()) {
            match group.waiters.remove(owner) {
                Some(waiter) => left.extend(waiter.answer(jobs).err().unwrap_or_default()),
                None => left.extend(jobs),
            }
        }
        for job in left {
            if let Some(fence) = Fence::decode(&job.fence) {
                self.leftovers.leave(Leftover::Unclaimed(fence), &backlog);
            }
        }
        Ok(())
    }

    /// Releases a claim whose response was lost.
    async fn release_lost_claim(&mut self, session: &Session) -> Result<()> {
        if let Some((by, tokens)) = &self.unanswered {
            store::pull::unclaim(session, *by, tokens).await?;
            self.epoch = by.epoch + 1;
            self.unanswered = None;
        }
        Ok(())
    }

    /// Marks workers as present, sends the dispatcher's heartbeat, and reads which workers are draining.
    async fn touch(&mut self, session: &Session, now: Instant) -> Result<()> {
        self.touch_at = now + TOUCH;
        self.seen.extend(self.groups.tidy(now));
        // Which workers are draining may have changed.
        self.groups.retry_stuck();
        let mut workers: Vec<i32> = self.seen.drain().collect();
        workers.retain(|worker| {
            self.present.get(worker).is_none_or(|&at| now.duration_since(at) >= PRESENT_AGAIN)
        });
        workers.sort_unstable();
        if !workers.is_empty() || !self.groups.is_empty() {
            let found = store::pull::touch(&self.database, &workers, PRESENT).await?;
            let gone: Vec<i32> =
                workers.iter().copied().filter(|worker| !found.contains_key(worker)).collect();
            if !gone.is_empty() {
                self.names.forget(&gone);
            }
            self.present.retain(|_, at| now.duration_since(*at) < PRESENT_AGAIN);
            self.present.extend(workers.into_iter().map(|worker| (worker, now)));
            self.draining =
                found.into_iter().filter(|(_, is_draining)| *is_draining).map(|(worker, _)| worker).collect();
        }
        if self.groups.is_empty() && self.is_waiting {
            store::worker::set_waiting(session, self.worker, false).await?;
            self.is_waiting = false;
            self.search_at = None;
        }
        if store::worker::heartbeat(&self.database, self.worker, 0).await?.is_none() {
            // The lease expired, for example after a long suspension. It held no jobs.
            self.me.worker_id = new_worker_id(&self.me.hostname);
            self.worker = store::worker::register(&self.database, &self.me).await?;
            self.is_waiting = false;
            self.search_at = Some(now);
        }
        Ok(())
    }

    async fn leave(&mut self) -> Result<()> {
        let session = self.database.session().await?.patient_for(PATIENCE);
        self.release_lost_claim(&session).await?;
        drop(session);
        store::worker::stop(&self.database, self.worker).await
    }
}
