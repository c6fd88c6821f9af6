//! Chooses the lanes of the next claim, and the number of jobs of each: fair between tenants, and cheap while dead rows
//! wait for the vacuum.

pub(crate) mod cursors;
pub mod fair;
