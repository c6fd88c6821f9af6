//! A checkpoint as text, one line per chain, so that it can be printed, mailed and stored where an attacker with access
//! to the database cannot change it.

use super::AuditHead;
use crate::error::{Error, Result};

/// The start of each line.
const MARK: &str = "windlass-audit-1";

impl AuditHead {
    /// One line of a checkpoint.
    pub fn to_line(&self) -> String {
        format!("{MARK} {} {} {} {}", self.tenant_id, self.position, self.hash, self.sealed_at)
    }

    /// Parses the lines of a checkpoint. Empty lines and comments (`#`) are skipped.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>> {
        let lines = text.lines().map(str::trim).enumerate();
        let heads: Vec<Self> = lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(at, line)| parse_line(line).ok_or_else(|| refused(at + 1)))
            .collect::<Result<_>>()?;
        if heads.is_empty() {
            return Err(Error::refused("checkpoint", format!("has no line that starts with {MARK}")));
        }
        Ok(heads)
    }

    /// The hash as it is stored in the database.
    pub(crate) fn hash_bytes(&self) -> Vec<u8> {
        let digits = self.hash.as_bytes().chunks(2);
        digits.filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
    }
}

fn parse_line(line: &str) -> Option<AuditHead> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [MARK, tenant, position, hash, sealed_at] = parts[..] else { return None };
    let is_hash = hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    let position = position.parse().ok().filter(|position| *position > 0)?;
    is_hash.then_some(AuditHead {
        tenant_id: tenant.parse().ok()?,
        position,
        hash: hash.to_owned(),
        sealed_at: sealed_at.parse().ok()?,
    })
}

fn refused(line: usize) -> Error {
    let form = "TENANT POSITION HASH TIME";
    Error::refused("checkpoint", format!("line {line} must be `{MARK} {form}`, as `audit head` prints it"))
}

#[cfg(test)]
mod tests {
    use super::AuditHead;

    #[test]
    fn a_checkpoint_parses_as_printed_and_nothing_else_parses() {
        let head = AuditHead {
            tenant_id: uuid::Uuid::from_u128(7),
            position: 3,
            hash: "0f".repeat(32),
            sealed_at: "2026-01-02T03:04:05.678Z".parse().unwrap(),
        };
        let text = format!("# kept by ops\n\n{}\n", head.to_line());
        assert_eq!(AuditHead::parse_lines(&text).unwrap(), std::slice::from_ref(&head));
        assert_eq!(head.hash_bytes(), [0x0f; 32]);
        for wrong in ["", "# nothing", "hello", &head.to_line().replace(" 3 ", " -3 "), &head.to_line()[..60]]
        {
            assert!(AuditHead::parse_lines(wrong).is_err(), "{wrong}");
        }
    }
}
