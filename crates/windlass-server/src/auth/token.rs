//! The format of a token: `wl_<kind>_<id>_<secret>`, where the secret is 256 random bits in 43 characters and a checksum in six
//! more. With the checksum, mistyped and guessed tokens are rejected without a query, and secret scanners have no false matches.
//! Only the SHA-256 of the secret is stored.

use std::fmt;

use rand::RngCore;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::secret::Secret;

/// The kind of a token, readable in the token itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// For the API, with the role of a tenant.
    Api,
    /// For the worker protocol.
    Worker,
    /// For the whole installation.
    Admin,
}

impl TokenKind {
    /// Returns the name in the token.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
            Self::Admin => "admin",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Api, Self::Worker, Self::Admin].into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A complete token, with its secret.
#[derive(Clone)]
pub struct TokenSecret {
    kind: TokenKind,
    id: String,
    secret: Secret,
}

const SECRET_LENGTH: usize = 43;
const CHECK_LENGTH: usize = 6;
const ID_LENGTH: usize = 16;

impl TokenSecret {
    /// A new random token.
    pub fn generate(kind: TokenKind) -> Self {
        let (mut id, mut secret) = ([0; ID_LENGTH / 2], [0; 32]);
        let mut random = rand::rng();
        random.fill_bytes(&mut id);
        random.fill_bytes(&mut secret);
        let (id, secret) = (windlass::internals::text::hex(&id), base62(&secret, SECRET_LENGTH));
        let check = checksum(kind, &id, &secret);
        Self { kind, id, secret: Secret::new(format!("{secret}{check}")) }
    }

    /// From the text of an Authorization header. `None` for anything that `generate` cannot have created.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("wl_")?.splitn(3, '_');
        let kind = TokenKind::parse(parts.next()?)?;
        let (id, secret) = (parts.next()?, parts.next()?);
        let id_is_hex = id.len() == ID_LENGTH && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let is_shaped =
            secret.len() == SECRET_LENGTH + CHECK_LENGTH && secret.bytes().all(|b| b.is_ascii_alphanumeric());
        if !id_is_hex || !is_shaped {
            return None;
        }
        let (random, check) = secret.split_at(SECRET_LENGTH);
        (checksum(kind, id, random) == check).then(|| Self {
            kind,
            id: id.to_owned(),
            secret: Secret::new(secret),
        })
    }

    /// Returns its kind.
    pub fn kind(&self) -> TokenKind {
        self.kind
    }

    /// Returns its id, which is not secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The hash that is stored.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.secret.expose().as_bytes()).into()
    }

    /// Whether the secret matches the stored hash (in hex), compared in constant time.
    pub fn matches(&self, stored: &str) -> bool {
        windlass::internals::text::hex(&self.hash()).as_bytes().ct_eq(stored.as_bytes()).into()
    }

    /// The complete text, shown only once.
    pub fn expose(&self) -> String {
        format!("wl_{}_{}_{}", self.kind.as_str(), self.id, self.secret.expose())
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wl_{}_{}_[secret]", self.kind.as_str(), self.id)
    }
}

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Bytes as one large number in base 62, with leading zeroes to a fixed length.
fn base62(bytes: &[u8], length: usize) -> String {
    let mut number = bytes.to_vec();
    let mut digits = vec![b'0'; length];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0_u32;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            *byte = (value / 62) as u8;
            rest = value % 62;
        }
        *digit = DIGITS[rest as usize];
    }
    String::from_utf8_lossy(&digits).into_owned()
}

fn checksum(kind: TokenKind, id: &str, secret: &str) -> String {
    let mut crc = u32::MAX;
    for byte in format!("wl_{}_{id}_{secret}", kind.as_str()).bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    base62(&(!crc).to_be_bytes(), CHECK_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::{TokenKind, TokenSecret};

    #[test]
    fn a_token_parses_to_itself() {
        for kind in [TokenKind::Api, TokenKind::Worker, TokenKind::Admin] {
            let made = TokenSecret::generate(kind);
            let read = TokenSecret::parse(&made.expose()).unwrap();
            assert_eq!((read.kind(), read.id(), read.hash()), (kind, made.id(), made.hash()));
            assert!(made.matches(&windlass::internals::text::hex(&made.hash())));
        }
    }

    #[test]
    fn a_changed_character_is_detected_by_the_checksum() {
        let token = TokenSecret::generate(TokenKind::Api).expose();
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'a' { b'b' } else { b'a' };
            assert!(TokenSecret::parse(std::str::from_utf8(&changed).unwrap()).is_none(), "at {at}");
        }
    }

    #[test]
    fn printing_a_token_does_not_show_its_secret() {
        let token = TokenSecret::generate(TokenKind::Admin);
        let whole = token.expose();
        let secret = whole.rsplit('_').next().unwrap();
        assert!(!format!("{token:?}").contains(secret));
    }
}
