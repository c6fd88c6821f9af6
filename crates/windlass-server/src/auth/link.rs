//! The secret of a one-time link: 256 random bits. The link is shown to the person who created it; only its hash is stored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::RngCore;
use sha2::{Digest, Sha256};

use super::secret::Secret;

const LENGTH: usize = 43;

#[derive(Debug, Clone)]
pub(crate) struct LinkSecret(Secret);

impl LinkSecret {
    pub(crate) fn generate() -> Self {
        let mut secret = [0; 32];
        rand::rng().fill_bytes(&mut secret);
        Self(Secret::new(URL_SAFE_NO_PAD.encode(secret)))
    }

    /// From the URL of a page. `None` for anything that `generate` cannot have created.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_shaped = text.len() == LENGTH
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        is_shaped.then(|| Self(Secret::new(text)))
    }

    /// The hash that is stored.
    pub(crate) fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.expose().as_bytes()).into()
    }

    /// The whole text, for the link.
    pub(crate) fn expose(&self) -> &str {
        self.0.expose()
    }
}
