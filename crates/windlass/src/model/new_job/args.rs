//! Payload types that name their definition.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::NewJob;

/// The payload of one kind of job, with the key of its definition.
///
/// ```
/// use std::time::Duration;
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use windlass::JobArgs;
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Resize {
///     image: i64,
///     width: u32,
/// }
///
/// impl JobArgs for Resize {
///     const KEY: &'static str = "resize";
/// }
///
/// // Enqueue it as it is, or with options:
/// let job = Resize { image: 7, width: 640 }.job().priority(10).unique_for(Duration::from_secs(60));
/// # let _ = job;
/// ```
///
/// When a worker with a handler for it starts, its JSON Schema is stored in the definition, and payloads are checked
/// against it.
pub trait JobArgs: Serialize + DeserializeOwned + JsonSchema + Send {
    /// The key of the definition.
    const KEY: &'static str;

    /// Returns a job with this payload, to set options before it is enqueued.
    fn job(&self) -> NewJob {
        NewJob::new(Self::KEY).payload(self)
    }
}

impl<T: JobArgs> From<T> for NewJob {
    fn from(args: T) -> Self {
        args.job()
    }
}

impl From<&NewJob> for NewJob {
    fn from(job: &NewJob) -> Self {
        job.clone()
    }
}

/// What can be enqueued by reference: a [`NewJob`], or a payload that implements [`JobArgs`].
///
/// ```no_run
/// # async fn example(client: &tokio_postgres::Client) -> windlass::Result<()> {
/// use windlass::NewJob;
/// use windlass::job::AsJob;
///
/// // A function of the application that accepts both kinds of jobs, as `enqueue_in` does.
/// async fn enqueue_and_print(client: &tokio_postgres::Client, job: &(impl AsJob + Sync)) -> windlass::Result<()> {
///     println!("{}", windlass::enqueue_in(client, job).await?.id);
///     Ok(())
/// }
/// enqueue_and_print(client, &NewJob::new("resize")).await?;
/// # Ok(())
/// # }
/// ```
pub trait AsJob {
    /// Returns the job.
    fn as_job(&self) -> Cow<'_, NewJob>;
}

impl<T: JobArgs> AsJob for T {
    fn as_job(&self) -> Cow<'_, NewJob> {
        Cow::Owned(self.job())
    }
}

impl AsJob for NewJob {
    fn as_job(&self) -> Cow<'_, NewJob> {
        Cow::Borrowed(self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::{JobArgs, NewJob};

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Resize {
        width: u32,
    }

    impl JobArgs for Resize {
        const KEY: &'static str = "resize";
    }

    #[test]
    fn a_payload_becomes_a_job_of_its_definition() {
        let job = NewJob::from(Resize { width: 640 });
        assert_eq!(job.definition_key, "resize");
        assert_eq!(job.payload_text().ok(), Some(r#"{"width":640}"#));
    }

    #[test]
    fn a_derived_dedupe_key_follows_the_payload_and_a_given_one_wins() {
        let minute = Duration::from_secs(60);
        let key = |job: &NewJob| job.options.dedupe_key.clone();
        let one = Resize { width: 1 }.job().unique_for(minute);
        assert!(key(&one).is_some_and(|key| key.len() < 200));
        assert_eq!(key(&one), key(&Resize { width: 1 }.job().unique_for(minute)));
        assert_ne!(key(&one), key(&Resize { width: 2 }.job().unique_for(minute)));
        assert_ne!(key(&one), key(&NewJob::new("other").payload(&Resize { width: 1 }).unique_for(minute)));
        let late = NewJob::new("resize").unique_for(minute).payload(&Resize { width: 1 });
        assert_eq!(key(&late), key(&one), "whichever is set first");
        let own = one.clone().dedupe_key("mine").payload(&Resize { width: 3 });
        assert_eq!(key(&own).as_deref(), Some("mine"));
        let before = Resize { width: 1 }.job().dedupe_key("mine").unique_for(minute);
        assert_eq!(key(&before).as_deref(), Some("mine"));
    }
}
