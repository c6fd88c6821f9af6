//! Remembers the server that the tests share, so that only the first test of a run searches for the programs of Postgres and starts one.
//!
//! nextest runs each test in its own process. To find the programs takes ten processes more, to start the server a lock that all tests
//! want at the same time. The others read where the server is from a file.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{TestServer, place};

/// Databases of killed tests are dropped after an hour, so a file is not used for longer.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// The file for a server with this source and these settings.
pub(crate) fn file(directory: &Path, options: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    options.hash(&mut hasher);
    directory.join(format!("running-{:016x}", hasher.finish()))
}

/// The server of this file, if it is running.
pub(crate) fn find(file: &Path) -> Option<TestServer> {
    let age = fs::metadata(file).ok()?.modified().ok()?.elapsed().ok()?;
    if age > MAX_AGE {
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    let (url, data_dir) = text.trim_end().split_once('\n')?;
    // A connection would prove it too, for 5 ms of the processor in every test.
    if !place::is_ready(Path::new(data_dir)) {
        return None;
    }
    Some(TestServer { url: url.to_owned(), data_dir: data_dir.into() })
}

/// Written under another name first, because other tests read it at the same time.
pub(crate) fn remember(file: &Path, server: &TestServer) {
    let unfinished = file.with_extension(std::process::id().to_string());
    let text = format!("{}\n{}\n", server.url, server.data_dir.display());
    let written = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, file));
    written.unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
}
