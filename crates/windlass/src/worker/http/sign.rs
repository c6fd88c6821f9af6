//! Signatures in the form of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, so that neither the body nor its
//! time can be changed, and a repetition can be told by its id.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A signing key. Never printed.
pub(super) struct Key(Vec<u8>);

impl Key {
    pub(super) fn new(secret: &str) -> Result<Self, &'static str> {
        let bytes = match secret.strip_prefix("whsec_") {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| "must be base64 after `whsec_`")?,
            None => secret.as_bytes().to_vec(),
        };
        if bytes.len() < 16 {
            return Err("must have at least 16 bytes, or anybody could guess it");
        }
        Ok(Self(bytes))
    }

    /// The value of `webhook-signature`.
    pub(super) fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    /// The example that the Standard Webhooks libraries test themselves with.
    #[test]
    fn a_signature_is_the_one_that_standard_webhooks_expects() {
        let key =
            Key::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap_or_else(|error| panic!("{error}"));
        let signature = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_that_is_no_secret_is_refused() {
        for bad in ["", "short", "whsec_", "whsec_!!!", "whsec_YWJj"] {
            assert!(Key::new(bad).is_err(), "{bad}");
        }
    }
}
