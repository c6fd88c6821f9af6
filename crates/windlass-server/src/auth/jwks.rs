//! The public keys that an issuer publishes.
//!
//! Nothing is locked while they are fetched, and one fetch is under way at a time. Keys that are known serve meanwhile, also when
//! the issuer does not answer; only a token whose key is not known waits, and not for long. A token may name any key it likes, so
//! an unknown one makes us ask once in a while and no oftener.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{Jwk, JwkSet};
use tokio::sync::watch;

use super::jwt::algorithm_of;

const LARGEST_SET: usize = 256 * 1024;
/// How long one fetch may take, and so how long anybody waits for it.
const FETCH_WITHIN: Duration = Duration::from_secs(5);

/// When to ask the issuer.
#[derive(Debug, Clone, Copy)]
struct Pace {
    at_most_every: Duration,
    /// Keys of this age are asked for again, and serve meanwhile.
    renew_after: Duration,
    /// Keys of this age serve only if the issuer does not answer.
    wait_after: Duration,
}

const PACE: Pace = Pace {
    at_most_every: Duration::from_secs(30),
    renew_after: Duration::from_secs(600),
    wait_after: Duration::from_secs(3600),
};

/// The keys at one address.
#[derive(Debug, Clone)]
pub(super) struct Jwks(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    address: String,
    http: reqwest::Client,
    pace: Pace,
    known: Mutex<Known>,
    /// Counts the fetches that have ended.
    fetched: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Known {
    keys: HashMap<String, Jwk>,
    read: Option<Instant>,
    asked: Option<Instant>,
    is_asking: bool,
}

impl Jwks {
    pub(super) fn new(address: String) -> Self {
        Self::with_pace(address, PACE)
    }

    fn with_pace(address: String, pace: Pace) -> Self {
        let http = reqwest::Client::builder()
            .timeout(FETCH_WITHIN)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap_or_default();
        let fetched = watch::Sender::new(0);
        Self(Arc::new(Inner { address, http, pace, known: Mutex::default(), fetched }))
    }

    /// The key with this id, if the issuer publishes it.
    pub(super) async fn key(&self, id: &str) -> Option<Jwk> {
        // Before the look, so that no fetch ends unnoticed in between.
        let mut fetched = self.0.fetched.subscribe();
        let (key, waits) = self.look(id);
        if waits {
            // Whatever became of it, what is known then is the answer.
            let _ = tokio::time::timeout(FETCH_WITHIN, fetched.changed()).await;
            return self.lock().keys.get(id).cloned();
        }
        key
    }

    /// The key as far as it is known, and whether it is worth waiting for a fetch.
    fn look(&self, id: &str) -> (Option<Jwk>, bool) {
        let pace = self.0.pace;
        let mut known = self.lock();
        let key = known.keys.get(id).cloned();
        let is_older = |age: Duration| known.read.is_none_or(|read| read.elapsed() >= age);
        let wants = key.is_none() || is_older(pace.renew_after);
        let waits = key.is_none() || is_older(pace.wait_after);
        let may_ask = known.asked.is_none_or(|asked| asked.elapsed() >= pace.at_most_every);
        if wants && may_ask && !known.is_asking {
            known.is_asking = true;
            known.asked = Some(Instant::now());
            // It ends by itself: a fetch has its time.
            tokio::spawn(self.clone().renew());
        }
        (key, waits && known.is_asking)
    }

    async fn renew(self) {
        let keys = self.fetch().await;
        {
            let mut known = self.lock();
            known.is_asking = false;
            match keys {
                Some(keys) => (known.keys, known.read) = (keys, Some(Instant::now())),
                None => tracing::warn!("the published keys cannot be read; those known before stay in force"),
            }
        }
        self.0.fetched.send_modify(|fetched| *fetched += 1);
    }

    async fn fetch(&self) -> Option<HashMap<String, Jwk>> {
        let asked = self.0.http.get(&self.0.address).send().await;
        let mut response = asked.ok()?.error_for_status().ok()?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.ok()? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST_SET {
                return None;
            }
        }
        let set: JwkSet = serde_json::from_slice(&body).ok()?;
        let keys = set.keys.into_iter().filter(|key| algorithm_of(key).is_some());
        let named = |key: Jwk| {
            let id = key.common.key_id.clone().filter(|id| !id.is_empty())?;
            Some((id, key))
        };
        Some(keys.filter_map(named).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    const KEY: &str = r#"{"kty": "OKP", "crv": "Ed25519", "x": "znxRqnZd6ZEaLf0f6G8Y9VzqkwumrMHHOklUiMmEhZY", "kid": "one"}"#;

    async fn answer(mut stream: TcpStream, body: &str) {
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }

    /// The issuer answers once, and then takes the connection and says nothing.
    #[tokio::test]
    async fn known_keys_serve_while_the_issuer_is_silent() {
        let issuer = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/keys", issuer.local_addr().unwrap());
        let hour = Duration::from_secs(3600);
        let pace = Pace { at_most_every: Duration::ZERO, renew_after: Duration::ZERO, wait_after: hour };
        let jwks = Jwks::with_pace(address, pace);
        let published = format!("{{\"keys\": [{KEY}]}}");
        let first = tokio::spawn({
            let jwks = jwks.clone();
            async move { jwks.key("one").await }
        });
        answer(issuer.accept().await.unwrap().0, &published).await;
        assert!(first.await.unwrap().is_some());

        assert!(jwks.key("one").await.is_some(), "it is asked for again, and serves meanwhile");
        let (silent, _) = issuer.accept().await.unwrap();
        let unknown = tokio::spawn({
            let jwks = jwks.clone();
            async move { jwks.key("two").await }
        });
        for _ in 0..10 {
            assert!(jwks.key("one").await.is_some(), "nothing is locked");
        }
        answer(silent, &published).await;
        assert!(unknown.await.unwrap().is_none(), "whoever waits is told when the fetch has ended");
        assert_eq!(*jwks.0.fetched.borrow(), 2, "one fetch at a time");
    }

    #[tokio::test]
    async fn unknown_keys_do_not_make_it_ask_again_and_again() {
        let issuer = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let jwks = Jwks::new(format!("http://{}/keys", issuer.local_addr().unwrap()));
        let first = tokio::spawn({
            let jwks = jwks.clone();
            async move { jwks.key("x").await }
        });
        answer(issuer.accept().await.unwrap().0, "no keys at all").await;
        assert!(first.await.unwrap().is_none());
        for id in 0..100 {
            assert!(jwks.key(&id.to_string()).await.is_none());
        }
        assert_eq!(*jwks.0.fetched.borrow(), 1);
    }

    /// L18: a key for encryption verified signatures, and so did one without a name.
    #[tokio::test]
    async fn only_named_keys_for_signatures_are_taken() {
        let issuer = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let jwks = Jwks::new(format!("http://{}/keys", issuer.local_addr().unwrap()));
        let first = tokio::spawn({
            let jwks = jwks.clone();
            async move { jwks.key("one").await }
        });
        let with = |id: &str, more: &str| KEY.replace("\"one\"", &format!("\"{id}\"{more}"));
        let keys = [
            with("one", r#", "use": "sig", "key_ops": ["verify"]"#),
            with("enc", r#", "use": "enc""#),
            with("ops", r#", "key_ops": ["encrypt"]"#),
            with("", ""),
        ];
        let published = format!("{{\"keys\": [{}]}}", keys.join(", "));
        answer(issuer.accept().await.unwrap().0, &published).await;
        assert!(first.await.unwrap().is_some());
        assert_eq!(jwks.lock().keys.keys().collect::<Vec<_>>(), ["one"]);
    }
}
