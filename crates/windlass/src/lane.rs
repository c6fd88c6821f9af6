//! Which lane a claim asks next, and for how many jobs: fair between tenants, cheap while old rows wait for the vacuum.

pub mod fair;
pub(crate) mod lines;
