//! The public keys that an issuer publishes.
//!
//! No lock is held during a fetch, and only one fetch runs at a time. Known keys are used meanwhile, even if the issuer
//! is unavailable; only a token with an unknown key waits, and only for a short time. A token can name any key, so
//! unknown keys cause a fetch only at a limited rate.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{Jwk, JwkSet};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::jwt::algorithm_of;

const MAX_SET_BYTES: usize = 256 * 1024;
/// The timeout of a fetch, and so the longest wait for it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// When to fetch the keys again.
#[derive(Debug, Clone, Copy)]
struct Pace {
    at_most_every: Duration,
    /// Keys of this age are fetched again, and used meanwhile.
    renew_after: Duration,
    /// Keys of this age are used only if the issuer is unavailable.
    wait_after: Duration,
}

const PACE: Pace = Pace {
    at_most_every: Duration::from_secs(30),
    renew_after: Duration::from_secs(600),
    wait_after: Duration::from_secs(3600),
};

/// The keys of one URL.
#[derive(Debug, Clone)]
pub(super) struct Jwks(Arc<KeySetState>);

#[derive(Debug)]
struct KeySetState {
    address: String,
    http: reqwest::Client,
    pace: Pace,
    known: Mutex<Known>,
    /// The number of finished fetches.
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
            .timeout(FETCH_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap_or_default();
        let fetched = watch::Sender::new(0);
        Self(Arc::new(KeySetState { address, http, pace, known: Mutex::default(), fetched }))
    }

    /// The key with this id, if the issuer publishes it.
    pub(super) async fn key(&self, id: &str) -> Option<Jwk> {
        // Subscribed before the lookup, so that no fetch ends unnoticed in between.
        let mut fetched = self.0.fetched.subscribe();
        let (key, waits) = self.find(id);
        if waits {
            // Whether or not the fetch succeeded, the keys that are known now decide.
            let _ = tokio::time::timeout(FETCH_TIMEOUT, fetched.changed()).await;
            return self.lock().keys.get(id).cloned();
        }
        key
    }

    /// The key if it is known, and whether to wait for a fetch.
    fn find(&self, id: &str) -> (Option<Jwk>, bool) {
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
            // It always ends, because a fetch has a timeout.
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
                None => tracing::warn!("cannot fetch the JWKS; the previous keys are still used"),
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
            if body.len() > MAX_SET_BYTES {
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
        self.0.known.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    const KEY: &str = r#"{"kty": "OKP", "crv": "Ed25519", "x": "znxRqnZd6ZEaLf0f6G8Y9VzqkwumrMHHOklUiMmEhZY", "kid": "one"}"#;

    async fn respond(mut stream: TcpStream, body: &str) {
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }

    /// The issuer responds once, and then accepts a connection without a response.
    #[tokio::test]
    async fn known_keys_are_used_while_the_issuer_does_not_respond() {
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
        respond(issuer.accept().await.unwrap().0, &published).await;
        assert!(first.await.unwrap().is_some());

        assert!(jwks.key("one").await.is_some(), "it is fetched again, and the old one is used meanwhile");
        let (silent, _) = issuer.accept().await.unwrap();
        let unknown = tokio::spawn({
            let jwks = jwks.clone();
            async move { jwks.key("two").await }
        });
        for _ in 0..10 {
            assert!(jwks.key("one").await.is_some(), "no lock is held");
        }
        respond(silent, &published).await;
        assert!(unknown.await.unwrap().is_none(), "the waiting one continues when the fetch has ended");
        assert_eq!(*jwks.0.fetched.borrow(), 2, "one fetch at a time");
    }

    #[tokio::test]
    async fn unknown_keys_do_not_cause_repeated_fetches() {
        let issuer = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let jwks = Jwks::new(format!("http://{}/keys", issuer.local_addr().unwrap()));
        let first = tokio::spawn({
            let jwks = jwks.clone();
            async move { jwks.key("x").await }
        });
        respond(issuer.accept().await.unwrap().0, "no keys at all").await;
        assert!(first.await.unwrap().is_none());
        for id in 0..100 {
            assert!(jwks.key(&id.to_string()).await.is_none());
        }
        assert_eq!(*jwks.0.fetched.borrow(), 1);
    }

    /// A key for encryption, one of another algorithm, or one without an id, must not verify signatures.
    #[tokio::test]
    async fn only_signature_keys_with_an_id_are_accepted() {
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
            with("alg", r#", "alg": "EdDSA""#),
            with("es256", r#", "alg": "ES256""#),
            with("es384", r#", "alg": "ES384""#),
            with("rs256", r#", "alg": "RS256""#),
        ];
        let published = format!("{{\"keys\": [{}]}}", keys.join(", "));
        respond(issuer.accept().await.unwrap().0, &published).await;
        assert!(first.await.unwrap().is_some());
        let mut accepted: Vec<String> = jwks.lock().keys.keys().cloned().collect();
        accepted.sort();
        assert_eq!(accepted, ["alg", "one"]);
    }
}
