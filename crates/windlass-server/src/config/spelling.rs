//! Names that were probably misspelled.

/// The message about an unknown name: the known one that was probably meant, or all of them.
pub(super) fn unknown(what: &str, name: &str, all: &[&str]) -> String {
    let close = all.iter().find(|known| is_close(name, known));
    match close {
        Some(close) => format!("unknown {what}; did you mean `{close}`?"),
        None => format!("unknown {what}; expected one of {}", all.join(", ")),
    }
}

/// One letter too many, too few or wrong, or two swapped; or one name within the other.
fn is_close(given: &str, known: &str) -> bool {
    let (given, known) = (given.to_lowercase(), known.to_lowercase());
    if given.len() > 2 && (known.contains(&given) || given.contains(&known)) {
        return true;
    }
    let (a, b): (Vec<char>, Vec<char>) = (given.chars().collect(), known.chars().collect());
    let start = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let room = a.len().min(b.len()) - start;
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count().min(room);
    let (left, right) = (&a[start..a.len() - end], &b[start..b.len() - end]);
    left.len() <= 1 && right.len() <= 1
        || (left.len() == 2 && right.len() == 2 && left[0] == right[1] && left[1] == right[0])
}

#[cfg(test)]
mod tests {
    use super::is_close;

    #[test]
    fn similar_names_are_recognized() {
        assert!(
            is_close("databse", "database")
                && is_close("lisetn", "listen")
                && is_close("conections", "connections")
        );
        assert!(!is_close("colour", "listen"));
    }
}
