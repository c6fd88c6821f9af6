//! The clients for Python and TypeScript, each run by its own interpreter against a real server.

mod process;
