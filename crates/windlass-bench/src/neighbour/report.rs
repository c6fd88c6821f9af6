//! The figures: medians over the turns.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{NeighbourPlan, Phase};
use crate::Result;
use crate::percentile::{median, percentile};

/// A p99 may grow by this factor.
const TARGET: f64 = 5.0;
/// The operations for comparison, which have no target.
const NOT_OURS: [&str; 2] = ["raw_select", "http_live"];

type Turn = (Phase, Phase);

pub(super) fn report(plan: &NeighbourPlan, turns: &[Turn], answers: &BTreeMap<String, u64>) -> Result<()> {
    println!(
        "{} turns of {} s quiet and {} s disturbed by {} callers; medians over the turns, in ms",
        plan.turns, plan.seconds, plan.seconds, plan.callers
    );
    println!(
        "{:<14} {:>10} {:>10} {:>14} {:>14} {:>8}  ratio of each turn",
        "operation", "quiet p50", "quiet p99", "disturbed p50", "disturbed p99", "ratio"
    );
    let mut operations = serde_json::Map::new();
    let mut worst = 0.0_f64;
    for name in turns.first().iter().flat_map(|(quiet, _)| quiet.times.keys()) {
        let of = |phase: fn(&Turn) -> &Phase, share: f64| -> Vec<f64> {
            let of_turn = |turn| percentile(phase(turn).times.get(name).map_or(&[], Vec::as_slice), share);
            turns.iter().map(|turn| of_turn(turn).unwrap_or_default()).collect()
        };
        let middle = |values: &[f64]| median(values).unwrap_or_default();
        let (p50, p99) = (of(|turn| &turn.0, 0.5), of(|turn| &turn.0, 0.99));
        let (during50, during99) = (of(|turn| &turn.1, 0.5), of(|turn| &turn.1, 0.99));
        let ratios: Vec<f64> =
            during99.iter().zip(&p99).map(|(during, quiet)| during / quiet.max(0.001)).collect();
        let ratio = middle(&ratios);
        if !NOT_OURS.contains(name) {
            worst = worst.max(ratio);
        }
        let (p50, p99) = (middle(&p50), middle(&p99));
        let (during50, during99) = (middle(&during50), middle(&during99));
        let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.1}")).collect();
        let each = each.join(" ");
        println!("{name:<14} {p50:>10.2} {p99:>10.2} {during50:>14.2} {during99:>14.2} {ratio:>8.2}  {each}");
        operations.insert(
            (*name).to_owned(),
            json!({"quiet_p50_ms": p50, "quiet_p99_ms": p99, "disturbed_p50_ms": during50, "disturbed_p99_ms": during99,
                "ratio": ratio, "ratios": ratios}),
        );
    }
    let share =
        |phase: fn(&Turn) -> f64| median(&turns.iter().map(phase).collect::<Vec<_>>()).unwrap_or_default();
    let cpu = [share(|turn| turn.0.busy), share(|turn| turn.1.busy)];
    let server = [share(|turn| turn.0.server), share(|turn| turn.1.server)];
    let refused: [u64; 2] =
        [turns.iter().map(|turn| turn.0.refused).sum(), turns.iter().map(|turn| turn.1.refused).sum()];
    let verdict = if worst <= TARGET { "pass" } else { "MISS" };
    println!("largest ratio {worst:.2}, target <= {TARGET}: {verdict}");
    println!("rejected: quiet {}, disturbed {}", refused[0], refused[1]);
    println!(
        "CPU usage: quiet {:.0} % (server {:.0} %), disturbed {:.0} % (server {:.0} %)",
        cpu[0] * 100.0,
        server[0] * 100.0,
        cpu[1] * 100.0,
        server[1] * 100.0
    );
    println!("responses to the loading tenant: {}", json!(answers));
    let figures = json!({
        "operations": Value::Object(operations), "ratio": worst, "target": TARGET, "seconds": plan.seconds,
        "turns": plan.turns, "callers": plan.callers, "refused": {"quiet": refused[0], "disturbed": refused[1]},
        "cpu": {"quiet": cpu[0], "disturbed": cpu[1]}, "server_cpu": {"quiet": server[0], "disturbed": server[1]},
        "answers": answers,
    });
    if let Some(file) = &plan.json {
        std::fs::write(file, format!("{figures:#}\n"))?;
    }
    Ok(())
}
