//! The documents point at things that exist.

use crate::markdown::{anchors, links};
use crate::rule::Rule;
use crate::tree::{Tree, beside};

pub(crate) const RULES: &[&Rule] = &[&LINKS, &INDEX];

const LINKS: Rule = Rule {
    name: "every link within the repository resolves",
    fix: "correct the path or the heading after `#`",
    find: |tree| {
        let mut places = Vec::new();
        for file in tree.ending(".md") {
            let inner = links(&file.text).into_iter().filter(|(_, target)| !is_elsewhere(target));
            places.extend(
                inner
                    .filter(|(_, target)| !resolves(tree, &file.path, target))
                    .map(|(line, target)| file.place(line, format!("`{target}` does not exist"))),
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

const INDEX: Rule = Rule {
    name: "every page of docs is in its index",
    fix: "link it from docs/README.md, or a decision from docs/decisions/README.md",
    find: |tree| {
        let indices: Vec<_> = tree
            .files
            .iter()
            .filter(|file| file.path.starts_with("docs/") && file.path.ends_with("README.md"))
            .collect();
        let listed: Vec<String> = indices
            .iter()
            .flat_map(|index| links(&index.text).into_iter().map(|(_, target)| beside(&index.path, &target)))
            .collect();
        let pages = tree
            .ending(".md")
            .filter(|file| file.path.starts_with("docs/") && !file.path.ends_with("README.md"));
        pages
            .filter(|page| !listed.contains(&page.path))
            .map(|page| page.place(1, "no index links this page"))
            .collect()
    },
    caught: &[
        &[("docs/README.md", "[a](a.md)\n"), ("docs/a.md", "# A\n"), ("docs/guides/b.md", "# B\n")],
        &[("docs/a.md", "# A\n")],
    ],
    passes: &[
        &[
            ("docs/README.md", "[a](a.md), [all](decisions/README.md)\n"),
            ("docs/a.md", "# A\n"),
            ("docs/decisions/README.md", "[0001](0001.md)\n"),
            ("docs/decisions/0001.md", "# 1\n"),
        ],
        &[("examples/README.md", "# Examples\n")],
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
