//! Enqueueing: one job, or many with a result for each.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Duration;
use utoipa::ToSchema;
use uuid::Uuid;
use windlass::internals::{CheckedJob, Placed};
use windlass::job::{IfUnmet, State as JobState, Unique};
use windlass::{NewJob, Queue};

use crate::auth::Caller;
use crate::http::{App, Fault, IdempotencyKey, PayloadBody, Problem, Time, parse, replay, store_response};

/// A new job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJobBody {
    /// The key of the definition.
    #[schema(min_length = 1, max_length = 500, example = "recompute-trained-tags")]
    definition_key: String,
    /// Must match the `arg_schema` of the definition (default: an empty object).
    #[schema(value_type = Option<Value>, example = json!({"model": "siglip"}))]
    payload: Option<Box<RawValue>>,
    /// Lower numbers run first among the jobs of the tenant; limited to the bounds of the definition.
    #[schema(minimum = 0, maximum = 1000, example = 100)]
    priority: Option<u16>,
    /// The earliest start.
    #[schema(value_type = Option<String>, format = DateTime)]
    scheduled_for: Option<Time>,
    /// The earliest start, as seconds from now.
    #[schema(minimum = 0, maximum = 315_360_000)]
    delay_seconds: Option<u32>,
    /// At most one job may hold the key, depending on the uniqueness of the definition.
    #[schema(min_length = 1, max_length = 500, example = "tenant:bcg:training:daily")]
    dedupe_key: Option<String>,
    /// How long the dedupe key is held (default: as in the definition).
    #[schema(value_type = Option<Object>)]
    uniqueness: Option<Unique>,
    /// Jobs with the same key run one at a time, in order.
    #[schema(min_length = 1, max_length = 500)]
    ordering_key: Option<String>,
    /// Jobs that must end first.
    #[schema(max_items = 100)]
    #[serde(default)]
    depends_on: Vec<Uuid>,
    /// What happens to this job if a dependency does not succeed.
    if_unmet: Option<Unmet>,
    /// The queue (default: that of the definition).
    #[schema(min_length = 1, max_length = 100)]
    queue: Option<String>,
    /// The type of the entity that the job is about; requires `subject_id`.
    #[schema(min_length = 1, max_length = 500)]
    subject_type: Option<String>,
    /// The id of the entity that the job is about; requires `subject_type`.
    #[schema(min_length = 1, max_length = 500)]
    subject_id: Option<String>,
    #[schema(max_items = 20)]
    #[serde(default)]
    tags: Vec<String>,
    /// An id shared by the jobs of one request or event.
    #[schema(min_length = 1, max_length = 500)]
    correlation_id: Option<String>,
    #[schema(minimum = 1, maximum = 1000)]
    max_attempts: Option<u16>,
    /// The instant by which the job must have ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline: Option<Time>,
    /// A W3C traceparent.
    #[schema(min_length = 1, max_length = 500)]
    trace: Option<String>,
}

/// What happens to a job if a dependency does not succeed.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unmet {
    Cancel,
    Run,
    Wait,
}

/// The created or existing job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobCreated {
    #[schema(example = "6f46a1d8-6e2b-4ecf-8b46-9ec2e6a37f09")]
    id: Uuid,
    tenant_id: Uuid,
    /// Null if the job that held the key was purged: the key outlives it.
    #[schema(value_type = Option<String>, example = "queued")]
    status: Option<JobState>,
    #[schema(example = "recompute-trained-tags")]
    definition_key: String,
    #[schema(value_type = Option<String>, format = DateTime)]
    queued_at: Option<jiff::Timestamp>,
}

/// The maximum number of dependencies of the jobs of one request together. Each is a row in three indexes, written in one
/// transaction.
const MAX_DEPENDENCIES_OF_ALL: usize = 5000;

impl NewJobBody {
    fn job(self, caller: &Caller) -> Result<NewJob, Problem> {
        let max_delay = NewJob::MAX_DELAY.as_secs();
        if self.delay_seconds.is_some_and(|delay| u64::from(delay) > max_delay) {
            return Err(Problem::invalid("/delay_seconds", format!("must be at most {max_delay}")));
        }
        let mut job = NewJob::new(self.definition_key)
            .tenant(caller.tenant())
            .subject_fields(self.subject_type, self.subject_id);
        if let Some(payload) = self.payload {
            job = job.payload_json(payload.get());
        }
        job = self.depends_on.into_iter().fold(job, NewJob::depends_on);
        job = self.tags.into_iter().fold(job, NewJob::tag);
        job = set(job, caller.user_id(), NewJob::created_by);
        job = set(job, self.priority.map(i32::from), NewJob::priority);
        job = set(job, self.scheduled_for.map(|at| at.0), NewJob::scheduled_for);
        job = set(job, self.delay_seconds.map(|delay| Duration::from_secs(delay.into())), NewJob::delay);
        job = set(job, self.dedupe_key, NewJob::dedupe_key);
        job = set(job, self.uniqueness, NewJob::unique);
        job = set(job, self.ordering_key, NewJob::ordering_key);
        job = set(job, self.if_unmet.map(Into::into), NewJob::if_unmet);
        job = set(job, self.queue, NewJob::queue);
        job = set(job, self.correlation_id, NewJob::correlation_id);
        job = set(job, self.max_attempts, NewJob::max_attempts);
        job = set(job, self.deadline.map(|at| at.0), NewJob::deadline);
        Ok(set(job, self.trace, NewJob::trace))
    }
}

fn set<T>(job: NewJob, value: Option<T>, with: impl FnOnce(NewJob, T) -> NewJob) -> NewJob {
    match value {
        Some(value) => with(job, value),
        None => job,
    }
}

impl From<Unmet> for IfUnmet {
    fn from(unmet: Unmet) -> Self {
        match unmet {
            Unmet::Cancel => Self::Cancel,
            Unmet::Run => Self::Run,
            Unmet::Wait => Self::Wait,
        }
    }
}

/// Enqueue a job
///
/// Returns 201 once the job is durable, or 200 with the existing job that holds the dedupe key.
#[utoipa::path(
    post, path = "/api/v1/jobs", tag = "jobs", request_body = NewJobBody,
    responses((status = 201, body = JobCreated), (status = 200, body = JobCreated, description = "A job with this dedupe key exists"))
)]
pub(crate) async fn enqueue(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    body: PayloadBody<NewJobBody>,
) -> Result<Response, Problem> {
    let job = body.value.job(&caller)?;
    let tenant = caller.tenant();
    if key.key.is_none() {
        let placed = app.queue().enqueue_as(tenant, &caller.actor(), &job).await?;
        return respond(status_of(&placed), &JobCreated::of(tenant, placed));
    }
    // Checked before the transaction, which holds the only connection of the request. A repeated request gets the stored response,
    // even if the job would be rejected now.
    let checked = app.queue().check_job(&job).await;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let placed = acting.enqueue(&checked?).await?;
    let (status, created) = (status_of(&placed), JobCreated::of(tenant, placed));
    store_response(&acting, &key, status, &to_value(&created)?).await?;
    acting.commit().await?;
    respond(status, &created)
}

impl JobCreated {
    fn of(tenant_id: Uuid, placed: Placed) -> Self {
        let Placed { enqueued, definition_key, queued_at } = placed;
        Self { id: enqueued.id, tenant_id, status: enqueued.state, definition_key, queued_at }
    }
}

fn status_of(placed: &Placed) -> StatusCode {
    if placed.enqueued.is_duplicate { StatusCode::OK } else { StatusCode::CREATED }
}

fn respond(status: StatusCode, created: &JobCreated) -> Result<Response, Problem> {
    let mut response = (status, Json(created)).into_response();
    if let Ok(place) = HeaderValue::from_str(&format!("/api/v1/jobs/{}", created.id)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

fn to_value(value: &impl Serialize) -> Result<serde_json::Value, Problem> {
    serde_json::to_value(value).map_err(|error| Problem::invalid("", error.to_string()))
}

/// New jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJobs {
    /// Each as in `POST /api/v1/jobs`; each is validated separately. Their `depends_on` have at most 5000 jobs together.
    #[schema(min_items = 1, max_items = 1000, value_type = Vec<Object>)]
    jobs: Vec<Box<RawValue>>,
}

/// The results, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobsCreated {
    /// The number of created jobs.
    created: usize,
    results: Vec<JobResult>,
}

/// The result for one job: the job, or the problem.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobResult {
    /// 201, 200 for a duplicate, or the status of the problem.
    #[schema(example = 201)]
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobCreated>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Fault>,
}

impl From<Problem> for JobResult {
    fn from(problem: Problem) -> Self {
        let status = problem.kind.status().as_u16();
        Self { status, job: None, detail: Some(problem.detail), errors: problem.errors }
    }
}

const MAX_JOBS: usize = 1000;

/// Enqueue many jobs
///
/// The valid jobs are enqueued in one transaction; each job has its own result.
#[utoipa::path(
    post, path = "/api/v1/jobs/bulk", tag = "jobs", request_body = NewJobs,
    responses((status = 200, body = JobsCreated))
)]
pub(crate) async fn enqueue_many(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    body: PayloadBody<NewJobs>,
) -> Result<Response, Problem> {
    if body.value.jobs.is_empty() || body.value.jobs.len() > MAX_JOBS {
        return Err(Problem::invalid("/jobs", format!("must have 1 to {MAX_JOBS} jobs")));
    }
    if let Some(at) = body.value.jobs.iter().position(|job| !job.get().starts_with('{')) {
        return Err(Problem::invalid(format!("/jobs/{at}"), "must be an object"));
    }
    let mut dependencies = 0;
    let mut read = |raw: &RawValue| -> Result<NewJob, Problem> {
        let body: NewJobBody = parse(raw.get())?;
        dependencies += body.depends_on.len();
        body.job(&caller)
    };
    let jobs: Vec<Result<NewJob, Problem>> = body.value.jobs.iter().map(|raw| read(raw)).collect();
    if dependencies > MAX_DEPENDENCIES_OF_ALL {
        let message = format!(
            "depends_on of all jobs together must have at most {MAX_DEPENDENCIES_OF_ALL} jobs, not {dependencies}; send several requests"
        );
        return Err(Problem::invalid("/jobs", message));
    }
    let (valid, problems) = check_each(app.queue(), &jobs).await?;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let mut placed = acting.enqueue_each(&valid).await?.into_iter();
    let results: Vec<JobResult> = problems
        .into_iter()
        .map(|problem| {
            let one = problem
                .map_or_else(|| placed.next().map_or_else(lost, |one| one.map_err(Problem::from)), Err);
            match one {
                Ok(placed) => JobResult {
                    status: status_of(&placed).as_u16(),
                    job: Some(JobCreated::of(caller.tenant(), placed)),
                    detail: None,
                    errors: Vec::new(),
                },
                Err(problem) => problem.into(),
            }
        })
        .collect();
    let created = results.iter().filter(|result| result.status == 201).count();
    let response = to_value(&JobsCreated { created, results })?;
    store_response(&acting, &key, StatusCode::OK, &response).await?;
    acting.commit().await?;
    Ok(Json(response).into_response())
}

/// The valid jobs, and the problem of each invalid one. Checked before the transaction starts: see
/// [`windlass::internals::CheckedJob`].
async fn check_each<'a>(
    queue: &Queue,
    jobs: &'a [Result<NewJob, Problem>],
) -> Result<(Vec<CheckedJob<'a>>, Vec<Option<Problem>>), Problem> {
    let mut valid = Vec::with_capacity(jobs.len());
    let mut problems = Vec::with_capacity(jobs.len());
    for job in jobs {
        let problem = match job {
            Err(problem) => Some(problem.clone()),
            Ok(job) => match queue.check_job(job).await {
                Ok(checked) => {
                    valid.push(checked);
                    None
                }
                Err(error) if error.is_transient() => return Err(error.into()),
                Err(error) => Some(error.into()),
            },
        };
        problems.push(problem);
    }
    Ok((valid, problems))
}

fn lost() -> Result<Placed, Problem> {
    Err(Problem::of(crate::http::ProblemKind::Internal, "the job has no result"))
}
