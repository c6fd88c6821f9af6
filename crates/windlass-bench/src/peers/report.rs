//! The tables on the terminal.

use super::figures::Figures;
use super::system::{Measure, System};

pub(super) fn print(figures: &Figures) {
    println!(
        "\nCPU time is in microseconds per job; others is the share of the machine that other programs used"
    );
    println!(
        "{:<10} {:<16} {:>10} {:>10} {:>10} {:>8}",
        "figure", "system", "per s", "server us", "client us", "others"
    );
    for measure in Measure::ALL.map(Measure::as_str) {
        let Some(rates) = figures.rates.get(measure) else { continue };
        for name in std::iter::once("raw").chain(System::ALL.map(System::as_str)) {
            let Some(rate) = rates.get(name) else { continue };
            let (server_us, client_us) = (rate.server_us, rate.client_us);
            println!(
                "{measure:<10} {name:<16} {:>10.0} {server_us:>10.1} {client_us:>10.1} {:>7.0}%",
                rate.per_second,
                rate.others * 100.0
            );
        }
    }
    for system in System::ALL.map(System::as_str) {
        let Some(latency) = figures.latency.get(system) else { continue };
        println!(
            "latency    {system:<16} p50 {:.2} ms, p99 {:.2} ms of {} jobs",
            latency.p50_ms, latency.p99_ms, latency.jobs
        );
    }
    if let Some(commit) = figures.commit_p50_ms {
        println!("a commit of one row takes {commit:.2} ms (p50)");
    }
    println!();
    for reached in &figures.targets {
        let word = |is_met| if is_met { "met   " } else { "MISSED" };
        let by_cpu = reached.is_met_by_cpu.map(|is_met| format!(", by CPU {}", word(is_met).trim_end()));
        println!(
            "{}  {}: {}{}",
            word(reached.is_met),
            reached.target,
            reached.found,
            by_cpu.unwrap_or_default()
        );
    }
    println!("{}", figures.stolen);
}
