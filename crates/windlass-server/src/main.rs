//! The `windlass` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: two providers in one process, or none, panic at the first connection.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    windlass_server::cli::main(std::env::args_os())
}
