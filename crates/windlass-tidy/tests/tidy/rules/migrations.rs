//! What a migration may do to a table that exists. Any login can create an index on an expression of the row type of a table, in a
//! temporary table too, and Postgres has no privilege against it. Such an index stops every change that rewrites the rows.

use crate::rule::Rule;
use crate::tree::File;

pub(crate) const RULES: &[&Rule] = &[&NO_REWRITE];

const MIGRATIONS: &str = "crates/windlass/migrations/";

/// The migrations of the first release: its installations begin with all of them.
const FIRST_RELEASE: u32 = 29;

const NO_REWRITE: Rule = Rule {
    name: "a migration after the first release adds columns without a default and changes no type of a column",
    fix: "add the column, then set its default and update the rows; for another type, add a column and move the values in batches",
    find: |tree| {
        let later =
            tree.ending(".sql").filter(|file| number(file).is_some_and(|number| number > FIRST_RELEASE));
        later
            .flat_map(|file| {
                let statements = file.text.split_inclusive([';', ',']).scan(0, |offset, part| {
                    let at = *offset;
                    *offset += part.len();
                    Some((at, part))
                });
                let rewrites = statements.filter(|(_, part)| {
                    let words = part.split_whitespace().collect::<Vec<_>>().join(" ");
                    let adds = words.contains("add column") && words.contains(" default ");
                    adds || words.contains("alter column") && words.contains(" type ")
                });
                rewrites.map(|(offset, _)| file.place_at(offset, "rewrites rows")).collect::<Vec<_>>()
            })
            .collect()
    },
    caught: &[
        &[(
            "crates/windlass/migrations/0030_a.sql",
            "alter table windlass.a add column b integer not null\n  default 0;\n",
        )],
        &[("crates/windlass/migrations/0030_a.sql", "alter table windlass.a alter column b type bigint;\n")],
    ],
    passes: &[&[
        ("crates/windlass/migrations/0029_a.sql", "alter table windlass.a add column b integer default 0;\n"),
        (
            "crates/windlass/migrations/0030_a.sql",
            "alter table windlass.a add column b integer;\nalter table windlass.a alter column b set default 0;\n",
        ),
    ]],
};

fn number(file: &File) -> Option<u32> {
    file.path.strip_prefix(MIGRATIONS)?.get(..4)?.parse().ok()
}
