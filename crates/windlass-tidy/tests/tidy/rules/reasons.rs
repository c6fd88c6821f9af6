//! Every reason in which a job can end has a text on its page. Reasons come from the rule of the end of an attempt, and from the
//! statements that end waiting jobs.

use crate::rule::{Place, Rule};
use crate::source::{line_at, occurrences};
use crate::tree::{STATEMENTS, Tree};

pub(crate) const RULES: &[&Rule] = &[&EVERY_REASON];

const RULE: &str = "crates/windlass/src/model/job/settle.rs";
const PAGE: &str = "crates/windlass-server/src/web/sentence.rs";

const EVERY_REASON: Rule = Rule {
    name: "every reason of an end has a text on the page of a job",
    fix: "add the reason to REASONS in crates/windlass-server/src/web/sentence.rs",
    find: |tree| {
        let Some(page) = tree.files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
        let known = |reason: &str| page.text.contains(&format!("(\"{reason}\", "));
        reasons(tree)
            .into_iter()
            .filter(|(_, reason)| !known(reason))
            .map(|(place, reason)| Place { what: format!("the reason `{reason}` has no text"), ..place })
            .collect()
    },
    caught: &[
        &[(PAGE, "const REASONS: [] = [];\n"), (RULE, "            Self::Poison => \"poison\",\n")],
        &[
            (PAGE, "const REASONS: [] = [(\"poison\", \"\", \"\")];\n"),
            (
                "crates/windlass/src/store/functions/job/late.sql",
                "perform windlass.finish_waiting(tenant, jobs, windlass.state_code('failed'), 'late');\n",
            ),
        ],
    ],
    passes: &[&[
        (PAGE, "const REASONS: [] = [(\"poison\", \"\", \"\"), (\"late\", \"\", \"\")];\n"),
        (RULE, "            Self::Poison => \"poison\",\n"),
        (
            "crates/windlass/src/store/functions/job/late.sql",
            "perform windlass.finish_waiting(tenant, jobs, windlass.state_code('failed'), 'late');\n",
        ),
    ]],
};

/// Each reason and where it is.
fn reasons(tree: &Tree) -> Vec<(Place, String)> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.path == RULE) {
        let arms = file.text.lines().enumerate().filter_map(|(index, line)| {
            let name = line.trim().strip_prefix("Self::")?.split_once(" => \"")?.1.strip_suffix("\",")?;
            Some((file.place(index + 1, ""), name.to_owned()))
        });
        found.extend(arms);
    }
    for file in tree.ending(".sql").filter(|file| file.path.starts_with(STATEMENTS)) {
        let calls = occurrences(&file.text, "windlass.finish_waiting(").filter_map(|at| {
            let call = file.text[at..].lines().next()?;
            let name = call.rsplit_once(", '")?.1.split('\'').next()?;
            Some((file.place(line_at(&file.text, at), ""), name.to_owned()))
        });
        found.extend(calls);
    }
    found
}
