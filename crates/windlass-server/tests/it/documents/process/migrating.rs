//! `docs/migrating/`: an old table with rows in every status, the page's SQL, and what is queued afterwards.

use windlass_testing::TestQueue;

use super::blocks;

/// A page, the tables that it describes with some rows, and the payloads that must be queued afterwards, as text.
struct Move {
    page: &'static str,
    before: &'static str,
    payloads: &'static [&'static str],
    /// A query for a number that must be 0: moved rows are not processed twice.
    left: &'static str,
}

const MOVES: [Move; 5] = [
    Move {
        page: "ai-tag-queue",
        before: "create table ai_tag_queue (id uuid primary key default gen_random_uuid(), workspace_threads_account_id uuid not null
              default gen_random_uuid(), post_id uuid not null unique, status text not null default 'pending', attempts integer not null
              default 0, max_attempts integer not null default 3, error_message text, created_at timestamptz not null default now(),
              started_at timestamptz, completed_at timestamptz);
            insert into ai_tag_queue (post_id, status, attempts) select md5(n::text)::uuid, s, a
              from (values (1, 'pending', 0), (2, 'processing', 1), (3, 'failed', 2), (4, 'failed', 3), (5, 'completed', 1)) v (n, s, a)",
        payloads: &[
            r#"{"post_id": "c4ca4238-a0b9-2382-0dcc-509a6f75849b"}"#,
            r#"{"post_id": "c81e728d-9d4c-2f63-6f06-7f89cc14862c"}"#,
            r#"{"post_id": "eccbc87e-4b5c-e2fe-2830-8fd9f2a7baf3"}"#,
        ],
        left: "select count(*) from pg_class where relname = 'ai_tag_queue'",
    },
    Move {
        page: "tts-jobs",
        before: "create table jobs (id uuid primary key default gen_random_uuid(), user_id uuid not null default gen_random_uuid(),
              job_type text not null default 'multi_role_tts', status text not null, provider text not null default 'espeak-ng',
              input_params jsonb not null default '{\"turns\": []}', created_at timestamptz not null default now());
            insert into jobs (status, created_at) values ('pending', now()), ('pending', now() - interval '2 days'), ('completed', now()),
              ('processing', now())",
        payloads: &[r#"{"provider": "espeak-ng", "input_params": {"turns": []}}"#],
        left: "select count(*) from jobs where status = 'pending' and created_at > now() - interval '24 hours'",
    },
    Move {
        page: "pgmq",
        before: "create schema pgmq;
            create table pgmq.q_scrape_jobs (msg_id bigint generated always as identity primary key, read_ct integer not null default 0,
              enqueued_at timestamptz not null default now(), vt timestamptz not null, message jsonb);
            insert into pgmq.q_scrape_jobs (vt, message) values (now(), '{\"video\": 1}'), (now() + interval '1 hour', '{\"video\": 2}')",
        payloads: &[r#"{"video": 1}"#, r#"{"video": 2}"#],
        left: "select count(*) from pgmq.q_scrape_jobs",
    },
    Move {
        page: "processing-jobs",
        before: "create table processing_jobs (id uuid primary key default gen_random_uuid(), org_id uuid not null, call_id uuid not null,
              stage text not null, status text not null, payload jsonb not null default '{}', attempts int not null default 0,
              max_attempts int not null default 5, available_at timestamptz not null default now(), locked_at timestamptz, locked_by text,
              last_error text, created_at timestamptz not null default now(), updated_at timestamptz not null default now());
            insert into processing_jobs (org_id, call_id, stage, status, payload) values
              (md5('a')::uuid, gen_random_uuid(), 'extract_audio', 'queued', '{\"call\": 1}'),
              (md5('a')::uuid, gen_random_uuid(), 'analyze', 'processing', '{\"call\": 2}'),
              (md5('b')::uuid, gen_random_uuid(), 'transcribe_poll', 'queued', '{\"call\": 3}'),
              (md5('b')::uuid, gen_random_uuid(), 'analyze', 'done', '{\"call\": 4}'),
              (md5('b')::uuid, gen_random_uuid(), 'analyze', 'failed', '{\"call\": 5}')",
        payloads: &[r#"{"call": 1}"#, r#"{"call": 2}"#, r#"{"call": 3}"#],
        left: "select count(*) from processing_jobs where status in ('queued', 'processing')",
    },
    Move {
        page: "multi-machine-queue",
        before: "create table public.job_definitions (id uuid primary key default gen_random_uuid(), key text not null unique, description text not null
              default '', arg_schema jsonb not null default '{}', timeout_seconds integer not null default 3600, max_attempts integer not null
              default 3, is_active boolean not null default true);
            create table public.jobs (id uuid primary key default gen_random_uuid(), tenant_id uuid not null, definition_id uuid not null,
              source text not null, source_ref text, status text not null default 'queued', priority integer not null default 100,
              payload jsonb not null default '{}', dedupe_key text, correlation_id text, scheduled_for timestamptz not null default now(),
              max_attempts integer not null default 3, created_by uuid);
            insert into public.job_definitions (key, is_active) values ('sync-dropbox', true), ('retired', false);
            insert into public.jobs (tenant_id, definition_id, source, status, payload, dedupe_key)
              select md5(t)::uuid, d.id, 'manual', s, jsonb_build_object('n', n), 'key ' || n
                from (values (1, 'a', 'queued'), (2, 'a', 'running'), (3, 'b', 'queued'), (4, 'b', 'succeeded'), (5, 'b', 'dead_letter')) v (n, t, s)
                join public.job_definitions d on d.key = 'sync-dropbox'",
        payloads: &[r#"{"n": 1}"#, r#"{"n": 2}"#, r#"{"n": 3}"#],
        left: "select count(*) from public.jobs where status in ('queued', 'running')",
    },
];

pub(crate) fn pages() -> impl Iterator<Item = &'static str> {
    MOVES.iter().map(|one| one.page)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_migration_moves_waiting_jobs_and_nothing_else() {
    for Move { page, before, payloads, left } in MOVES {
        let queue = TestQueue::create().await;
        let client = queue.client().await;
        // The test's own user has the name of windlass's schema, which would come first in the search path.
        client.batch_execute("set search_path = public").await.unwrap();
        client.batch_execute(before).await.unwrap_or_else(|error| panic!("{page}: {error:?}"));
        for block in blocks(&format!("docs/migrating/{page}.md")) {
            assert_eq!(block.language, "sql", "{page}");
            let ran = client.batch_execute(&block.text).await;
            ran.unwrap_or_else(|error| panic!("{page}: {}\n{error:?}", block.text));
        }
        let waiting =
            "select payload::text from windlass.jobs where status in ('queued', 'scheduled') order by 1";
        let waiting: Vec<String> =
            client.query(waiting, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        assert_eq!(waiting, payloads, "{page}");
        assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0, "{page}");
    }
}
