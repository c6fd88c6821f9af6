//! Enqueue and complete in an sqlx transaction: the same statements as those of [`crate::enqueue_in`] and
//! [`crate::Context::complete_in`].
//!
//! The two supported versions differ only in their crate, hence the macro. JSON and instants are sent in the binary
//! format of Postgres, so that sqlx needs neither a JSON nor a time crate.

/// 2000-01-01, the epoch of Postgres.
const POSTGRES_EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;
const JSONB: u32 = 3802;
const JSONB_ARRAY: u32 = 3807;
const TIMESTAMPTZ: u32 = 1184;

macro_rules! adapter {
    ($name:ident, $sqlx:ident, $version:literal) => {
        #[doc = concat!("Enqueue and complete in a transaction of sqlx ", $version, ".")]
        pub mod $name {
            use jiff::Timestamp;
            use $sqlx::encode::{Encode, IsNull};
            use $sqlx::postgres::types::Oid;
            use $sqlx::postgres::{PgArgumentBuffer, PgDatabaseError, PgExecutor, PgTypeInfo};
            use $sqlx::{Postgres, Row, Type};

            use crate::attempt::done::Done;
            use crate::error::{Error, Result};
            use crate::model::new_job::{AsJob, Enqueued};
            use crate::store::enqueue::{ENQUEUE, EnqueueParams, enqueued};
            use crate::store::refusal::Refusal;
            use crate::store::settle::{BY_ID, Settled};
            use crate::worker::context::{Completion, Context};
            use crate::worker::sqlx::{
                JSONB, JSONB_ARRAY, POSTGRES_EPOCH_MICROSECONDS, TIMESTAMPTZ, array_of_jsonb,
            };

            /// Enqueues in the caller's own transaction, given as `&mut *tx`: the job exists if and only if the transaction
            /// commits. On a pool or a bare connection it is durable when this returns.
            ///
            /// The job is a payload that implements [`JobArgs`](crate::JobArgs), or a [`NewJob`](crate::NewJob).
            ///
            /// ```no_run
            #[doc = concat!("# use ", stringify!($sqlx), " as sqlx;")]
            /// # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
            /// let mut tx = pool.begin().await?;
            /// sqlx::query("insert into image (id) values (7)").execute(&mut *tx).await?;
            #[doc = concat!("windlass::", stringify!($name), "::enqueue_in(&mut *tx, &windlass::NewJob::new(\"resize\")).await?;")]
            /// tx.commit().await?;
            /// # Ok(())
            /// # }
            /// ```
            pub async fn enqueue_in<'c, J>(executor: impl PgExecutor<'c>, job: &J) -> Result<Enqueued>
            where
                J: AsJob + Sync + ?Sized,
            {
                let job = job.as_job();
                let call = EnqueueParams::of(&job)?;
                let options = &job.options;
                let row = $sqlx::query(ENQUEUE.text)
                    .bind(&job.definition_key)
                    .bind(Json(call.payload.0.to_owned()))
                    .bind(options.tenant)
                    .bind(&options.queue)
                    .bind(options.priority)
                    .bind(options.scheduled_for.map(Instant))
                    .bind(call.delay)
                    .bind(&options.dedupe_key)
                    .bind(call.uniqueness.as_ref().map(|uniqueness| Json(uniqueness.to_string())))
                    .bind(&options.idempotency_key)
                    .bind(&options.ordering_key)
                    .bind(call.depends_on)
                    .bind(call.if_unmet)
                    .bind(&options.subject_type)
                    .bind(&options.subject_id)
                    .bind(call.tags)
                    .bind(&options.correlation_id)
                    .bind(call.source)
                    .bind(&options.source_ref)
                    .bind(options.max_attempts)
                    .bind(options.deadline.map(Instant))
                    .bind(options.parent_id)
                    .bind(options.created_by)
                    .bind(&options.trace)
                    .bind(options.id)
                    // Leaves no prepared statement on the caller's connection, which may belong to a pooler.
                    .persistent(false)
                    .fetch_one(executor)
                    .await
                    .map_err(translate)?;
                let read = |error| translate(error);
                Ok(enqueued(
                    row.try_get(0).map_err(read)?,
                    row.try_get(1).map_err(read)?,
                    row.try_get(2).map_err(read)?,
                ))
            }

            /// Records success inside the handler's own transaction, given as `&mut *tx`; see [`Context::complete_in`].
            ///
            /// ```no_run
            #[doc = concat!("# use ", stringify!($sqlx), " as sqlx;")]
            /// use windlass::worker::Completion;
            /// use windlass::{Context, Done, Failure};
            ///
            /// async fn pay(job: &Context, pool: &sqlx::PgPool) -> Result<Done, Failure> {
            ///     let mut tx = pool.begin().await?;
            ///     sqlx::query("update account set cents = cents - 100 where id = 7").execute(&mut *tx).await?;
            #[doc = concat!("    match windlass::", stringify!($name), "::complete_in(&mut *tx, job, Done::new()).await? {")]
            ///         Completion::Ready(done) => {
            ///             tx.commit().await?;
            ///             Ok(done)
            ///         }
            ///         // Another attempt may be running. Dropping the transaction rolls it back.
            ///         _ => Err(Failure::retry("the lease was lost")),
            ///     }
            /// }
            /// ```
            pub async fn complete_in<'c>(
                executor: impl PgExecutor<'c>,
                job: &Context,
                done: Done,
            ) -> Result<Completion> {
                let ending = job.prepare_completion(done).await?;
                let fence = &ending.fence;
                let row = $sqlx::query(BY_ID.text)
                    .bind(vec![fence.tenant])
                    .bind(vec![fence.job])
                    .bind(vec![fence.attempt])
                    .bind(vec![fence.token])
                    .bind(vec![ending.ran_ms])
                    .bind(JsonList(ending.detail.clone()))
                    .persistent(false)
                    .fetch_one(executor)
                    .await
                    .map_err(translate)?;
                let read = |error| translate(error);
                let settled: Option<Vec<i32>> = row.try_get(0).map_err(read)?;
                let overruled: Option<Vec<i32>> = row.try_get(1).map_err(read)?;
                Ok(Context::completion(&Settled::of(settled, overruled)))
            }

            fn translate(error: $sqlx::Error) -> Error {
                let Some(db) = error.as_database_error() else {
                    return Error::Unreachable(std::sync::Arc::new(error));
                };
                let code = db.code().map(|code| code.into_owned());
                let meaning = db.try_downcast_ref::<PgDatabaseError>().and_then(|db| {
                    let refusal = Refusal {
                        code: db.code(),
                        message: db.message(),
                        detail: db.detail(),
                        column: db.column(),
                        constraint: db.constraint(),
                    };
                    refusal.meaning()
                });
                meaning.unwrap_or_else(|| Error::OtherDriver { code, error: std::sync::Arc::new(error) })
            }

            struct Json(String);

            impl Type<Postgres> for Json {
                fn type_info() -> PgTypeInfo {
                    PgTypeInfo::with_oid(Oid(JSONB))
                }
            }

            impl Encode<'_, Postgres> for Json {
                fn encode_by_ref(
                    &self,
                    buffer: &mut PgArgumentBuffer,
                ) -> std::result::Result<IsNull, $sqlx::error::BoxDynError> {
                    buffer.push(1); // the version of the binary format of jsonb
                    buffer.extend_from_slice(self.0.as_bytes());
                    Ok(IsNull::No)
                }
            }

            /// One value as an array of `jsonb`.
            struct JsonList(Option<String>);

            impl Type<Postgres> for JsonList {
                fn type_info() -> PgTypeInfo {
                    PgTypeInfo::with_oid(Oid(JSONB_ARRAY))
                }
            }

            impl Encode<'_, Postgres> for JsonList {
                fn encode_by_ref(
                    &self,
                    buffer: &mut PgArgumentBuffer,
                ) -> std::result::Result<IsNull, $sqlx::error::BoxDynError> {
                    buffer.extend_from_slice(&array_of_jsonb(self.0.as_deref()));
                    Ok(IsNull::No)
                }
            }

            struct Instant(Timestamp);

            impl Type<Postgres> for Instant {
                fn type_info() -> PgTypeInfo {
                    PgTypeInfo::with_oid(Oid(TIMESTAMPTZ))
                }
            }

            impl Encode<'_, Postgres> for Instant {
                fn encode_by_ref(
                    &self,
                    buffer: &mut PgArgumentBuffer,
                ) -> std::result::Result<IsNull, $sqlx::error::BoxDynError> {
                    let since = self.0.as_microsecond() - POSTGRES_EPOCH_MICROSECONDS;
                    buffer.extend_from_slice(&since.to_be_bytes());
                    Ok(IsNull::No)
                }
            }
        }
    };
}

/// Returns the binary format of an array with one `jsonb`, or with one null.
fn array_of_jsonb(value: Option<&str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // One dimension, whether there are nulls, the type of the elements, one element, lower bound 1.
    for field in [1, i32::from(value.is_none()), JSONB as i32, 1, 1] {
        bytes.extend_from_slice(&field.to_be_bytes());
    }
    match value {
        Some(text) => {
            let length = i32::try_from(text.len() + 1).unwrap_or(i32::MAX);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.push(1); // the version of the binary format of jsonb
            bytes.extend_from_slice(text.as_bytes());
        }
        None => bytes.extend_from_slice(&(-1_i32).to_be_bytes()),
    }
    bytes
}

#[cfg(feature = "sqlx-08")]
adapter!(sqlx08, sqlx_08, "0.8");
#[cfg(feature = "sqlx-09")]
adapter!(sqlx09, sqlx_09, "0.9");
