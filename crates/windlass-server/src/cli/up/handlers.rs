//! The handlers of the demo: four job definitions of a picture library. They report progress and log lines; one is sometimes
//! retried, one polls another service, and one sometimes fails permanently. Each is a few lines, as in an application.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::job::{Backoff, OnTimeout, State};
use windlass::{Context, Definition, Done, Failure, Handler, JobArgs};

/// Reads a provider's changes page by page, then has the new pictures tagged.
pub(super) struct SyncDropbox;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sync {
    #[schemars(extend("format" = "uuid"))]
    pub(super) provider_id: String,
    #[serde(default)]
    pub(super) path_prefix: Option<String>,
}

impl JobArgs for Sync {
    const KEY: &'static str = "sync-dropbox";
}

impl Handler for SyncDropbox {
    type Args = Sync;

    async fn run(&self, job: &Context, sync: Sync) -> Result<Done, Failure> {
        let pages = rand::random_range(4..12_u16);
        let prefix = sync.path_prefix.as_deref().unwrap_or("/");
        job.log(&format!("reading the changes below {prefix}"));
        for page in 1..=pages {
            step(job, 80, 250).await?;
            job.log(&format!("page {page}: 25 pictures, {} of them new", rand::random_range(0..=25)));
            job.progress(percent(page, pages), &format!("page {page} of {pages} below {prefix}"));
        }
        let pictures = u32::from(pages) * 25;
        let tag = Model { model: "siglip".to_owned() }.job().subject("provider", &*sync.provider_id);
        Ok(Done::new().result(&json!({"pages": pages, "pictures": pictures})).then(tag))
    }

    fn definition(&self) -> Definition {
        short_lived(Sync::KEY).description("Sync provider updates for tenant; chains a recompute of its tags")
    }
}

/// The service sometimes fails: retried with backoff, a dead letter when it runs out of attempts.
pub(super) struct RecomputeTags;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    pub(super) model: String,
}

impl JobArgs for Model {
    const KEY: &'static str = "recompute-trained-tags";
}

impl Handler for RecomputeTags {
    type Args = Model;

    async fn run(&self, job: &Context, model: Model) -> Result<Done, Failure> {
        job.log(&format!("calling the service for {}, attempt {}", model.model, job.attempt()));
        step(job, 100, 600).await?;
        if rand::random::<f64>() < 0.3 {
            return Err(Failure::retry(format!("the service for {} returned 503", model.model)));
        }
        Ok(Done::new().result(&json!({"model": model.model, "tagged": rand::random_range(10..400)})))
    }

    fn definition(&self) -> Definition {
        let backoff = Backoff::exponential(Duration::from_secs(2), Duration::from_secs(30)).jitter(0.3);
        short_lived(Model::KEY)
            .description("Recompute tags with a trained model; its service is sometimes unavailable")
            .backoff(backoff)
    }
}

/// Starts an operation of another service and polls until it is done, without holding a slot in between.
pub(super) struct RecomputeZeroshot;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Labels {
    #[serde(default)]
    pub(super) labels: Vec<String>,
}

impl JobArgs for Labels {
    const KEY: &'static str = "recompute-zeroshot-tags";
}

impl Handler for RecomputeZeroshot {
    type Args = Labels;

    async fn run(&self, job: &Context, labels: Labels) -> Result<Done, Failure> {
        step(job, 50, 150).await?;
        if job.attempt() < 4 {
            job.progress(job.attempt() as f32 * 25.0, "waiting for the operation");
            return Ok(Done::snooze(Duration::from_secs(2)));
        }
        Ok(Done::new().result(&json!({"labels": labels.labels.len()})))
    }

    fn definition(&self) -> Definition {
        short_lived(Labels::KEY)
            .description("Recompute tags without training; polls until the operation is done")
    }
}

/// Long, with progress; can be canceled; sometimes its input is invalid and a retry cannot help.
pub(super) struct TrainModels;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Training {
    #[schemars(range(min = 1, max = 1000))]
    pub(super) keywords: u16,
}

impl JobArgs for Training {
    const KEY: &'static str = "train-keyword-models";
}

impl Handler for TrainModels {
    type Args = Training;

    async fn run(&self, job: &Context, training: Training) -> Result<Done, Failure> {
        for keyword in 1..=training.keywords {
            step(job, 150, 400).await?;
            job.log(&format!("trained keyword {keyword}: loss {:.3}", 1.0 / f64::from(keyword + 1)));
            job.progress(
                percent(keyword, training.keywords),
                &format!("keyword {keyword} of {}", training.keywords),
            );
            if training.keywords.is_multiple_of(13) && keyword > training.keywords / 2 {
                return Err(Failure::permanent(format!("keyword {keyword} has no pictures to train on")));
            }
        }
        Ok(Done::new().artifact(&format!("models/{}.bin", job.job_id())))
    }

    fn definition(&self) -> Definition {
        short_lived(Training::KEY)
            .description("Train one model per keyword; a multiple of 13 keywords fails permanently")
            .timeout(Duration::from_secs(600), OnTimeout::Fail)
    }
}

/// Jobs are kept for a day: a demo that keeps running should not fill the disk.
fn short_lived(key: &str) -> Definition {
    let ended = State::ALL.into_iter().filter(|state| state.is_terminal());
    ended.fold(Definition::new(key), |definition, state| {
        definition.retention(state, Duration::from_secs(24 * 3600))
    })
}

fn percent(part: u16, whole: u16) -> f32 {
    100.0 * f32::from(part) / f32::from(whole.max(1))
}

/// Simulates work until it is done or the job must stop.
async fn step(job: &Context, at_least: u64, at_most: u64) -> Result<(), Failure> {
    tokio::select! {
        () = job.stopped() => Err(Failure::retry("stop requested")),
        () = tokio::time::sleep(Duration::from_millis(rand::random_range(at_least..=at_most))) => Ok(()),
    }
}
