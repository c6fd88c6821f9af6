//! Checks the rules of ARCHITECTURE.md and CONTRIBUTING.md that a compiler cannot check.
//!
//! A rule is data: its name, how to fix a violation, a function that finds violations in a tree, and samples that it must catch or
//! let pass. The samples are trees in memory, so every rule is shown to be able to fail. The rules read text, not syntax trees:
//! `source` blanks out strings and comments, which is sufficient.

mod markdown;
mod packaging;
mod rule;
mod rules;
mod source;
mod subjects;
mod tree;

use rule::Rule;
use tree::Tree;

#[test]
fn the_tree_follows_every_rule() {
    let tree = Tree::of_this_repository();
    assert!(tree.has("crates/windlass/src/lib.rs"), "tidy runs in the wrong directory");

    let report: Vec<String> = rules::all()
        .iter()
        .flat_map(|rule| {
            (rule.find)(&tree).into_iter().map(|place| {
                let (name, fix) = (rule.name, rule.fix);
                format!("{}:{}: {}\n    rule: {name}\n    fix: {fix}", place.path, place.line, place.what)
            })
        })
        .collect();
    assert!(report.is_empty(), "{} violations\n\n{}\n", report.len(), report.join("\n"));
}

#[test]
fn every_rule_catches_its_violations() {
    for Rule { name, find, caught, .. } in rules::all() {
        assert!(!caught.is_empty(), "the rule `{name}` has no sample of a violation");
        for sample in *caught {
            assert!(
                !find(&Tree::of_sample(sample)).is_empty(),
                "the rule `{name}` does not catch {sample:#?}"
            );
        }
    }
}

#[test]
fn no_rule_catches_allowed_text() {
    for Rule { name, find, passes, .. } in rules::all() {
        for sample in *passes {
            let found = find(&Tree::of_sample(sample));
            assert!(found.is_empty(), "the rule `{name}` wrongly catches {sample:#?}: {found:#?}");
        }
    }
}
