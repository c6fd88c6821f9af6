//! What is done to a database before and beside its use: a private one for development, the migrations, the doctor.

pub(crate) mod doctor;
pub mod embedded;
pub(crate) mod migrate;
