//! The `windlass` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Must come first: this process may be the supervisor of a command.
    windlass::worker::run_shim_if_requested();
    // Before any connection: rustls panics if the process has no default provider, or two.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    windlass_server::cli::main(std::env::args_os())
}
