//! Whole processes: started, used, stopped and killed. They run one at a time.

pub(crate) mod browser;
mod logins;
mod serve;
mod up;
mod worker;
