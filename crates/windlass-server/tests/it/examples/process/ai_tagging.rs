//! `examples/ai-tagging`: posts in, tags out, with a real HTTP function in between.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::Worker;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::worker::HttpEndpoint;
use windlass_testing::{TestQueue, eventually};

use super::{Program, folder, load, worker};

const SECRET: &str = "a secret of this test alone";

/// The application with its function and the worker that calls it.
struct App {
    queue: TestQueue,
    client: Client,
    account: Uuid,
    workspace: Uuid,
}

#[derive(Deserialize)]
struct WorkerFile {
    http: BTreeMap<String, HttpEndpoint>,
}

impl App {
    async fn new() -> Self {
        let queue = TestQueue::create().await;
        load(queue.url(), "ai-tagging", &["schema.sql", "members.sql"]).await;
        let client = queue.client().await;
        // Retries that are short enough for a test.
        client
            .execute("select windlass.define(jsonb_build_object('key', 'ai-tagging', 'backoff',
                '{\"kind\": \"fixed\", \"base_seconds\": 0.05, \"factor\": 1, \"cap_seconds\": 1, \"jitter\": 0}'::jsonb))", &[])
            .await
            .unwrap();
        let (workspace, account) = workspace(&client, "noodle-club").await;
        Self { queue, client, account, workspace }
    }

    async fn function(&self) -> Program {
        let environment = [("DATABASE_URL", self.queue.url()), ("AI_TAGGING_SECRET", SECRET), ("PORT", "0")];
        Program::start("ai-tagging", &["function.py"], &environment).await
    }

    /// The endpoint of `worker.toml`, at this address.
    async fn worker(&self, address: &str) -> Worker {
        let text = std::fs::read_to_string(folder("ai-tagging").join("worker.toml")).unwrap();
        let mut endpoint = toml::from_str::<WorkerFile>(&text).unwrap().http.remove("ai-tagging").unwrap();
        endpoint.url = address.to_owned();
        endpoint.allow = vec![address.trim_start_matches("http://").to_owned()];
        endpoint.secret = Some(SECRET.into());
        worker(&self.queue).http("ai-tagging", &endpoint).unwrap().start().await.unwrap()
    }

    async fn post(&self, content: &str) -> Uuid {
        post(&self.client, self.account, content).await
    }

    async fn status(&self, post: Uuid) -> String {
        status(&self.client, post).await
    }

    async fn until(&self, post: Uuid, wanted: &str) {
        eventually(&format!("{post} is {wanted}"), async || self.status(post).await == wanted).await;
    }
}

async fn workspace(client: &Client, slug: &str) -> (Uuid, Uuid) {
    let open = "insert into workspaces (id, slug, name) values (gen_random_uuid(), $1, $1) returning id";
    let workspace: Uuid = client.query_one(open, &[&slug]).await.unwrap().get(0);
    let add = "insert into workspace_threads_accounts (workspace_id, handle) values ($1, $2) returning id";
    (workspace, client.query_one(add, &[&workspace, &slug]).await.unwrap().get(0))
}

async fn post(client: &Client, account: Uuid, content: &str) -> Uuid {
    let add = "insert into workspace_threads_posts (workspace_threads_account_id, content) values ($1, $2) returning id";
    client.query_one(add, &[&account, &content]).await.unwrap().get(0)
}

/// The status of a post's only job.
async fn status(client: &Client, post: Uuid) -> String {
    let read = "select status from windlass.jobs where subject_type = 'post' and subject_id = $1::uuid::text";
    let rows = client.query(read, &[&post]).await.unwrap();
    assert!(rows.len() < 2, "a post has one job");
    rows.first().map_or("gone".to_owned(), |row| row.get(0))
}

async fn count(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn synced_posts_are_tagged_in_batches_of_ten_and_once_forever() {
    let app = App::new().await;
    let client = &app.client;
    let sync = "insert into workspace_threads_posts (id, workspace_threads_account_id, content)
        select md5(n::text)::uuid, $1, 'ramen by the night train, take ' || n from generate_series(1, 30) n
        on conflict (id) do update set content = excluded.content";
    client.execute(sync, &[&app.account]).await.unwrap();
    let function = app.function().await;
    let worker = app.worker(&function.address).await;
    let untagged = "select count(*) from workspace_threads_posts where ai_tags is null";
    eventually("all are tagged", async || count(client, untagged).await == 0).await;
    let tags: Vec<String> =
        client.query_one("select ai_tags from workspace_threads_posts limit 1", &[]).await.unwrap().get(0);
    assert_eq!(tags, ["food", "travel"]);
    let done =
        "select count(*) from windlass.jobs where status = 'succeeded' and result ->> 'model' = 'rules-1'";
    eventually("all jobs are settled", async || count(client, done).await == 30).await;
    assert_eq!(count(client, "select count(*) from llm_usage_logs").await, 30, "one call each");
    // The runs of one call start in one claim, so they share their start.
    let largest = "select max(n) from (select count(*) n from windlass.job_attempts group by started_at) b";
    assert_eq!(count(client, largest).await, 10, "ten posts in one call, and never more");

    // The next sync contains the same posts; nothing is enqueued, not even after the seven days.
    client.execute(sync, &[&app.account]).await.unwrap();
    assert_eq!(count(client, "select count(*) from windlass.jobs").await, 30);
    worker.stop().await.unwrap();
    let aged = "update windlass.history set started_at = started_at - interval '8 days', finished_at = finished_at - interval '8 days';
        update windlass.keeper_mark set reached = reached - interval '8 days'";
    client.batch_execute(aged).await.unwrap();
    let keeper = Keeper::new(app.queue.queue().clone(), KeeperSettings::default());
    assert_eq!(keeper.run_once(Duty::Prune).await.unwrap().moved, 30);
    assert_eq!(count(client, "select count(*) from windlass.jobs").await, 0);
    let again = "select is_duplicate from windlass.enqueue('ai-tagging', jsonb_build_object('post_id', $1::uuid), tenant_id => $2,
        dedupe_key => 'post ' || $1::uuid)";
    let post: Uuid =
        client.query_one("select id from workspace_threads_posts limit 1", &[]).await.unwrap().get(0);
    assert!(client.query_one(again, &[&post, &app.workspace]).await.unwrap().get::<_, bool>(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_function_takes_three_attempts_and_can_be_retried() {
    let app = App::new().await;
    let mut function = app.function().await;
    let worker = app.worker(&function.address).await;
    let (empty, good) = (app.post("   ").await, app.post("咖啡 #morning").await);
    app.until(good, "succeeded").await;
    app.until(empty, "failed").await;
    let attempts = "select attempt_count, last_error from windlass.jobs where subject_id = $1::uuid::text";
    let row = app.client.query_one(attempts, &[&empty]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1)), (1, "the post has no text"));

    function.kill().await;
    let late = app.post("a phone with a camera").await;
    app.until(late, "dead_letter").await;
    let row = app.client.query_one(attempts, &[&late]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 3, "{:?}", row.get::<_, Option<&str>>(1));
    worker.stop().await.unwrap();

    let function = app.function().await;
    let worker = app.worker(&function.address).await;
    let retry = "select r.result from windlass.jobs j, windlass.retry(j.tenant_id, j.id, 'a person') r where j.subject_id = $1::uuid::text";
    app.client.query_one(retry, &[&late]).await.unwrap();
    app.until(late, "succeeded").await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn members_read_their_own_workspace_and_write_nothing() {
    let app = App::new().await;
    let (_, other) = workspace(&app.client, "night-train").await;
    let (mine, theirs) = (app.post("ramen").await, post(&app.client, other, "train").await);
    let user = Uuid::new_v4();
    let join = "insert into workspace_members (workspace_id, user_id) values ($1, $2)";
    app.client.execute(join, &[&app.workspace, &user]).await.unwrap();

    let member = app.queue.client().await;
    let claims = json!({"sub": user}).to_string();
    member.execute("select set_config('request.jwt.claims', $1, false)", &[&claims]).await.unwrap();
    member.batch_execute("set role authenticated").await.unwrap();
    let row = member
        .query_one("select post_id, status, attempts, max_attempts from ai_tag_queue", &[])
        .await
        .unwrap();
    assert_eq!((row.get::<_, Uuid>(0), row.get::<_, &str>(1)), (mine, "pending"));
    assert_eq!((row.get::<_, i32>(2), row.get::<_, i32>(3)), (0, 3));
    assert_eq!(count(&member, "select count(*) from workspace_threads_posts").await, 1);
    for refused in [
        "insert into workspace_threads_posts (workspace_threads_account_id, content) select workspace_threads_account_id, 'x' from ai_tag_queue",
        "delete from workspace_threads_posts",
        "delete from ai_tag_queue",
        "update ai_tag_queue set status = 'completed'",
        "select * from windlass.jobs",
        "select windlass.enqueue('ai-tagging', '{}')",
        "select save_ai_tags('[]')",
    ] {
        let error = member.batch_execute(refused).await.expect_err(refused);
        let code = error.code().map(|code| code.code().to_owned());
        assert!(matches!(code.as_deref(), Some("42501" | "55000")), "{refused}: {error:?}");
    }
    assert_eq!(
        (app.status(mine).await, status(&app.client, theirs).await),
        ("queued".into(), "queued".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_post_account_or_workspace_are_deleted_with_it() {
    let app = App::new().await;
    let client = &app.client;
    let posts = [app.post("ramen").await, app.post("train").await, app.post("phone").await];
    let function = app.function().await;
    let worker = app.worker(&function.address).await;
    app.until(posts[0], "succeeded").await;
    worker.stop().await.unwrap();
    drop(function);
    let waiting = app.post("marathon").await;

    client.execute("delete from workspace_threads_posts where id = $1", &[&posts[0]]).await.unwrap();
    assert_eq!(app.status(posts[0]).await, "gone");
    assert_eq!(app.status(waiting).await, "queued");
    client.execute("delete from workspace_threads_accounts where id = $1", &[&app.account]).await.unwrap();
    assert_eq!(count(client, "select count(*) from windlass.jobs").await, 0);

    let (other, account) = workspace(client, "night-train").await;
    post(client, account, "train").await;
    client.execute("delete from workspaces where id = $1", &[&other]).await.unwrap();
    assert_eq!(count(client, "select count(*) from windlass.jobs").await, 0);
    let tenants = "select count(*) from windlass.tenants where slug = 'night-train'";
    let keeper = Keeper::new(app.queue.queue().clone(), KeeperSettings::default());
    eventually("its tenant is deleted as well", async || {
        keeper.run_once(Duty::PurgeTenants).await.unwrap();
        count(client, tenants).await == 0
    })
    .await;
}
