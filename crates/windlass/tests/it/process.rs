//! Real processes, killed, frozen, starved and disconnected. Every test ends with the same accounting: all accepted jobs exist,
//! all have ended, none ended twice, and the harness's own ledger agrees.

pub(crate) mod accounting;
mod cancel;
mod command;
mod cut;
mod defaults;
mod disorder;
mod events;
mod examples;

pub(crate) mod fleet;
mod freeze;
mod kill;
mod ledger;
mod listen;
mod load;

mod poison;
mod pooler;
mod schedule;
mod server;
mod shutdown;
mod starve;
mod terminate;
mod waiting;
