//! Claims for everybody who waits, and hands out. One task per process: ten thousand idle claims cost one look at the
//! lanes a second and no statement each, and one bell wakes them.
//!
//! It is known to the database as a worker that never holds a job: that makes enqueuers ring, and lets a claim of its be
//! undone when the answer is lost. How it stops: on its token, after the claim under way is handed out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::groups::{Groups, Interest, MOST, Waiter};
use super::leftovers::{Leftover, Leftovers, Refused};
use super::{Definitions, PulledJob, WorkerNumbers};
use crate::error::Result;
use crate::model::job::claimed::Fence;
use crate::queue::identity::{hostname, new_worker_id};
use crate::queue::listen::Wake;
use crate::store;
use crate::store::database::{Database, Session};
use crate::store::pull::{ClaimSlots, Dealt, PRESENT};
use crate::store::worker::{Claimant, WorkerIntroduction};
use crate::telemetry;

/// How often the lanes are looked at without a bell, while somebody waits.
const POLL: Duration = Duration::from_secs(1);
/// How often those heard from are written down as present, and the dispatcher itself says that it lives.
const TOUCH: Duration = Duration::from_secs(5);
/// One who was written down is not again for this long, or ten thousand of them would be ten thousand writes each time.
const PRESENT_AGAIN: Duration = Duration::from_secs(25);
const LEASE_SECONDS: i32 = 30;
/// A statement that is not answered within this time is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

pub(super) struct Dispatcher {
    database: Database,
    arriving: mpsc::UnboundedReceiver<Waiter>,
    wakes: broadcast::Receiver<Wake>,
    definitions: Arc<Definitions>,
    names: WorkerNumbers,
    leftovers: Leftovers,
    me: WorkerIntroduction,
    worker: i32,
    is_waiting: bool,
    groups: Groups,
    quiet: HashSet<i32>,
    /// When each worker was last written down as present, and those heard from since the last look at this.
    present: HashMap<i32, Instant>,
    seen: HashSet<i32>,
    look_at: Option<Instant>,
    touch_at: Instant,
    /// The epoch in which the next claim is sent; see [`Claimant`].
    epoch: i32,
    /// A claim that was sent and whose answer has not come, with its tokens.
    unanswered: Option<(Claimant, Vec<Uuid>)>,
}

impl Dispatcher {
    pub(super) async fn start(
        database: Database,
        arriving: mpsc::UnboundedReceiver<Waiter>,
        wakes: broadcast::Receiver<Wake>,
        definitions: Arc<Definitions>,
        names: WorkerNumbers,
        leftovers: Leftovers,
    ) -> Result<Self> {
        let hostname = hostname();
        let me = WorkerIntroduction {
            worker_id: new_worker_id(&hostname),
            hostname,
            queues: None,
            definition_keys: Vec::new(),
            lease_seconds: LEASE_SECONDS,
            metadata: r#"{"kind": "dispatcher of pull workers"}"#.to_owned(),
        };
        let worker = store::worker::register(&database, &me).await?;
        Ok(Self {
            database,
            arriving,
            wakes,
            definitions,
            names,
            leftovers,
            me,
            worker,
            is_waiting: false,
            groups: Groups::default(),
            quiet: HashSet::new(),
            present: HashMap::new(),
            seen: HashSet::new(),
            look_at: None,
            touch_at: Instant::now() + TOUCH,
            epoch: 0,
            unanswered: None,
        })
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut pause = Duration::from_millis(50);
        while !stop.is_cancelled() {
            let Err(error) = self.dispatch(&stop, &mut pause).await else { break };
            telemetry::database_error("dispatcher", &error);
            self.is_waiting = false;
            self.look_at = Some(Instant::now());
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
        self.take_back(&session).await?;
        let mut has_more = false;
        loop {
            let wake_at = self.look_at.map_or(self.touch_at, |look| look.min(self.touch_at));
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                arrived = self.arriving.recv() => match arrived {
                    Some(waiter) => self.take_in(waiter),
                    None => return Ok(()),
                },
                wake = self.wakes.recv() => self.hear(&wake),
                () = std::future::ready(()), if has_more => {}
                () = self.leftovers.made_room() => {}
                () = tokio::time::sleep_until(wake_at.into()) => {}
            }
            while let Ok(waiter) = self.arriving.try_recv() {
                self.take_in(waiter);
            }
            loop {
                match self.wakes.try_recv() {
                    Ok(wake) => self.hear(&Ok(wake)),
                    Err(TryRecvError::Lagged(missed)) => self.hear(&Err(RecvError::Lagged(missed))),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            let now = Instant::now();
            if now >= self.touch_at {
                self.touch(&session, now).await?;
            }
            if self.look_at.is_some_and(|look| now >= look) {
                self.look(&mut session).await?;
            }
            // One claim for each group in turn: however much one has, the others wait for no more than that.
            has_more = false;
            for interest in self.groups.waiting() {
                if self.serve(&session, &interest).await? {
                    has_more = true;
                } else {
                    self.groups.dismiss_hasty(&interest);
                }
            }
            *pause = Duration::from_millis(50);
        }
    }

    fn take_in(&mut self, waiter: Waiter) {
        let now = Instant::now();
        self.seen.insert(waiter.worker);
        if self.groups.add(waiter, now) {
            self.look_at = Some(now);
        }
    }

    fn hear(&mut self, wake: &Result<Wake, RecvError>) {
        let now = Instant::now();
        let is_clear = match wake {
            Ok(Wake::Lane(lane)) => self.groups.wake(*lane, now),
            Ok(Wake::Room(room)) => self.groups.wake_room(*room, now),
            Ok(Wake::Duty(_)) => true,
            Ok(Wake::All) | Err(RecvError::Lagged(_)) => false,
            // The sender lives as long as the service.
            Err(RecvError::Closed) => true,
        };
        if !is_clear && !self.groups.is_empty() {
            self.look_at = Some(now);
        }
    }

    async fn look(&mut self, session: &mut Session) -> Result<()> {
        let is_first = !self.is_waiting;
        if is_first {
            // Before the look: whoever enqueues after it rings.
            self.is_waiting = store::worker::set_waiting(session, self.worker, true).await?;
        }
        let keys = self.groups.keys();
        let lanes = store::pull::active_lanes(session, keys.as_deref()).await?;
        let now = Instant::now();
        self.groups.replace(lanes, now);
        // An enqueuer that looked before our word was out does not ring, and commits a moment later.
        self.look_at = Some(now + if is_first { POLL / 10 } else { POLL });
        Ok(())
    }

    /// Claims once for a group; true if there may be more to give.
    async fn serve(&mut self, session: &Session, interest: &Interest) -> Result<bool> {
        let Some(group) = self.groups.get_mut(interest) else { return Ok(false) };
        if group.backlog.is_full() {
            return Ok(false);
        }
        let (slots, owners) = group.slots(|worker| self.quiet.contains(&worker));
        if owners.is_empty() {
            return Ok(false);
        }
        let began = Instant::now();
        let Some(turn) = group.lines.deal(owners.len(), began) else { return Ok(false) };
        let by = Claimant { worker: self.worker, epoch: self.epoch };
        self.unanswered = Some((by, slots.tokens.clone()));
        let (dealt, is_cut) =
            store::pull::claim(session, by, &turn.wanted, &slots, group.lines.keys()).await?;
        let taken = dealt.iter().map(|one| one.slot + 1).max().unwrap_or_default();
        if is_cut {
            // They are too large to be handed out at once: those whose rows were not kept go back, and fewer are claimed next time.
            // Until they have gone back the whole claim counts as unanswered: nobody holds the jobs that were kept.
            group.most = taken.max(1);
            store::pull::unclaim(session, by, &slots.tokens[taken..]).await?;
            self.epoch = by.epoch + 1;
        } else if taken == group.most {
            group.most = (group.most * 2).min(MOST);
        }
        self.unanswered = None;
        let now = Instant::now();
        let taken = dealt.iter().map(|one| (one.lane, one.seq, one.claimed.payload.len()));
        group.lines.settle(&turn, taken, now, now - began);
        if dealt.is_empty() {
            // The lanes that were asked rest now; others of the group may not.
            return Ok(true);
        }
        metrics::histogram!("windlass_claim_batch_size").record(dealt.len() as f64);
        self.hand_out(interest, dealt, &slots, &owners).await?;
        Ok(true)
    }

    async fn hand_out(
        &mut self,
        interest: &Interest,
        dealt: Vec<Dealt>,
        slots: &ClaimSlots,
        owners: &[usize],
    ) -> Result<()> {
        let Some(backlog) = self.groups.get_mut(interest).map(|group| group.backlog.clone()) else {
            return Ok(());
        };
        let mut given: Vec<Vec<PulledJob>> = Vec::new();
        for one in dealt {
            let fence = one.claimed.fence;
            let (known, meters) =
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
            if let Some(refusal) = known.refusal(&one.claimed) {
                let refused = Refused { claimed: one.claimed, known, meters, refusal };
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
        let Some(group) = self.groups.get_mut(interest) else { return Ok(()) };
        let mut left = Vec::new();
        // From the back, so that the positions before stay right.
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

    /// Undoes a claim whose answer never came.
    async fn take_back(&mut self, session: &Session) -> Result<()> {
        if let Some((by, tokens)) = &self.unanswered {
            store::pull::unclaim(session, *by, tokens).await?;
            self.epoch = by.epoch + 1;
            self.unanswered = None;
        }
        Ok(())
    }

    /// Says who is present, itself included, and hears who should be quiet.
    async fn touch(&mut self, session: &Session, now: Instant) -> Result<()> {
        self.touch_at = now + TOUCH;
        self.seen.extend(self.groups.tidy(now));
        let mut heard: Vec<i32> = self.seen.drain().collect();
        heard.retain(|worker| {
            self.present.get(worker).is_none_or(|&at| now.duration_since(at) >= PRESENT_AGAIN)
        });
        heard.sort_unstable();
        if !heard.is_empty() || !self.groups.is_empty() {
            let found = store::pull::touch(&self.database, &heard, PRESENT).await?;
            let gone: Vec<i32> = heard.iter().copied().filter(|worker| !found.contains_key(worker)).collect();
            if !gone.is_empty() {
                self.names.forget(&gone);
            }
            self.present.retain(|_, at| now.duration_since(*at) < PRESENT_AGAIN);
            self.present.extend(heard.into_iter().map(|worker| (worker, now)));
            self.quiet =
                found.into_iter().filter(|(_, is_quiet)| *is_quiet).map(|(worker, _)| worker).collect();
        }
        if self.groups.is_empty() && self.is_waiting {
            store::worker::set_waiting(session, self.worker, false).await?;
            self.is_waiting = false;
            self.look_at = None;
        }
        if store::worker::heartbeat(&self.database, self.worker, 0).await?.is_none() {
            // Declared dead, as after a long freeze. It held nothing.
            self.me.worker_id = new_worker_id(&self.me.hostname);
            self.worker = store::worker::register(&self.database, &self.me).await?;
            self.is_waiting = false;
            self.look_at = Some(now);
        }
        Ok(())
    }

    async fn leave(&mut self) -> Result<()> {
        let session = self.database.session().await?.patient_for(PATIENCE);
        self.take_back(&session).await?;
        drop(session);
        store::worker::stop(&self.database, self.worker).await
    }
}

fn job_of(one: Dealt, queue: String, lease_seconds: i32) -> PulledJob {
    let claimed = one.claimed;
    PulledJob {
        id: claimed.fence.job,
        tenant_id: claimed.fence.tenant,
        definition_key: claimed.definition_key.to_string(),
        queue,
        payload: RawValue::from_string(claimed.payload).unwrap_or_else(|_| RawValue::NULL.to_owned()),
        attempt: claimed.fence.attempt,
        max_attempts: claimed.budget.max_attempts,
        failures: claimed.budget.failures,
        fence: claimed.fence.encode(),
        lease_expires_at: one.lease_expires_at,
        lease_seconds,
        deadline: one.times_out_at,
        subject_type: claimed.extra.subject_type,
        subject_id: claimed.extra.subject_id,
        correlation_id: claimed.extra.correlation_id,
        source_ref: claimed.extra.source_ref,
        trace: claimed.extra.trace,
        tags: claimed.extra.tags.unwrap_or_default(),
        parent_id: claimed.extra.parent_id,
    }
}
