//! What is hidden in errors, results, logs and payloads before anybody sees them.
//!
//! ```
//! use windlass::Definition;
//! use windlass::redact::Redaction;
//!
//! let redaction = Redaction::new().key("password").expression(r"card-\d+");
//! let definition = Definition::new("charge").redaction(redaction);
//! # let _ = definition;
//! ```

pub use crate::text::redact::{PLACEHOLDER, Redaction, Redactor};
