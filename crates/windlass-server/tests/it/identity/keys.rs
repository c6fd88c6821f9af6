//! An issuer of this test: a key pair, and its public key at a URL.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jsonwebtoken::EncodingKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Created for this test with `openssl genpkey -algorithm ed25519`; it is used nowhere else.
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIEvOLKMVP+UE2uY3H+bQsJ+yxRGhl206WW5GD4C1snVU
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "znxRqnZd6ZEaLf0f6G8Y9VzqkwumrMHHOklUiMmEhZY";

pub(crate) struct PublishedKeys {
    pub(crate) private: EncodingKey,
    pub(crate) public: &'static str,
    address: String,
    asked: Arc<AtomicUsize>,
}

impl PublishedKeys {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/keys", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                let _ = stream.read(&mut [0; 4096]).await;
                let keys = serde_json::json!({"keys": [
                    {"kty": "OKP", "crv": "Ed25519", "x": PUBLIC, "kid": "one", "alg": "EdDSA", "use": "sig"},
                    {"kty": "oct", "k": "c2VjcmV0", "kid": "shared", "alg": "HS256"},
                ]});
                let body = keys.to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            }
        });
        let private = EncodingKey::from_ed_pem(PRIVATE.as_bytes()).unwrap();
        Self { private, public: PUBLIC, address, asked }
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    /// The number of fetches.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}
