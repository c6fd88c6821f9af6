//! Reading jobs and acting on many: filters, pages, and the driving table of each state.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use serde_json::json;
use uuid::Uuid;
use windlass::job::{Filter, Source, State};
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, NewJob, Worker};
use windlass_testing::{TestQueue, eventually};

struct Obey;

windlass_testing::payload!(ObeyArgs(serde_json::Value) = "obey");

impl Handler for Obey {
    type Args = ObeyArgs;

    async fn run(&self, job: &Context, ObeyArgs(args): ObeyArgs) -> Result<Done, Failure> {
        match args["do"].as_str() {
            Some("fail") => Err(Failure::permanent("as instructed")),
            Some("die") => Err(Failure::retry("as instructed")),
            Some("hang") => {
                job.progress(40.0, "hanging");
                job.stopped().await;
                Err(Failure::retry("stopped"))
            }
            _ => Ok(Done::new().result(&json!({ "n": 1 })).artifact(&"s3://there")),
        }
    }

    fn definition(&self) -> Definition {
        Definition::of::<ObeyArgs>().max_attempts(1)
    }
}

fn instructed(what: &str, tenant: Uuid) -> NewJob {
    NewJob::new("obey").payload(&json!({ "do": what })).tenant(tenant)
}

/// One job in each state, and the worker that keeps one of them running.
async fn one_in_each_state(queue: &TestQueue, tenant: Uuid) -> (Worker, Vec<(State, Uuid)>) {
    queue.define(&Definition::new("unserved")).await.unwrap();
    let worker = Worker::builder(queue).handler(Obey).grace(Duration::ZERO).start().await.unwrap();
    let queued = queue.enqueue(&NewJob::new("unserved").tenant(tenant)).await.unwrap().id;
    let later = NewJob::new("unserved").tenant(tenant).delay(Duration::from_secs(3600));
    let blocked = NewJob::new("unserved").tenant(tenant).depends_on(queued);
    let canceled = queue.enqueue(&NewJob::new("unserved").tenant(tenant)).await.unwrap().id;
    queue.cancel(tenant, canceled).await.unwrap();
    let jobs = vec![
        (State::Queued, queued),
        (State::Scheduled, queue.enqueue(&later).await.unwrap().id),
        (State::Blocked, queue.enqueue(&blocked).await.unwrap().id),
        (State::Canceled, canceled),
        (State::Running, queue.enqueue(&instructed("hang", tenant)).await.unwrap().id),
        (State::Succeeded, queue.enqueue(&instructed("succeed", tenant)).await.unwrap().id),
        (State::Failed, queue.enqueue(&instructed("fail", tenant)).await.unwrap().id),
        (State::DeadLetter, queue.enqueue(&instructed("die", tenant)).await.unwrap().id),
    ];
    eventually("every job is in its state", async || {
        for (state, id) in &jobs {
            if queue.job(tenant, *id).await.unwrap().unwrap().status != *state {
                return false;
            }
        }
        true
    })
    .await;
    (worker, jobs)
}

#[tokio::test]
async fn each_state_lists_its_jobs_and_no_others() {
    let queue = TestQueue::create().await;
    let (tenant, other) = (queue.tenant("acme").await, queue.tenant("other").await);
    let (worker, jobs) = one_in_each_state(&queue, tenant).await;
    for (state, id) in &jobs {
        let page = queue.list(&Filter::new(tenant).state(*state)).await.unwrap();
        let found: Vec<(State, Uuid)> = page.jobs.iter().map(|job| (job.status, job.id)).collect();
        assert_eq!(found, [(*state, *id)]);
        assert_eq!(page.next, None);
        assert_eq!(queue.list(&Filter::new(other).state(*state)).await.unwrap().jobs, []);
        // With a narrower condition another table is read first, and the result is the same.
        let narrow = Filter::new(tenant).state(*state).ids(jobs.iter().map(|(_, id)| *id));
        assert_eq!(queue.list(&narrow).await.unwrap().jobs[0].id, *id);
        assert_eq!(queue.count_matching(&narrow).await.unwrap(), 1);
    }
    let all = queue.list(&Filter::new(tenant)).await.unwrap().jobs;
    let expected: BTreeSet<Uuid> = jobs.iter().map(|(_, id)| *id).collect();
    assert_eq!(all.iter().map(|job| job.id).collect::<BTreeSet<_>>(), expected);
    assert!(all.is_sorted_by(|newer, older| newer.id > older.id), "newest first");

    let counts = queue.counts(Some(tenant)).await.unwrap();
    for state in State::ALL {
        assert_eq!(counts.iter().map(|row| row.of(state)).sum::<i64>(), 1, "{state}");
    }
    assert_eq!(queue.counts(Some(other)).await.unwrap(), []);
    assert_eq!(queue.counts(None).await.unwrap(), counts);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_job_has_its_complete_history() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("acme").await;
    let worker = Worker::builder(&queue).handler(Obey).grace(Duration::ZERO).start().await.unwrap();
    let id = queue.enqueue(&instructed("succeed", tenant).subject("image", "7").tag("red")).await.unwrap().id;
    let hanging = queue.enqueue(&instructed("hang", tenant)).await.unwrap().id;
    eventually("one has succeeded and one reports", async || {
        let done = queue.job(tenant, id).await.unwrap().unwrap();
        let running = queue.job(tenant, hanging).await.unwrap().unwrap();
        done.status == State::Succeeded && running.progress_percent == Some(40.0)
    })
    .await;

    let job = queue.job(tenant, id).await.unwrap().unwrap();
    assert_eq!((job.definition_key.as_str(), job.queue.as_str()), ("obey", "default"));
    assert_eq!((job.result, job.artifact), (Some(json!({ "n": 1 })), Some(json!("s3://there"))));
    assert_eq!((job.attempt_count, job.max_attempts, job.last_error), (1, 1, None));
    assert_eq!(job.claimed_by_worker.as_deref(), Some(worker.id()));
    assert!(job.queued_at <= job.started_at.unwrap() && job.started_at <= job.finished_at);
    assert_eq!(
        (job.subject_type.as_deref(), job.subject_id.as_deref(), job.tags),
        (Some("image"), Some("7"), vec!["red".to_owned()])
    );

    let running = queue.job(tenant, hanging).await.unwrap().unwrap();
    assert!(running.lease_expires_at.is_some() && running.finished_at.is_none());
    let attempts = queue.attempts(tenant, hanging).await.unwrap();
    assert_eq!((attempts.len(), attempts[0].status.as_str(), attempts[0].attempt_no), (1, "running", 1));
    let attempts = queue.attempts(tenant, id).await.unwrap();
    assert_eq!((attempts.len(), attempts[0].status.as_str()), (1, "succeeded"));
    assert_eq!(attempts[0].worker_id.as_deref(), Some(worker.id()));

    assert_eq!(queue.job(queue.tenant("other").await, id).await.unwrap(), None);
    let fields = serde_json::to_value(queue.job(tenant, id).await.unwrap()).unwrap();
    assert_eq!(fields["status"], "succeeded");
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repeat() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("acme").await;
    queue.define(&Definition::new("a")).await.unwrap();
    let new: Vec<NewJob> =
        (0..25).map(|_| NewJob::new("a").tenant(tenant).tag("x").subject("s", "1")).collect();
    let mut expected: Vec<Uuid> = queue.enqueue_many(&new).await.unwrap().iter().map(|job| job.id).collect();
    expected.sort_unstable_by(|a, b| b.cmp(a));
    let filters = [
        Filter::new(tenant),
        Filter::new(tenant).state(State::Queued),
        Filter::new(tenant).tag("x"),
        Filter::new(tenant).subject("s", "1"),
    ];
    for filter in filters {
        let mut filter = filter.limit(10);
        let mut seen = Vec::new();
        loop {
            let page = queue.list(&filter).await.unwrap();
            seen.extend(page.jobs.iter().map(|job| job.id));
            match page.next {
                Some(next) => filter = filter.older_than(next),
                None => break,
            }
        }
        assert_eq!(seen, expected, "{filter:?}");
    }
}

#[tokio::test]
async fn every_condition_filters() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("acme").await;
    for key in ["a", "b"] {
        queue.define(&Definition::new(key)).await.unwrap();
    }
    let plain = |key: &str| NewJob::new(key).tenant(tenant);
    let meant = plain("a")
        .queue("images")
        .subject("image", "1")
        .tag("red")
        .tag("blue")
        .correlation_id("request")
        .source(Source::Event, Some("e".into()));
    let meant = queue.enqueue(&meant).await.unwrap().id;
    for other in
        [plain("b"), plain("a"), plain("a").subject("image", "2").tag("green").correlation_id("other")]
    {
        queue.enqueue(&other).await.unwrap();
    }
    let now = Timestamp::now();
    let filter = || Filter::new(tenant);
    let narrowed = [
        filter().queue("images"),
        filter().queue("images").state(State::Queued),
        filter().definition_key("a").queue("images"),
        filter().subject("image", "1"),
        filter().tag("blue"),
        filter().tag("red").state(State::Queued).definition_key("a"),
        filter().correlation_id("request"),
        filter().source(Source::Event),
        filter().source(Source::Event).state(State::Queued),
        filter().ids([meant]),
        filter().ids([meant]).created_after(now - 1.hour()).created_before(now + 1.hour()),
    ];
    for filter in narrowed {
        let found: Vec<Uuid> = queue.list(&filter).await.unwrap().jobs.iter().map(|job| job.id).collect();
        assert_eq!(found, [meant], "{filter:?}");
    }
    let nothing = [
        filter().queue("videos"),
        filter().definition_key("c"),
        filter().subject("image", "3"),
        filter().subject("video", "1"),
        filter().tag("re"),
        filter().correlation_id("req"),
        filter().ids([]),
        filter().state(State::Running),
        filter().state(State::Queued).created_before(now - 1.hour()),
        filter().created_after(now + 1.hour()),
        filter().created_after(now + 1.hour()).state(State::Queued),
    ];
    for filter in nothing {
        assert_eq!(queue.list(&filter).await.unwrap().jobs, [], "{filter:?}");
    }
    assert_eq!(queue.count_matching(&filter().definition_key("a")).await.unwrap(), 3);
}

#[tokio::test]
async fn many_are_canceled_retried_and_purged_by_filter() {
    let queue = TestQueue::create().await;
    let (tenant, other) = (queue.tenant("acme").await, queue.tenant("other").await);
    queue.define(&Definition::new("a")).await.unwrap();
    for tenant in [tenant, other] {
        let new: Vec<NewJob> = (0..1200)
            .map(|n| NewJob::new("a").tenant(tenant).tag(if n % 2 == 0 { "even" } else { "odd" }))
            .collect();
        queue.enqueue_many(&new).await.unwrap();
    }
    let even = Filter::new(tenant).tag("even");
    assert_eq!(queue.count_matching(&even).await.unwrap(), 600);
    assert_eq!(queue.cancel_matching(&even).await.unwrap(), 600);
    assert_eq!(queue.cancel_matching(&even).await.unwrap(), 0, "they have ended");
    let canceled = Filter::new(tenant).state(State::Canceled);
    assert_eq!(queue.count_matching(&canceled).await.unwrap(), 600);

    assert_eq!(
        queue.retry_matching(&Filter::new(tenant), "somebody").await.unwrap(),
        600,
        "only those that ended"
    );
    assert_eq!(queue.count_matching(&canceled).await.unwrap(), 0);
    assert_eq!(queue.count_matching(&Filter::new(tenant).state(State::Queued)).await.unwrap(), 1200);
    assert_eq!(queue.purge_matching(&even).await.unwrap(), 600);
    // One row for each transaction, with the filter; together they name every changed job.
    let audited = "select action, sum((after ->> 'changed')::integer)::bigint, sum(jsonb_array_length(after -> 'ids'))::bigint,
            bool_and(actor = 'login:' || session_user || case action when 'job.retry_many' then ' as somebody' else '' end)
        from windlass.audit where tenant_id = $1 and after -> 'filter' = any ($2) group by action order by action";
    let filters = [json!({}), json!({"tag": "even"})];
    let rows = queue.client().await.query(audited, &[&tenant, &filters.as_slice()]).await.unwrap();
    let rows: Vec<(String, i64, i64, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    let all = |action: &str| (action.to_owned(), 600, 600, true);
    assert_eq!(rows, [all("job.cancel_many"), all("job.delete_many"), all("job.retry_many")]);
    assert_eq!(queue.count_matching(&Filter::new(tenant)).await.unwrap(), 600);
    assert_eq!(queue.purge_matching(&Filter::new(tenant)).await.unwrap(), 600);
    assert_eq!(queue.list(&Filter::new(tenant)).await.unwrap().jobs, []);
    assert_eq!(
        queue.count_matching(&Filter::new(other)).await.unwrap(),
        1200,
        "those of another tenant are unchanged"
    );
    let left = queue.counts(Some(tenant)).await.unwrap();
    assert!(left.iter().all(|row| State::ALL.iter().all(|state| row.of(*state) == 0)), "{left:?}");
}

/// A filter by tag uses a different statement: the other conditions must mean the same to both.
#[tokio::test]
async fn a_filter_means_the_same_with_a_tag_and_without() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("acme").await;
    for key in ["a", "b"] {
        queue.define(&Definition::new(key)).await.unwrap();
    }
    let mut ids = Vec::new();
    for n in 0..24_u32 {
        let mut new = NewJob::new(if n % 2 == 0 { "a" } else { "b" }).tenant(tenant).tag("all");
        if n % 3 == 0 {
            new = new.queue("images").subject("image", format!("{}", n % 4));
        }
        if n % 5 == 0 {
            new = new.correlation_id("request").source(Source::Event, None);
        }
        ids.push(queue.enqueue(&new).await.unwrap().id);
    }
    for id in ids.iter().step_by(4) {
        queue.cancel(tenant, *id).await.unwrap();
    }
    let middle = queue.job(tenant, ids[12]).await.unwrap().unwrap().queued_at;
    let all = || Filter::new(tenant);
    let filters = [
        all(),
        all().definition_key("a"),
        all().queue("images"),
        all().definition_key("b").queue("images"),
        all().source(Source::Event),
        all().subject("image", "0"),
        all().correlation_id("request"),
        all().ids(ids.iter().copied().skip(5).step_by(2)),
        all().created_after(middle),
        all().created_before(middle),
        all().state(State::Canceled).ids(ids.clone()),
        all().state(State::Queued).ids(ids.clone()),
        all().older_than(ids[17]),
        all().limit(7),
        all().limit(7).older_than(ids[20]).definition_key("b"),
    ];
    for filter in filters {
        let plain = queue.list(&filter).await.unwrap();
        let tagged = queue.list(&filter.clone().tag("all")).await.unwrap();
        assert!(!plain.jobs.is_empty(), "{filter:?}");
        assert_eq!(tagged, plain, "{filter:?}");
        assert_eq!(queue.list(&filter.clone().tag("none")).await.unwrap().jobs, [], "{filter:?}");
    }
}

#[tokio::test]
async fn a_search_finds_payload_text_in_any_notation() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let compact = r#"{"user":{"name":"Zoë","tags":["x","y"]},"n":5}"#;
    let spaced = r#"{"user": {"name": "Zoë", "tags": ["x", "y"]}, "n": 5}"#;
    let escaped = r#"{"user":{"name":"Zo\u00eb","tags":["x","y"]},"n":5}"#;
    let indented =
        "{\n  \"user\": {\n    \"name\": \"Zoë\",\n    \"tags\": [\n \"x\",\n \"y\"\n]\n  },\n  \"n\": 5\n}";
    for text in [compact, spaced, escaped, indented] {
        queue.enqueue(&NewJob::new("a").payload_json(text)).await.unwrap();
    }
    queue.enqueue(&NewJob::new("a").payload(&json!({"user": {"name": "Zola"}}))).await.unwrap();
    windlass::enqueue_in(&queue.client().await, &NewJob::new("a").payload_json(compact)).await.unwrap();
    for words in ["zoë", r#""name": "Zoë""#, r#""name":"zoë""#, r#"["x", "y"]"#, r#""n":5"#] {
        let found = queue.list(&Filter::new(DEFAULT_TENANT).mentions(words)).await.unwrap().jobs;
        assert_eq!(found.len(), 5, "{words}");
    }
}

/// Jobs of one batch share a row of the line; removing one from its middle must not move the others under a reader.
#[tokio::test]
async fn a_cancel_in_the_middle_of_a_batch_repeats_and_skips_no_job_of_the_next_page() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("unserved")).await.unwrap();
    let new: Vec<NewJob> = (0..20).map(|_| NewJob::new("unserved")).collect();
    let jobs: Vec<Uuid> = queue.enqueue_many(&new).await.unwrap().iter().map(|one| one.id).collect();
    let filter = Filter::new(DEFAULT_TENANT).state(State::Queued).limit(4);
    let mut seen: Vec<Uuid> = Vec::new();
    let mut next = None;
    // Before each further page, one shown job, one that was not shown, and the first queued one are canceled.
    for canceled in [[18, 2, 0], [13, 3, 1], [9, 4, 5]] {
        let page =
            queue.list(&next.map_or(filter.clone(), |next| filter.clone().older_than(next))).await.unwrap();
        seen.extend(page.jobs.iter().map(|job| job.id));
        next = page.next;
        for position in canceled {
            queue.cancel(DEFAULT_TENANT, jobs[position]).await.unwrap();
        }
    }
    let page = queue.list(&filter.older_than(next.unwrap())).await.unwrap();
    seen.extend(page.jobs.iter().map(|job| job.id));
    let removed: BTreeSet<usize> = [2, 0, 3, 1, 4, 5].into();
    let wanted: Vec<Uuid> = (0..20).rev().filter(|n| !removed.contains(n)).map(|n| jobs[n]).collect();
    assert_eq!(seen.iter().filter(|id| wanted.contains(id)).copied().collect::<Vec<_>>(), wanted);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len(), "none is shown twice");
}
