//! Enqueue in a transaction of sqlx: it commits with it, rolls back with it, and has the same errors.

#[cfg(any(feature = "sqlx-08", feature = "sqlx-09"))]
macro_rules! adapter_tests {
    ($name:ident, $sqlx:ident, $adapter:ident) => {
        mod $name {
            use jiff::{Timestamp, ToSpan};
            use serde_json::json;
            use $sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
            use $sqlx::{ConnectOptions, Connection, Executor};
            use tokio_postgres::config::Host;
            use uuid::Uuid;
            use windlass::job::{IfUnmet, Source, State, Unique};
            use windlass::worker::Completion;
            use windlass::{Context, Definition, Done, Error, Failure, Handler, NewJob};
            use windlass_testing::TestQueue;

            use crate::support::{until, worker};

            const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

            fn options(queue: &TestQueue) -> PgConnectOptions {
                let config: tokio_postgres::Config = queue.url().parse().unwrap();
                let [Host::Unix(socket)] = config.get_hosts() else { panic!("tests use the socket") };
                PgConnectOptions::new_without_pgpass()
                    .socket(socket)
                    .port(config.get_ports()[0])
                    .username(config.get_user().unwrap())
                    .database(config.get_dbname().unwrap())
                    .ssl_mode(PgSslMode::Disable)
            }

            async fn start() -> (TestQueue, PgConnection) {
                let queue = TestQueue::create().await;
                queue.define(&Definition::new("resize")).await.unwrap();
                let mut connection = options(&queue).connect().await.unwrap();
                connection.execute("create table image (id bigint)").await.unwrap();
                (queue, connection)
            }

            async fn count(queue: &TestQueue, query: &str) -> i64 {
                queue.client().await.query_one(query, &[]).await.unwrap().get(0)
            }

            #[tokio::test]
            async fn a_job_commits_with_the_transaction_it_was_enqueued_in() {
                let (queue, mut connection) = start().await;
                let mut tx = connection.begin().await.unwrap();
                tx.execute("insert into image values (1)").await.unwrap();
                let job = NewJob::new("resize").payload(&json!({ "width": 640 }));
                let enqueued = windlass::$adapter::enqueue_in(&mut *tx, &job).await.unwrap();
                assert_eq!(count(&queue, "select count(*) from windlass.job").await, 0, "not before the commit");
                tx.commit().await.unwrap();

                let row = queue
                    .client()
                    .await
                    .query_one("select id, status, payload from windlass.jobs", &[])
                    .await
                    .unwrap();
                assert_eq!(row.get::<_, Uuid>(0), enqueued.id);
                assert_eq!(row.get::<_, &str>(1), "queued");
                assert_eq!(row.get::<_, serde_json::Value>(2), json!({ "width": 640 }));
                assert_eq!(count(&queue, "select count(*) from image").await, 1);
            }

            #[tokio::test]
            async fn a_job_is_rolled_back_with_its_transaction() {
                let (queue, mut connection) = start().await;
                let mut tx = connection.begin().await.unwrap();
                tx.execute("insert into image values (1)").await.unwrap();
                windlass::$adapter::enqueue_in(&mut *tx, &NewJob::new("resize")).await.unwrap();
                tx.rollback().await.unwrap();
                let query = "select (select count(*) from windlass.job) + (select count(*) from image)";
                assert_eq!(count(&queue, query).await, 0);
            }

            #[tokio::test]
            async fn every_option_arrives_as_it_was_given() {
                let (queue, mut connection) = start().await;
                let first =
                    windlass::$adapter::enqueue_in(&mut connection, &NewJob::new("resize")).await.unwrap();
                let later = Timestamp::now() + 1.hour();
                let job = NewJob::new("resize")
                    .tenant(windlass::DEFAULT_TENANT)
                    .queue("images")
                    .priority(7)
                    .scheduled_for(later)
                    .deadline(later + 1.hour())
                    .dedupe_key("d")
                    .unique(Unique::Forever)
                    .idempotency_key("i")
                    .ordering_key("o")
                    .depends_on(first.id)
                    .if_unmet(IfUnmet::Run)
                    .subject("image", "1")
                    .tag("red")
                    .tag("blue")
                    .correlation_id("c")
                    .source(Source::Event, Some("e".into()))
                    .max_attempts(9)
                    .created_by(first.id)
                    .trace(TRACE);
                let enqueued = windlass::$adapter::enqueue_in(&mut connection, &job).await.unwrap();
                assert_eq!((enqueued.state, enqueued.is_duplicate), (Some(State::Blocked), false));
                let again = windlass::$adapter::enqueue_in(&mut connection, &job).await.unwrap();
                assert_eq!((again.id, again.is_duplicate), (enqueued.id, true));

                let query = "select to_jsonb(j) from windlass.jobs j where id = $1";
                let row = queue.client().await.query_one(query, &[&enqueued.id]).await.unwrap();
                let stored: serde_json::Value = row.get(0);
                let expected = json!({
                    "queue": "images", "priority": 7, "dedupe_key": "d", "ordering_key": "o",
                    "subject_type": "image", "subject_id": "1", "tags": ["red", "blue"], "correlation_id": "c",
                    "source": "event", "source_ref": "e", "max_attempts": 9, "created_by": first.id, "trace": TRACE,
                });
                for (field, value) in expected.as_object().unwrap() {
                    assert_eq!(&stored[field], value, "{field}");
                }
                let query = "select scheduled_for, deadline from windlass.job where id = $1";
                let row = queue.client().await.query_one(query, &[&enqueued.id]).await.unwrap();
                let microseconds = |instant: Timestamp| instant.as_microsecond();
                assert_eq!(microseconds(row.get(0)), microseconds(later));
                assert_eq!(microseconds(row.get(1)), microseconds(later + 1.hour()));
            }

            windlass_testing::payload!(PayArgs(bool) = "pay");

            /// Writes a row and completes in one transaction of sqlx, which it commits or rolls back as the payload specifies.
            struct Payer(PgConnectOptions);

            impl Handler for Payer {
                type Args = PayArgs;

                async fn run(&self, job: &Context, PayArgs(commits): PayArgs) -> Result<Done, Failure> {
                    let mut connection = self.0.connect().await?;
                    let mut tx = connection.begin().await?;
                    tx.execute("insert into image values (1)").await?;
                    let done = Done::new().result(&"paid").then(NewJob::new("resize"));
                    match windlass::$adapter::complete_in(&mut *tx, job, done).await? {
                        Completion::Ready(done) if commits => {
                            tx.commit().await?;
                            Ok(done)
                        }
                        Completion::Ready(done) => {
                            tx.rollback().await?;
                            Ok(done)
                        }
                        _ => Err(Failure::permanent("the lease was lost")),
                    }
                }

                fn definition(&self) -> Definition {
                    Definition::of::<PayArgs>().max_attempts(1)
                }
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_handlers_writes_are_visible_if_and_only_if_its_job_succeeded() {
                let (queue, _connection) = start().await;
                let client = queue.client().await;
                let worker = worker(&queue).handler(Payer(options(&queue))).start().await.unwrap();
                let paid = queue.enqueue(PayArgs(true)).await.unwrap().id;
                let row = until(&client, paid, "succeeded").await;
                assert_eq!(row["result"], json!("paid"));
                let refunded = queue.enqueue(PayArgs(false)).await.unwrap().id;
                until(&client, refunded, "dead_letter").await;
                worker.stop().await.unwrap();
                assert_eq!(count(&queue, "select count(*) from image").await, 1);
                let followed = "select count(*) from windlass.jobs where definition_key = 'resize'";
                assert_eq!(count(&queue, followed).await, 1);
            }

            #[tokio::test]
            async fn a_payload_is_enqueued_with_its_definition() {
                let (queue, mut connection) = start().await;
                queue.define(&Definition::of::<PayArgs>()).await.unwrap();
                windlass::$adapter::enqueue_in(&mut connection, &PayArgs(true)).await.unwrap();
                let paid = "select count(*) from windlass.jobs where definition_key = 'pay' and payload = 'true'";
                assert_eq!(count(&queue, paid).await, 1);
            }

            #[tokio::test]
            async fn errors_are_the_same_as_without_sqlx() {
                let (_queue, mut connection) = start().await;
                let unknown = windlass::$adapter::enqueue_in(&mut connection, &NewJob::new("nothing")).await;
                assert!(
                    matches!(&unknown, Err(Error::UnknownDefinition { key }) if key == "nothing"),
                    "{unknown:?}"
                );
                let job = NewJob::new("resize").tenant(Uuid::from_u128(1));
                let stranger = windlass::$adapter::enqueue_in(&mut connection, &job).await;
                assert!(matches!(stranger, Err(Error::TenantRefused { .. })), "{stranger:?}");

                let mut tx = connection.begin().await.unwrap();
                tx.execute("select 1 / 0").await.unwrap_err();
                let broken = windlass::$adapter::enqueue_in(&mut *tx, &NewJob::new("resize")).await.unwrap_err();
                assert!(
                    matches!(&broken, Error::OtherDriver { code: Some(code), .. } if code == "25P02"),
                    "{broken:?}"
                );
                assert!(!broken.is_transient());
            }
        }
    };
}

#[cfg(feature = "sqlx-08")]
adapter_tests!(v08, sqlx_08, sqlx08);
#[cfg(feature = "sqlx-09")]
adapter_tests!(v09, sqlx_09, sqlx09);
