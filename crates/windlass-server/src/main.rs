//! The `windlass` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: this may be a process that supervises a command.
    windlass::worker::run_shim_if_asked();
    // First of all: two providers in one process, or none, panic at the first connection.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    windlass_server::cli::main(std::env::args_os())
}
