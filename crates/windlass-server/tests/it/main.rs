//! The server as its users meet it.
