//! Groups dead letters by error: errors that differ only in numbers and ids are the same.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::{DeadLetter, headline};

/// The number of bytes of an error that are compared.
const TELLING: usize = 160;

/// Dead letters of one definition with the same error.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// for group in reading.error_groups(windlass::DEFAULT_TENANT).await? {
///     println!("{} × {}: {}", group.jobs.len(), group.definition_key, group.example);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ErrorGroup {
    /// The key of its definition.
    pub definition_key: String,
    /// The error without its numbers and ids.
    pub fingerprint: String,
    /// The complete error of the newest job.
    pub example: String,
    /// The newest end of a job in the group.
    pub newest: Timestamp,
    /// The oldest end of a job in the group.
    pub oldest: Timestamp,
    /// Newest first.
    pub jobs: Vec<Uuid>,
}

/// Expects dead letters with the newest first. The largest group comes first, and of two equal ones the one with the
/// newer job.
pub(crate) fn gather(letters: Vec<DeadLetter>) -> Vec<ErrorGroup> {
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    let mut groups: Vec<ErrorGroup> = Vec::new();
    for letter in letters {
        let example = letter.error_text.or(letter.reason).unwrap_or_else(|| "no error message".to_owned());
        let fingerprint = fingerprint(&example);
        let key = (letter.definition_key, fingerprint);
        if let Some(group) = places.get(&key).and_then(|&place| groups.get_mut(place)) {
            group.jobs.push(letter.job_id);
            group.newest = group.newest.max(letter.finished_at);
            group.oldest = group.oldest.min(letter.finished_at);
            continue;
        }
        places.insert(key.clone(), groups.len());
        let (definition_key, fingerprint) = key;
        let (newest, oldest) = (letter.finished_at, letter.finished_at);
        groups.push(ErrorGroup {
            definition_key,
            fingerprint,
            example,
            newest,
            oldest,
            jobs: vec![letter.job_id],
        });
    }
    groups.sort_by(|a, b| b.jobs.len().cmp(&a.jobs.len()).then(b.newest.cmp(&a.newest)));
    groups
}

/// The headline, with every word that contains a digit replaced by `#`: numbers, ids, times, paths.
fn fingerprint(error: &str) -> String {
    let line = headline(error);
    let mut out = String::with_capacity(TELLING + 8);
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        if word.contains(|character: char| character.is_ascii_digit()) {
            if !out.ends_with('#') {
                out.push('#');
            }
        } else {
            out.push_str(word);
        }
        word.clear();
    };
    for character in line.chars() {
        if character.is_alphanumeric() || character == '-' || character == '_' {
            word.push(character);
        } else {
            flush(&mut word, &mut out);
            out.push(character);
        }
        if out.len() > TELLING {
            break;
        }
    }
    flush(&mut word, &mut out);
    let cut = (0..=TELLING.min(out.len())).rev().find(|&at| out.is_char_boundary(at)).unwrap_or(0);
    out.truncate(cut);
    out
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use uuid::Uuid;

    use super::{DeadLetter, fingerprint, gather};

    #[test]
    fn errors_that_differ_in_numbers_and_ids_are_one() {
        let same = [
            "connection to 10.0.0.7:5432 refused after 30s (request 6f46a1d8-6e2b-4ecf-8b46-9ec2e6a37f09)",
            "connection to 10.0.3.99:6432 refused after 5s (request 00000000-0000-7000-8000-000000000001)\nat line 4",
        ];
        assert_eq!(fingerprint(same[0]), fingerprint(same[1]));
        assert_ne!(fingerprint(same[0]), fingerprint("connection reset"));
    }

    #[test]
    fn tracebacks_are_grouped_by_their_exception() {
        let trace = |error: &str| {
            format!("Traceback (most recent call last):\n  File \"w.py\", line 3, in run\n    f()\n{error}\n")
        };
        assert_eq!(fingerprint(&trace("KeyError: 'a'")), "KeyError: 'a'");
        assert_eq!(fingerprint(&trace("OSError: 7 left")), fingerprint(&trace("OSError: 9 left")));
    }

    #[test]
    fn a_long_multi_byte_error_is_cut_between_characters() {
        assert!(fingerprint(&"日本語".repeat(500)).len() <= 200);
    }

    #[test]
    fn the_largest_group_comes_first_with_its_newest_example() {
        let letter = |second: i64, key: &str, error: &str| DeadLetter {
            job_id: Uuid::from_u128(second.unsigned_abs().into()),
            definition_key: key.to_owned(),
            finished_at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second),
            attempts: 3,
            reason: None,
            error_text: Some(error.to_owned()),
        };
        let letters = vec![
            letter(9, "a", "once"),
            letter(5, "a", "exit 3"),
            letter(4, "a", "exit 4"),
            letter(3, "b", "exit 4"),
        ];
        let groups = gather(letters);
        let seen: Vec<_> =
            groups.iter().map(|group| (group.definition_key.as_str(), group.jobs.len())).collect();
        assert_eq!(seen, [("a", 2), ("a", 1), ("b", 1)]);
        assert_eq!(groups[0].example, "exit 3");
        assert_eq!(groups[0].oldest, Timestamp::UNIX_EPOCH + SignedDuration::from_secs(4));
    }
}
