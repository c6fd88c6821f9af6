//! Signatures in the format of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, so that neither the body nor
//! its time can be changed, and a repetition can be detected by its id. HTTP jobs are sent with them, and signed hooks
//! are verified by them.
//!
//! An endpoint that receives HTTP jobs verifies the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`:
//!
//! ```
//! use windlass::webhook::Key;
//!
//! let key = Key::new("a secret of at least 16 bytes")?;
//! let signature = key.sign("msg_1", 1_700_000_000, b"{}");
//! assert!(key.verify("msg_1", "1700000000", b"{}", &signature));
//! assert!(!key.verify("msg_1", "1700000000", b"{ }", &signature));
//! # Ok::<(), windlass::webhook::InvalidSecret>(())
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A signing key. Never printed.
///
/// ```
/// use windlass::webhook::Key;
///
/// let key = Key::new("whsec_YSBzZWNyZXQgb2YgZW5vdWdoIGJ5dGVz")?;
/// let signature = key.sign("msg_1", 1_700_000_000, b"{}");
/// assert!(key.verify("msg_1", "1700000000", b"{}", &signature));
/// # Ok::<(), windlass::webhook::InvalidSecret>(())
/// ```
pub struct Key(Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Why a text is not a secret for signatures.
///
/// ```
/// use windlass::webhook::{InvalidSecret, Key};
///
/// assert_eq!(Key::new("short").unwrap_err(), InvalidSecret::TooShort);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSecret {
    /// The text after `whsec_` is not base64.
    #[error("must be base64 after `whsec_`")]
    NotBase64,
    /// A short secret can be guessed.
    #[error("must have at least 16 bytes")]
    TooShort,
}

impl Key {
    /// Creates a key from a plain secret, or from base64 after `whsec_`.
    pub fn new(secret: &str) -> Result<Self, InvalidSecret> {
        let bytes = match secret.strip_prefix("whsec_") {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| InvalidSecret::NotBase64)?,
            None => secret.as_bytes().to_vec(),
        };
        if bytes.len() < 16 {
            return Err(InvalidSecret::TooShort);
        }
        Ok(Self(bytes))
    }

    /// Returns the value of `webhook-signature`.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mac = self.mac(id, &timestamp.to_string(), body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }

    /// Returns whether one of the signatures of the header is valid; a sender that rotates its secret sends several.
    /// Compares in constant time, so that a signature cannot be found byte by byte.
    #[must_use]
    pub fn verify(&self, id: &str, timestamp: &str, body: &[u8], signatures: &str) -> bool {
        let mac = self.mac(id, timestamp, body);
        signatures.split_ascii_whitespace().take(MAX_SIGNATURES).fold(false, |fits, signature| {
            let given = signature.strip_prefix("v1,").and_then(|encoded| STANDARD.decode(encoded).ok());
            fits | given.is_some_and(|given| mac.clone().verify_slice(&given).is_ok())
        })
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        mac
    }
}

/// More secrets than any sender has at once, and few enough that a long header is cheap.
const MAX_SIGNATURES: usize = 10;

#[cfg(test)]
mod tests {
    use super::Key;

    /// The example of the Standard Webhooks libraries' own tests.
    #[test]
    fn a_signature_matches_standard_webhooks() {
        let key =
            Key::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap_or_else(|error| panic!("{error}"));
        let signature = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn only_the_whole_message_under_the_same_key_verifies() {
        let key = |secret: &str| Key::new(secret).unwrap_or_else(|error| panic!("{error}"));
        let (ours, theirs) = (key("0123456789abcdef"), key("0123456789abcdeF"));
        let (id, at, body) = ("msg_1", "1614265330", b"{}".as_slice());
        let signature = ours.sign(id, 1_614_265_330, body);
        assert!(ours.verify(id, at, body, &signature));
        assert!(ours.verify(id, at, body, &format!("v1,AAAA v2,x {signature}")), "one of several");
        for (id, at, body, signatures) in [
            ("msg_2", at, body, signature.as_str()),
            (id, "1614265331", body, &signature),
            (id, at, b"{ }", &signature),
            (id, at, body, ""),
            (id, at, body, "v1,"),
            (id, at, body, signature.trim_start_matches("v1,")),
            (id, at, body, &signature.replace("v1", "v2")),
            (id, at, body, &signature[..signature.len() - 4]),
        ] {
            assert!(!ours.verify(id, at, body, signatures), "{id} {at} {signatures}");
        }
        assert!(!theirs.verify(id, at, body, &signature));
        assert_eq!(format!("{ours:?}"), "Key(…)");
    }

    #[test]
    fn an_invalid_secret_is_rejected() {
        for bad in ["", "short", "whsec_", "whsec_!!!", "whsec_YWJj"] {
            assert!(Key::new(bad).is_err(), "{bad}");
        }
    }
}
