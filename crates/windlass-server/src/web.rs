//! The web UI: pages rendered here, one stylesheet, one small script, nothing fetched from elsewhere.
//!
//! A page is a handler that reads through the library, a struct with the values to show, and a template. Pages contain
//! no SQL and no rules: the route table defines the permissions, and templates only omit what would be rejected.
//! Templates escape every text; [`html::Html`] is the only type that they print unchanged.

pub(crate) mod assets;
mod cards;
mod chart;
mod count;
mod flash;
mod form;
mod form_body;
mod frame;
mod html;
mod json_view;
mod link;
mod page;
mod problem;
mod query;
mod relative_time;
mod run_charts;
mod schema_form;
mod search;
mod sentence;
mod status_mark;
mod url_parameters;
mod viewer;
mod worker_name;

pub(crate) mod account;
pub(crate) mod audit;
pub(crate) mod components;
pub(crate) mod dead_letters;
pub(crate) mod definitions;
pub(crate) mod invitation;
pub(crate) mod job;
pub(crate) mod job_actions;
pub(crate) mod jobs;
pub(crate) mod live;
pub(crate) mod log;
pub(crate) mod members;
pub(crate) mod new_job;
pub(crate) mod overview;
pub(crate) mod password_reset;
pub(crate) mod preferences;
pub(crate) mod queues;
pub(crate) mod retention;
pub(crate) mod sign_in;
pub(crate) mod tenant_choice;
pub(crate) mod tenants;
pub(crate) mod tokens;
pub(crate) mod triggers;
pub(crate) mod workers;

pub(crate) use live::Pulses;
pub(crate) use problem::{NO_PAGE, PageProblem};
pub(crate) use sign_in::to_sign_in;
