//! Whole processes: started, used, stopped and killed. They run one at a time.

mod up;
mod worker;
