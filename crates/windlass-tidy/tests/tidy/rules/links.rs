//! The documents point at things that exist.

use crate::markdown::{anchors, links};
use crate::rule::Rule;
use crate::tree::{Tree, beside};

pub(crate) const RULES: &[&Rule] = &[&LINKS];

const LINKS: Rule = Rule {
    name: "every link within the repository resolves",
    mend: "correct the path or the heading after `#`",
    find: |tree| {
        let mut places = Vec::new();
        for file in tree.ending(".md") {
            let inner = links(&file.text).into_iter().filter(|(_, target)| !is_elsewhere(target));
            places.extend(
                inner
                    .filter(|(_, target)| !resolves(tree, &file.path, target))
                    .map(|(line, target)| file.place(line, format!("`{target}` is not there"))),
            );
        }
        places
    },
    caught: &[
        &[("README.md", "Read [the docs](docs/gone.md).\n")],
        &[("docs/a.md", "[b](b.md#second)\n"), ("docs/b.md", "# First\n")],
        &[("docs/a.md", "# One\n[two](#two)\n")],
    ],
    passes: &[
        &[
            ("README.md", "[a](docs/a.md), [all](docs/), [x](https://example.org/gone)\n"),
            ("docs/a.md", "# A\n"),
        ],
        &[("docs/a.md", "[b](b.md#the-walk-of-one-job)\n"), ("docs/b.md", "## The walk of one job\n")],
        &[("docs/a.md", "`[b](gone.md)`\n```\n[c](gone.md)\n```\n")],
    ],
};

fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

fn resolves(tree: &Tree, from: &str, target: &str) -> bool {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() { from.to_owned() } else { beside(from, path) };
    let Some(anchor) = anchor else { return tree.has(&path) };
    tree.files.iter().any(|file| file.path == path && anchors(&file.text).iter().any(|known| known == anchor))
}
