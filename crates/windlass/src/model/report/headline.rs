//! The line of an error that distinguishes it from other errors.

/// The first line of a Python traceback, which is the same for every exception.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// Returns the first line with text; of a Python traceback the line with the exception, which follows the last stack
/// frame. If the traceback was cut before it, the last line.
pub fn headline(error: &str) -> &str {
    let lines = || error.lines().filter(|line| !line.trim().is_empty());
    let first = lines().next().unwrap_or_default().trim();
    if first != TRACEBACK {
        return first;
    }
    let mut exception = "";
    for line in lines() {
        if line.trim_start().starts_with("File \"") {
            exception = "";
        } else if exception.is_empty() && !line.starts_with(char::is_whitespace) {
            exception = line.trim();
        }
    }
    let is_found = !exception.is_empty() && exception != TRACEBACK;
    if is_found { exception } else { lines().next_back().unwrap_or_default().trim() }
}

#[cfg(test)]
mod tests {
    use super::headline;

    #[test]
    fn the_headline_of_a_traceback_is_its_exception() {
        let trace = "Traceback (most recent call last):\n  File \"worker.py\", line 9, in run\n    handle(job)\n    \
                     ~~~~~~^^^^^\n  File \"tasks.py\", line 3, in handle\n    raise ValueError(text)\n\
                     ValueError: no such image\n  the second line of the message\nand the third\n";
        assert_eq!(headline(trace), "ValueError: no such image");
        let chained = format!(
            "{trace}\nDuring handling of the above exception, another exception occurred:\n\n{trace}"
        )
        .replace("no such image\n  the", "other\n  the");
        assert_eq!(headline(&chained), "ValueError: other");
        let cut = "Traceback (most recent call last):\n  File \"worker.py\", line 9, in run\n    handle(jo";
        assert_eq!(headline(cut), "handle(jo");
    }

    #[test]
    fn the_headline_of_any_other_error_is_its_first_line_with_text() {
        assert_eq!(headline("\n  timeout of 3 s \nat line 4"), "timeout of 3 s");
        assert_eq!(headline("Traceback is on"), "Traceback is on");
        assert_eq!(headline(""), "");
    }
}
