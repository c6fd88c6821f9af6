//! The rules, one subject per file.

mod codes;
mod constants;
mod directions;
mod examples;
mod finished;
mod habits;
mod length;
mod links;
mod migrations;
mod names;
mod pages;
mod reasons;
mod requests;
mod rooms;
mod settings;
mod statements;
mod supply;
mod tables;
mod text;
mod toolchain;
mod waiting;
mod walk;
mod words;
mod workspace;

use crate::rule::Rule;

pub(crate) fn all() -> Vec<&'static Rule> {
    [
        rooms::RULES,
        directions::RULES,
        names::RULES,
        codes::RULES,
        constants::RULES,
        examples::RULES,
        migrations::RULES,
        statements::RULES,
        settings::RULES,
        length::RULES,
        finished::RULES,
        waiting::RULES,
        text::RULES,
        links::RULES,
        pages::RULES,
        reasons::RULES,
        requests::RULES,
        tables::RULES,
        supply::RULES,
        walk::RULES,
        workspace::RULES,
        words::RULES,
        habits::RULES,
        toolchain::RULES,
    ]
    .concat()
}
