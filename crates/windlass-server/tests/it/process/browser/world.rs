//! Two tenants like those of document 004 with jobs in every state, and a worker that runs the jobs of the tests.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::job::{Backoff, Filter, State};
use windlass::schedule::NewTrigger;
use windlass::{Context, Definition, Done, Failure, Handler, NewJob, Worker};
use windlass_server::auth::Role;
use windlass_server::http::Options;
use windlass_testing::eventually;

use crate::support::TestServer;

pub(crate) struct World {
    pub(crate) server: TestServer,
    pub(crate) acme: Uuid,
    pub(crate) globex: Uuid,
    /// Has no data at all.
    pub(crate) initech: Uuid,
    worker: Option<Worker>,
}

/// Does what its payload requests: logs, reports, waits for its cancel, fails.
struct Obey<const WHICH: usize>;

const KEYS: [&str; 4] =
    ["sync-dropbox", "recompute-trained-tags", "train-keyword-models", "recompute-zeroshot-tags"];

macro_rules! obey {
    ($which:literal, $args:ident) => {
        windlass_testing::payload!($args(Value) = KEYS[$which]);

        impl Handler for Obey<$which> {
            type Args = $args;

            async fn run(&self, job: &Context, $args(args): $args) -> Result<Done, Failure> {
                run(job, &args).await
            }

            fn definition(&self) -> Definition {
                definition($which)
            }
        }
    };
}
obey!(0, SyncArgs);
obey!(1, TagArgs);
obey!(2, TrainArgs);
obey!(3, ZeroshotArgs);

async fn run(job: &Context, args: &Value) -> Result<Done, Failure> {
    job.log("listing /photos");
    job.log("1 204 entries, 3 new");
    match args["path_prefix"].as_str().unwrap_or_default() {
        "/fail" => {
            job.log("connection to provider 4711 refused");
            Err(Failure::retry(format!("connection to provider {} refused after 30 s", job.attempt())))
        }
        line if line.starts_with("/say ") => {
            job.log(line.trim_start_matches("/say "));
            Err(Failure::retry(line.trim_start_matches("/say ")))
        }
        given if given.starts_with("/give ") => {
            let text = given.trim_start_matches("/give ");
            Ok(Done::new().result(&json!({text: [text, {"nested": text}]})))
        }
        "/broken" => Err(Failure::permanent("the folder /broken is not shared with us")),
        "/wait" => {
            job.progress(40.0, "of 1 204 photos");
            job.log("waiting for the provider");
            job.stopped().await;
            Err(Failure::retry("stopped"))
        }
        _ => {
            job.log("done");
            Ok(Done::new().result(&json!({"synced": 3, "skipped": 1201})))
        }
    }
}

fn definition(which: usize) -> Definition {
    let schema = json!({
        "type": "object",
        "properties": {
            "provider_id": {"type": "string", "format": "uuid", "title": "Provider", "description": "The connection to sync."},
            "path_prefix": {"type": "string", "title": "Folder", "description": "Only below this folder."},
            "deep": {"type": "boolean", "title": "Look into archives"},
            "limit": {"type": "integer", "title": "At most", "minimum": 1}
        },
        "required": ["provider_id"],
        "additionalProperties": false
    });
    let texts = [
        "Sync provider updates for the tenant",
        "Recompute tags of trained models",
        "Train keyword models",
        "Recompute zero-shot tags",
    ];
    Definition::new(KEYS[which])
        .description(texts[which])
        .arg_schema(schema)
        .queue(if which == 2 { "training" } else { "default" })
        .max_attempts(if which == 3 { 1 } else { 3 })
        .backoff(Backoff::fixed(Duration::from_secs(900)).jitter(0.0))
}

pub(crate) const PROVIDER: &str = "6f46a1d8-6e2b-4ecf-8b46-9ec2e6a37f09";

pub(crate) fn job(which: usize, tenant: Uuid, path: &str) -> NewJob {
    NewJob::new(KEYS[which]).tenant(tenant).payload(&json!({"provider_id": PROVIDER, "path_prefix": path}))
}

impl World {
    /// The tenants, the definitions and the worker; no jobs.
    pub(crate) async fn quiet() -> Self {
        let server = TestServer::start_with(Options { component_page: true, ..Options::default() }).await;
        let acme = server.queue.ensure_tenant("acme", "Acme Photos", 1).await.unwrap();
        let globex = server.queue.ensure_tenant("globex", "Globex Archive", 1).await.unwrap();
        let initech = server.queue.ensure_tenant("initech", "Initech", 1).await.unwrap();
        let worker = Worker::builder(&server.queue)
            .handler(Obey::<0>)
            .handler(Obey::<1>)
            .handler(Obey::<2>)
            .handler(Obey::<3>)
            .poll_interval(Duration::from_millis(50))
            .grace(Duration::ZERO)
            .start()
            .await
            .unwrap();
        Self { server, acme, globex, initech, worker: Some(worker) }
    }

    /// With a history: jobs in every state, and an hour of activity as a keeper would have summed it.
    pub(crate) async fn busy() -> Self {
        let world = Self::quiet().await;
        let queue = &world.server.queue;
        queue
            .define(
                &Definition::new("export-archive")
                    .queue("exports")
                    .description("No worker has a handler for it"),
            )
            .await
            .unwrap();
        let mut last = Vec::new();
        for index in 0..36 {
            let job = job(index % 3, world.acme, "/photos")
                .subject("photo", (4700 + index).to_string())
                .tag("nightly");
            last.push((queue.enqueue(&job).await.unwrap().id, State::Succeeded));
        }
        for _ in 0..4 {
            last.push((queue.enqueue(&job(3, world.acme, "/fail")).await.unwrap().id, State::DeadLetter));
        }
        last.push((queue.enqueue(&job(0, world.acme, "/broken")).await.unwrap().id, State::Failed));
        last.push((queue.enqueue(&job(1, world.acme, "/fail")).await.unwrap().id, State::Scheduled));
        last.push((queue.enqueue(&job(1, world.acme, "/wait")).await.unwrap().id, State::Running));
        let waiting = NewJob::new("export-archive").tenant(world.acme);
        let queued = queue.enqueue(&waiting).await.unwrap().id;
        queue.enqueue(&waiting.clone().depends_on(queued)).await.unwrap();
        queue.enqueue(&waiting.clone().delay(Duration::from_secs(7200))).await.unwrap();
        let canceled = queue.enqueue(&waiting).await.unwrap().id;
        queue.cancel(world.acme, canceled).await.unwrap();
        queue.enqueue(&job(0, world.globex, "/secret-of-globex")).await.unwrap();
        eventually("every job is in its state", async || {
            for (id, state) in &last {
                if queue.job(world.acme, *id).await.unwrap().is_none_or(|job| job.status != *state) {
                    return false;
                }
            }
            true
        })
        .await;
        world.remember_an_hour().await;
        world.spread_runs().await;
        world
    }

    async fn remember_an_hour(&self) {
        let wave = "insert into windlass.activity (tenant_id, queue, at, succeeded, failed, queued, running)
            select t, q, date_bin('15 seconds', now(), 'epoch') - n * interval '15 seconds',
                   (40 + 30 * sin(n / 20.0) + (n * 7919) % 13)::bigint, case when n % 17 = 0 then 3 + n % 5 else 0 end,
                   greatest(0, 20 + 25 * sin(n / 30.0))::bigint, 4
              from generate_series(3, 238) n, unnest(array['00000000-0000-0000-0000-000000000000'::uuid, $1]) t,
                   unnest(array['default', 'training']) q
            on conflict do nothing";
        self.server.queue.client().await.execute(wave, &[&self.acme]).await.unwrap();
    }

    /// Changes the runs of Acme's jobs as if they had happened over the last hour, and taken from milliseconds to a minute.
    async fn spread_runs(&self) {
        let spread = "with one as (
              select h.tenant_id, h.job_id, h.attempt, row_number() over (order by h.job_id desc) as n
                from windlass.history h where h.tenant_id = $1 and h.attempt > 0),
            run as (
              select o.*, now() - interval '70 seconds' - make_interval(secs => o.n * 71 + (o.n * 7919) % 23) as at,
                     make_interval(secs => 0.05 * exp(((o.n * 37) % 50) / 7.0)) as took,
                     make_interval(secs => 0.02 * exp(((o.n * 29) % 40) / 10.0)) as waited from one o),
            moved as (
              update windlass.history h set started_at = r.at, finished_at = r.at + r.took from run r
               where h.tenant_id = r.tenant_id and h.job_id = r.job_id and h.attempt = r.attempt)
            update windlass.job b set created_at = r.at - r.waited from run r
             where b.tenant_id = r.tenant_id and b.id = r.job_id and r.attempt = 1";
        self.server.queue.client().await.execute(spread, &[&self.acme]).await.unwrap();
    }

    /// A job of Acme in this state.
    pub(crate) async fn in_state(&self, state: State) -> Uuid {
        let page = self.server.queue.list(&Filter::new(self.acme).state(state).limit(1)).await.unwrap();
        page.jobs.first().unwrap_or_else(|| panic!("no job is {state}")).id
    }

    pub(crate) async fn ids_of(&self, tenant: Uuid) -> Vec<Uuid> {
        self.server
            .queue
            .list(&Filter::new(tenant).limit(100))
            .await
            .unwrap()
            .jobs
            .iter()
            .map(|job| job.id)
            .collect()
    }

    pub(crate) async fn until(&self, id: Uuid, state: State) {
        eventually(&format!("{id} is {state}"), async || {
            self.server.queue.job(self.acme, id).await.unwrap().is_some_and(|job| job.status == state)
        })
        .await;
    }

    /// A job of a tenant that runs until it is canceled, once it has reported its progress.
    pub(crate) async fn waits(&self, tenant: Uuid) -> Uuid {
        let id = self.server.queue.enqueue(&job(1, tenant, "/wait")).await.unwrap().id;
        eventually("it runs and has reported it", async || {
            let job = self.server.queue.job(tenant, id).await.unwrap();
            job.is_some_and(|job| job.status == State::Running && job.progress_message.is_some())
        })
        .await;
        id
    }

    /// A schedule of Acme.
    pub(crate) async fn trigger(&self) -> Uuid {
        let new = NewTrigger::schedule("Nightly provider sync", "30 2 * * *", "sync-dropbox")
            .payload_template(json!({"provider_id": PROVIDER}))
            .timezone("Europe/Berlin");
        self.server.queue.create_trigger(self.acme, &new, "test").await.unwrap().id
    }

    /// The same, after it has run once by hand, with others.
    pub(crate) async fn trigger_with_a_past(&self) -> Uuid {
        let event = NewTrigger::event("Tags after an upload", "provider.folder.*", "recompute-trained-tags")
            .payload_template(json!({"provider_id": "{{event.provider_id}}"}));
        self.server.queue.create_trigger(self.acme, &event, "test").await.unwrap();
        let id = self.trigger().await;
        let client = self.server.client(self.acme, Role::TenantAdmin).await;
        client.post(&format!("/api/v1/jobs/triggers/{id}/run"), &json!({})).await.expect(201);
        id
    }

    /// Members of Acme, and one who is invited.
    pub(crate) async fn people(&self) {
        for (email, name, role) in [
            ("ada@acme.example", "Ada Byron", "tenant_admin"),
            ("grace@acme.example", "Grace Hopper", "operator"),
            ("edsger@acme.example", "", "viewer"),
        ] {
            let id = self.server.member(self.acme, email, role).await;
            let named = "update windlass.users set name = $2 where id = $1";
            self.server.queue.client().await.execute(named, &[&id, &name]).await.unwrap();
        }
        self.invite("barbara@acme.example", "operator").await;
    }

    /// The path of the link that invites an address to Acme.
    pub(crate) async fn invite(&self, email: &str, role: &str) -> String {
        let client = self.server.client(self.acme, Role::TenantAdmin).await;
        let body = json!({"email": email, "role": role});
        let made = client.post("/api/v1/admin/invitations", &body).await.expect(201);
        let link = made["link"].as_str().unwrap();
        link[link.find("/ui/").unwrap()..].to_owned()
    }

    /// The path of a link that resets a password.
    pub(crate) async fn reset_link(&self, email: &str) -> String {
        let client = self.server.client(self.acme, Role::TenantAdmin).await;
        let made = client.post("/api/v1/admin/password-resets", &json!({"email": email})).await.expect(201);
        let link = made["link"].as_str().unwrap();
        link[link.find("/ui/").unwrap()..].to_owned()
    }

    pub(crate) async fn definition_id(&self, key: &str) -> Uuid {
        let client = self.server.queue.client().await;
        client
            .query_one("select id from windlass.job_definitions where key = $1", &[&key])
            .await
            .unwrap()
            .get(0)
    }

    /// A worker that existed and misses its heartbeats.
    pub(crate) async fn miss_heartbeats(&self, name: &str) {
        let insert = "insert into windlass.job_workers (worker_id, hostname, version, started_at, last_seen_at, lease_expires_at, lease_seconds, running_count)
            values ($1, $1, '0.1.0', now() - interval '1 hour', now() - interval '40 minutes', now() + interval '20 minutes', 3600, 4)";
        self.server.queue.client().await.execute(insert, &[&name]).await.unwrap();
    }

    /// A token of a role; that of a super-admin belongs to the installation.
    pub(crate) async fn token(&self, tenant: Uuid, role: Role) -> String {
        self.server.client(tenant, role).await.token.unwrap()
    }

    pub(crate) async fn end(mut self) {
        if let Some(worker) = self.worker.take() {
            worker.stop().await.unwrap();
        }
        self.server.stop().await;
    }
}
