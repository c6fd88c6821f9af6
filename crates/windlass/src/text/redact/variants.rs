//! The forms in which programs print a secret: unchanged, in JSON, in a URL, in base64 and in hexadecimal.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use crate::text;

/// Every form of the secret, starting with the unchanged one.
pub(super) fn variants(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![secret.to_vec()];
    all.extend(in_json(secret));
    all.extend(in_url(secret));
    all.extend((0..3).flat_map(|offset| in_base64(secret, offset)));
    let hex = text::hex(secret);
    all.push(hex.to_uppercase().into_bytes());
    all.push(hex.into_bytes());
    all
}

/// In JSON: plain, and with all non-ASCII characters escaped, as Python does by default.
fn in_json(secret: &[u8]) -> Vec<Vec<u8>> {
    let Ok(text) = std::str::from_utf8(secret) else { return Vec::new() };
    let quoted = serde_json::Value::from(text).to_string();
    let plain = quoted[1..quoted.len() - 1].to_owned();
    let mut ascii = String::with_capacity(plain.len());
    for c in plain.chars() {
        if c.is_ascii() && c != '\x7f' {
            ascii.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    let slashes = plain.replace('/', "\\/");
    vec![plain.into_bytes(), ascii.into_bytes(), slashes.into_bytes()]
}

/// Encoders differ in the characters that they escape and in the case of their digits.
fn in_url(secret: &[u8]) -> Vec<Vec<u8>> {
    let left_alone = ["", "/", "!'()*", "/:@!$&'()*+,;=?"];
    let mut all = Vec::new();
    for extra in left_alone {
        for is_upper in [true, false] {
            all.push(percent_encoded(secret, extra, is_upper, false));
            all.push(percent_encoded(secret, extra, is_upper, true));
        }
    }
    all
}

fn percent_encoded(secret: &[u8], left_alone: &str, is_upper: bool, plus_for_space: bool) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(secret.len() * 3);
    for &byte in secret {
        match byte {
            b' ' if plus_for_space => encoded.push(b'+'),
            _ if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => encoded.push(byte),
            _ if left_alone.as_bytes().contains(&byte) => encoded.push(byte),
            _ if is_upper => encoded.extend(format!("%{byte:02X}").bytes()),
            _ => encoded.extend(format!("%{byte:02x}").bytes()),
        }
    }
    encoded
}

/// The base64 digits that depend only on the secret, if it starts `offset` bytes into a group of three. The digits at
/// its edges also contain bits of adjacent bytes, so they vary; they contain less than one byte of the secret.
fn in_base64(secret: &[u8], offset: usize) -> [Vec<u8>; 2] {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(secret);
    let (from, to) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
    [STANDARD, URL_SAFE].map(|alphabet| alphabet.encode(&padded).as_bytes()[from..to].to_vec())
}
