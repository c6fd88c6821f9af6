//! `docs/telemetry.md`: its queries are checked with Prometheus' own grammar and against the existing metrics.

use std::fs;
use std::process::Command;

use super::{Desk, blocks};

#[test]
fn the_documented_queries_are_valid() {
    let desk = Desk::new("");
    for block in blocks("docs/telemetry.md") {
        assert_eq!(block.language, "promql");
        let rules: Vec<String> =
            block.text.lines().map(|line| format!("      - record: one\n        expr: {line:?}\n")).collect();
        let known = windlass::internals::METRICS.iter().map(|(name, _)| *name);
        assert!(
            block.text.lines().all(|line| known.clone().any(|name| line.contains(name))),
            "{}",
            block.text
        );
        // Two rules may not be equal, so each has a group.
        let groups: Vec<String> = rules
            .iter()
            .enumerate()
            .map(|(number, rule)| format!("  - name: documents-{number}\n    rules:\n{rule}"))
            .collect();
        let file = desk.folder.join("rules.yml");
        fs::write(&file, format!("groups:\n{}", groups.concat())).unwrap();
        let output = Command::new("promtool").args(["check", "rules"]).arg(&file).output();
        let output = output.expect("promtool is in Debian's package prometheus; ./dev test installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
