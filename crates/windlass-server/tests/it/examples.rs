//! The folders in `examples/`, each run as its README says: its own SQL, its own programs, the real server.

mod process;
