//! Passwords of people: argon2id, off the threads that serve requests, and few at once, because each takes memory on purpose.
//! Whoever comes from outside takes a place in the line first (`Attempts`), so that nobody fills the server with waiting requests.

use std::sync::LazyLock;

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use tokio::sync::Semaphore;

use super::secret::Secret;
use crate::http::{Problem, ProblemKind};

const SHORTEST: usize = 12;
const LONGEST: usize = 200;

/// Bytes of a password that is only compared: none that was ever taken is longer.
const LONGEST_TYPED: usize = 1024;

static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// The hash of a password, in its own text form. One that is too short or too long is refused.
pub async fn hash_password(password: Secret) -> Result<String, Problem> {
    if !(SHORTEST..=LONGEST).contains(&password.expose().chars().count()) {
        let message = format!("must have {SHORTEST} to {LONGEST} characters");
        return Err(Problem::invalid("/password", message));
    }
    aside(move || hash(&password)).await?.ok_or_else(failed)
}

/// Whether it is the password with this hash. Takes as long when there is none, so that nobody learns who is known here.
pub async fn verify_password(password: Secret, hash: Option<String>) -> Result<bool, Problem> {
    if password.expose().len() > LONGEST_TYPED {
        return Ok(false);
    }
    aside(move || {
        let is_known = hash.is_some();
        let stored = hash.unwrap_or_else(|| NOBODYS.clone());
        let is_right = PasswordHash::new(&stored).is_ok_and(|stored| {
            Argon2::default().verify_password(password.expose().as_bytes(), &stored).is_ok()
        });
        is_right && is_known
    })
    .await
}

/// What a password is compared with when nobody has the address.
static NOBODYS: LazyLock<String> =
    LazyLock::new(|| hash(&Secret::new("nobody's password")).unwrap_or_default());

fn hash(password: &Secret) -> Option<String> {
    Argon2::default().hash_password(password.expose().as_bytes()).ok().map(|hash| hash.to_string())
}

async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let turn = AT_ONCE.acquire().await.map_err(|_| failed())?;
    // The work goes on when its request is given up, and so holds its turn itself.
    let work = move || {
        let _turn = turn;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| failed())
}

fn failed() -> Problem {
    Problem::of(ProblemKind::Internal, "the failure was logged")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{AT_ONCE, Secret, verify_password};

    /// Requests that are given up leave their work behind: it counts until it is done.
    #[tokio::test]
    async fn work_that_was_given_up_still_holds_its_turn() {
        for _ in 0..2 {
            let work = verify_password(Secret::new("wrong horse battery"), None);
            assert!(tokio::time::timeout(Duration::ZERO, work).await.is_err(), "it is given up");
        }
        assert_eq!(AT_ONCE.available_permits(), 0);
        assert!(!verify_password(Secret::new("wrong horse battery"), None).await.unwrap(), "the next waits");
    }

    #[tokio::test]
    async fn a_password_that_is_too_long_is_compared_with_nothing() {
        assert!(
            !verify_password(Secret::new("x".repeat(1_000_000)), Some("no hash".to_owned())).await.unwrap()
        );
    }
}
