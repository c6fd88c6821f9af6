//! The folders in `examples/`, each run as described in its README: its own SQL, its own programs, the real server.

mod process;

/// Each has its `up_runs_the_example_…`, which also runs the steps of its README.
pub(crate) const NAMES: [&str; 5] = ["ai-tagging", "tts", "clipnest", "call-transcription", "zoltag"];
