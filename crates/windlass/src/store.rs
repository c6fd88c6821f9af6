//! Access to the database. Each function makes one call and returns values; it makes no decisions about jobs, does not
//! use HTTP, and leaves retries to its callers.

pub(crate) mod access;
pub(crate) mod account;
pub(crate) mod act;
pub(crate) mod attempt;
pub(crate) mod audit;
pub(crate) mod bounded;
pub(crate) mod bulk;
pub(crate) mod connect;
pub(crate) mod current_tenant;
pub(crate) mod database;
pub(crate) mod definition;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod enqueue_as;
pub(crate) mod event;
pub(crate) mod holders;
pub(crate) mod insight;
pub(crate) mod install;
pub(crate) mod isolation;
pub(crate) mod job;
pub(crate) mod keeper;
pub(crate) mod keys;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod manage;
pub(crate) mod overview;
pub(crate) mod page;
pub(crate) mod param;
pub(crate) mod permits;
pub(crate) mod problem;
pub(crate) mod pull;
pub(crate) mod refusal;
pub(crate) mod request;
pub(crate) mod retention;
pub(crate) mod schema;
pub(crate) mod search;
pub(crate) mod settle;
mod shares;
pub(crate) mod statement;
pub(crate) mod supported;
pub(crate) mod tenant;
#[cfg(feature = "testing")]
pub(crate) mod testing;
pub(crate) mod token;
pub(crate) mod trigger;
pub(crate) mod worker;

use database::Statement;

/// Returns every statement of this release; a test prepares each of them on a migrated database and compares the types.
#[doc(hidden)]
#[must_use]
pub fn statements() -> Vec<(&'static str, &'static [tokio_postgres::types::Type])> {
    let all: &[&[&Statement]] = &[
        access::STATEMENTS,
        install::STATEMENTS,
        #[cfg(feature = "testing")]
        testing::STATEMENTS,
        enqueue::STATEMENTS,
        enqueue_as::STATEMENTS,
        keys::STATEMENTS,
        job::STATEMENTS,
        settle::STATEMENTS,
        list::STATEMENTS,
        attempt::STATEMENTS,
        search::STATEMENTS,
        bulk::STATEMENTS,
        log::STATEMENTS,
        worker::STATEMENTS,
        keeper::STATEMENTS,
        pull::STATEMENTS,
        tenant::STATEMENTS,
        trigger::STATEMENTS,
        event::STATEMENTS,
        retention::STATEMENTS,
        definition::STATEMENTS,
        overview::STATEMENTS,
        manage::STATEMENTS,
        account::STATEMENTS,
        token::STATEMENTS,
        audit::STATEMENTS,
        request::STATEMENTS,
        doctor::STATEMENTS,
        insight::STATEMENTS,
        problem::STATEMENTS,
    ];
    all.iter().copied().flatten().map(|statement| (statement.text, statement.types)).collect()
}
