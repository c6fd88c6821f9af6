//! Password hashes: argon2id, outside the threads that serve requests, and few at the same time, because each takes memory on
//! purpose. A request takes a slot in the queue first (`Attempts`), so that waiting requests cannot fill the server.

use std::sync::LazyLock;

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use tokio::sync::Semaphore;

use super::secret::Secret;
use crate::http::{Problem, ProblemKind};

const MIN_LENGTH: usize = 12;
const MAX_LENGTH: usize = 200;

/// The maximum length of a password to compare, in bytes: no stored one is longer.
const MAX_COMPARED_LENGTH: usize = 1024;

static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// The hash of a password, in PHC format. A password that is too short or too long is rejected.
pub async fn hash_password(password: Secret) -> Result<String, Problem> {
    if !(MIN_LENGTH..=MAX_LENGTH).contains(&password.expose().chars().count()) {
        let message = format!("must have {MIN_LENGTH} to {MAX_LENGTH} characters");
        return Err(Problem::invalid("/password", message));
    }
    run_blocking(move || hash(&password)).await?.ok_or_else(failed)
}

/// Whether the password matches the hash. Takes the same time without a hash, so that the existence of an account is not revealed.
pub(crate) async fn verify_password(password: Secret, hash: Option<String>) -> Result<bool, Problem> {
    if password.expose().len() > MAX_COMPARED_LENGTH {
        return Ok(false);
    }
    run_blocking(move || {
        let is_known = hash.is_some();
        let stored = hash.unwrap_or_else(|| DUMMY_HASH.clone());
        let is_right = PasswordHash::new(&stored).is_ok_and(|stored| {
            Argon2::default().verify_password(password.expose().as_bytes(), &stored).is_ok()
        });
        is_right && is_known
    })
    .await
}

/// The hash that a password is compared with if the account does not exist.
static DUMMY_HASH: LazyLock<String> =
    LazyLock::new(|| hash(&Secret::new("dummy password")).unwrap_or_default());

fn hash(password: &Secret) -> Option<String> {
    Argon2::default().hash_password(password.expose().as_bytes()).ok().map(|hash| hash.to_string())
}

async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let permit = AT_ONCE.acquire().await.map_err(|_| failed())?;
    // The work continues if its request is canceled, so it holds the permit itself.
    let work = move || {
        let _permit = permit;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| failed())
}

fn failed() -> Problem {
    Problem::of(ProblemKind::Internal, "the error was logged")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{AT_ONCE, Secret, verify_password};

    /// The work of a canceled request counts until it is done.
    #[tokio::test]
    async fn work_of_a_canceled_request_keeps_its_permit() {
        for _ in 0..2 {
            let work = verify_password(Secret::new("wrong horse battery"), None);
            assert!(tokio::time::timeout(Duration::ZERO, work).await.is_err(), "canceled");
        }
        assert_eq!(AT_ONCE.available_permits(), 0);
        assert!(
            !verify_password(Secret::new("wrong horse battery"), None).await.unwrap(),
            "the next one waits"
        );
    }

    #[tokio::test]
    async fn a_password_that_is_too_long_is_not_compared() {
        assert!(
            !verify_password(Secret::new("x".repeat(1_000_000)), Some("no hash".to_owned())).await.unwrap()
        );
    }
}
