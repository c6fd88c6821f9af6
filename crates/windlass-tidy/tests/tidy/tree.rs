//! The files that the rules check.

use std::path::Path;
use std::process::Command;

use crate::rule::{Place, Sample};
use crate::source::{Source, line_at};

/// Where the library's source is.
pub(crate) const LIBRARY: &str = "crates/windlass/src/";

/// Where the library's statements are.
pub(crate) const STATEMENTS: &str = "crates/windlass/src/store/";

pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

pub(crate) struct File {
    /// From the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Only for Rust files.
    pub(crate) rust: Option<Source>,
}

impl Tree {
    /// Every file that is tracked by git or not ignored; files that are not text have no content.
    pub(crate) fn of_this_repository() -> Tree {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        // The user that runs the tests need not own the files.
        let listed = Command::new("git")
            .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .expect("git is installed");
        assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));

        let paths = String::from_utf8(listed.stdout).expect("paths are UTF-8");
        let files = paths.split_terminator('\0').filter_map(|path| {
            // A deleted file may not be committed yet. Of files that are not text, and of links to folders, only the path matters.
            let place = root.join(path);
            let bytes = || std::fs::read(&place).unwrap_or_default();
            place.exists().then(|| File::new(path, String::from_utf8(bytes()).unwrap_or_default()))
        });
        Tree { files: files.collect() }
    }

    pub(crate) fn of_sample(sample: Sample) -> Tree {
        Tree { files: sample.iter().map(|(path, text)| File::new(path, (*text).to_owned())).collect() }
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    pub(crate) fn ending(&self, end: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.path.ends_with(end))
    }

    /// Whether a file or a folder with that path exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.files.iter().any(|file| {
            file.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

impl File {
    fn new(path: &str, text: String) -> File {
        let rust = path.ends_with(".rs").then(|| Source::read(&text));
        File { path: path.to_owned(), text, rust }
    }

    /// Whether the whole file is test code.
    pub(crate) fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    pub(crate) fn place(&self, line: usize, what: impl Into<String>) -> Place {
        Place { path: self.path.clone(), line, what: what.into() }
    }

    pub(crate) fn place_at(&self, offset: usize, what: impl Into<String>) -> Place {
        self.place(line_at(&self.text, offset), what)
    }
}

/// Joins a path to the folder of the file that names it, resolving `.` and `..`.
pub(crate) fn beside(file: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[test]
fn a_path_is_found_beside_the_file_that_names_it() {
    assert_eq!(beside("docs/a/b.md", "../c.md"), "docs/c.md");
    assert_eq!(beside("README.md", "./docs/"), "docs");
}
