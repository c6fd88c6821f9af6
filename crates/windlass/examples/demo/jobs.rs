//! The handlers: one that is quick, one that fails now and then, one that polls, one that reports progress, one that
//! chains. Each is a few lines, as an application's would be.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass::job::backoff::Kind;
use windlass::{Backoff, Context, Definition, Done, Failure, Handler, NewJob, State};

pub(crate) const SEND_EMAIL: &str = SendEmail::KEY;
pub(crate) const CHARGE_CARD: &str = ChargeCard::KEY;
pub(crate) const AWAIT_TRANSCRIPT: &str = AwaitTranscript::KEY;
pub(crate) const RENDER_VIDEO: &str = RenderVideo::KEY;
pub(crate) const PUBLISH_POST: &str = PublishPost::KEY;

/// How long jobs waited, per tenant, newest last: it shows whether a small tenant waits behind a big one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits(Arc<Mutex<HashMap<Uuid, VecDeque<Duration>>>>);

impl Waits {
    const KEPT: usize = 200;

    fn note(&self, tenant: Uuid, wait: Duration) {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_tenant = waits.entry(tenant).or_default();
        if of_tenant.len() == Self::KEPT {
            of_tenant.pop_front();
        }
        of_tenant.push_back(wait);
    }

    pub(crate) fn median(&self, tenant: Uuid) -> Option<Duration> {
        let waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sorted: Vec<Duration> = waits.get(&tenant)?.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Email {
    pub(crate) to: String,
    /// Milliseconds since the epoch.
    pub(crate) sent_at: i64,
}

impl Email {
    pub(crate) fn new(to: impl Into<String>) -> Self {
        Self { to: to.into(), sent_at: Timestamp::now().as_millisecond() }
    }
}

/// Quick: most of what a queue does.
pub(crate) struct SendEmail {
    pub(crate) waits: Waits,
}

impl Handler for SendEmail {
    const KEY: &'static str = "send-email";
    type Args = Email;

    async fn run(&self, job: &Context, email: Email) -> Result<Done, Failure> {
        let wait = Timestamp::now().as_millisecond() - email.sent_at;
        self.waits.note(job.tenant_id(), Duration::from_millis(u64::try_from(wait).unwrap_or(0)));
        take(2, 20).await;
        Ok(Done::new())
    }

    fn definition(&self) -> Definition {
        kept_for_an_hour(Self::KEY).description("quick: a few milliseconds")
    }
}

/// Fails one time in four and is tried again soon; a declined card never is.
pub(crate) struct ChargeCard;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Charge {
    pub(crate) card: String,
    pub(crate) cents: u32,
}

impl Handler for ChargeCard {
    const KEY: &'static str = "charge-card";
    type Args = Charge;

    async fn run(&self, _: &Context, charge: Charge) -> Result<Done, Failure> {
        take(20, 120).await;
        match rand::random::<f64>() {
            luck if luck < 0.02 => Err(Failure::permanent("the card was declined")),
            luck if luck < 0.27 => Err(Failure::retry("the bank did not answer")),
            _ => Ok(Done::new().result(&charge.cents)),
        }
    }

    fn definition(&self) -> Definition {
        let backoff = Backoff {
            kind: Kind::Exponential,
            base_seconds: 0.5,
            factor: 2.0,
            cap_seconds: 4.0,
            jitter: 0.3,
        };
        kept_for_an_hour(Self::KEY)
            .description("fails one time in four, and is tried again with backoff")
            .max_attempts(4)
            .backoff(backoff)
    }
}

/// Asks another service until it is done, without holding a slot in between.
pub(crate) struct AwaitTranscript;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Transcript {
    pub(crate) operation: String,
}

impl Handler for AwaitTranscript {
    const KEY: &'static str = "await-transcript";
    type Args = Transcript;

    async fn run(&self, job: &Context, transcript: Transcript) -> Result<Done, Failure> {
        take(5, 20).await;
        if job.attempt() < 4 {
            return Ok(Done::snooze(Duration::from_millis(800)));
        }
        Ok(Done::new().artifact(&transcript.operation))
    }

    fn definition(&self) -> Definition {
        kept_for_an_hour(Self::KEY).description("polls: snoozes three times, then succeeds")
    }
}

/// Long, and says how far it is.
pub(crate) struct RenderVideo;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Video {
    pub(crate) frames: u16,
}

impl Handler for RenderVideo {
    const KEY: &'static str = "render-video";
    type Args = Video;

    async fn run(&self, job: &Context, video: Video) -> Result<Done, Failure> {
        for frame in 1..=video.frames {
            tokio::select! {
                () = job.stopped() => return Err(Failure::retry("told to stop")),
                () = take(40, 80) => {}
            }
            let percent = 100.0 * f32::from(frame) / f32::from(video.frames);
            job.progress(percent, &format!("frame {frame} of {}", video.frames));
        }
        Ok(Done::new().artifact(&format!("video/{}.mp4", job.job_id())))
    }

    fn definition(&self) -> Definition {
        kept_for_an_hour(Self::KEY).description("some seconds, with progress")
    }
}

/// Ends together with the enqueue of what follows it.
pub(crate) struct PublishPost;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Post {
    pub(crate) followers: u8,
}

impl Handler for PublishPost {
    const KEY: &'static str = "publish-post";
    type Args = Post;

    async fn run(&self, _: &Context, post: Post) -> Result<Done, Failure> {
        take(10, 40).await;
        let emails = (1..=post.followers).map(|follower| {
            NewJob::new(SEND_EMAIL).payload(&Email::new(format!("follower-{follower}@example.com")))
        });
        Ok(emails.fold(Done::new(), Done::then))
    }

    fn definition(&self) -> Definition {
        kept_for_an_hour(Self::KEY).description("waits for its video, then chains e-mails")
    }
}

fn kept_for_an_hour(key: &str) -> Definition {
    State::ALL
        .into_iter()
        .filter(|state| state.is_terminal())
        .fold(Definition::new(key), |definition, state| {
            definition.retention(state, Duration::from_secs(3600))
        })
}

async fn take(at_least: u64, at_most: u64) {
    tokio::time::sleep(Duration::from_millis(rand::random_range(at_least..=at_most))).await;
}
