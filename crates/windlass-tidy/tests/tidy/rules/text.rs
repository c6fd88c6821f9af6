//! Rules for all text files.

use crate::rule::Rule;

pub(crate) const RULES: &[&Rule] = &[&LAST_NEWLINE];

const LAST_NEWLINE: Rule = Rule {
    name: "every file ends with a newline",
    fix: "end its last line",
    find: |tree| {
        let open = tree.files.iter().filter(|file| !file.text.is_empty() && !file.text.ends_with('\n'));
        open.map(|file| file.place(file.text.lines().count(), "no newline at the end")).collect()
    },
    caught: &[&[("README.md", "# windlass")]],
    passes: &[&[("README.md", "# windlass\n")], &[("crates/a/src/empty.txt", "")]],
};
