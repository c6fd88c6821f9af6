//! How tests wait.

use crate::rule::Rule;
use crate::source::words;

pub(crate) const RULES: &[&Rule] = &[&NO_SLEEP];

const NO_SLEEP: Rule = Rule {
    name: "a test waits for an event and never sleeps",
    fix: "wait for the condition with the helpers of windlass-testing, which have a timeout",
    find: |tree| {
        tree.rust()
            .flat_map(|(file, source)| {
                let calls = words(&source.code, "sleep")
                    .filter(|at| source.code[at + "sleep".len()..].starts_with('('));
                let in_tests = calls.filter(|at| file.is_test() || source.is_test(*at));
                in_tests.map(|at| file.place_at(at, "`sleep(` in a test"))
            })
            .collect()
    },
    caught: &[
        &[("crates/a/tests/b.rs", "fn a() { std::thread::sleep(SECOND); }\n")],
        &[("crates/a/tests/it/b.rs", "async fn a() { time::sleep(SECOND).await; }\n")],
        &[("crates/a/src/b.rs", "#[cfg(test)]\nmod tests { async fn a() { clock.sleep(SECOND).await; } }\n")],
    ],
    passes: &[
        &[("crates/a/src/b.rs", "async fn a() { time::sleep(SECOND).await; }\n#[cfg(test)]\nmod tests {}\n")],
        &[("crates/a/tests/b.rs", "const COMMAND: &str = \"sleep(1)\"; // sleep(2)\n")],
    ],
};
