use super::{BulkPlan, ChildCall, Command, ForeverPlan, Mode, Phase, Size, SuiteOptions, UsageError};
use crate::cliffs::Case;
use crate::driver::LatencyPlan;
use crate::peers::{Measure, System};

fn parse(line: &str) -> Result<Command, UsageError> {
    Command::parse(line.split_whitespace().map(str::to_owned))
}

#[test]
fn the_default_is_the_standard_suite() {
    let options = SuiteOptions { size: Size::Standard, json: None, only: Vec::new() };
    assert_eq!(parse(""), Ok(Command::Suite(options)));
}

#[test]
fn the_suite_takes_a_size_a_file_and_phases() {
    let Ok(Command::Suite(options)) = parse("--quick --json a.json --only raw,drain") else {
        panic!("not a suite")
    };
    assert_eq!(options.size, Size::Quick);
    assert_eq!(options.json.unwrap().to_str(), Some("a.json"));
    assert_eq!(options.only, [Phase::Raw, Phase::Drain]);
}

#[test]
fn a_driver_takes_its_flags_in_both_forms_and_has_defaults() {
    let expected = BulkPlan { n: 10, callers: 3, batch: 1000 };
    assert_eq!(parse("driver bulk --n 10 --callers=3"), Ok(Command::Driver(Mode::Bulk(expected))));
    assert_eq!(parse("driver info"), Ok(Command::Driver(Mode::Info)));
}

#[test]
fn forever_takes_minutes_and_a_file() {
    for (line, minutes) in
        [("forever", 30), ("forever --quick", 5), ("forever --minutes 7 --quick --json a.json", 7)]
    {
        let Ok(Command::Forever(ForeverPlan { minutes: found, json })) = parse(line) else {
            panic!("{line}")
        };
        assert_eq!((found, json.is_some()), (minutes, line.contains("--json")), "{line}");
    }
}

#[test]
fn peers_takes_systems_and_measures_in_one_list() {
    let Ok(Command::Peers(plan)) = parse("peers --quick --only windlass,pgmq,drain --json a.json") else {
        panic!("not peers")
    };
    assert_eq!(plan.systems, [System::Windlass, System::PgmqDelete, System::PgmqArchive]);
    assert_eq!(plan.measures, [Measure::Drain]);
    assert_eq!((plan.rounds, plan.n, plan.seconds, plan.json.is_some()), (2, 50_000, 8, true));
    let Ok(Command::Peers(plan)) = parse("peers --rounds 1 --n 10") else { panic!("not peers") };
    assert_eq!((plan.rounds, plan.n, plan.systems.len(), plan.measures.len()), (1, 10, 0, 0));
}

#[test]
fn a_child_of_peers_names_its_system_and_what_it_measures() {
    let (system, measure) = (System::PgmqArchive, Measure::Single);
    let call = ChildCall { system, measure, count: 30, callers: 4 };
    assert_eq!(parse("peer pgmq-archive single 30 4"), Ok(Command::PeersChild(call)));
}

#[test]
fn scale_takes_lists_of_numbers() {
    let Ok(Command::Scale(plan)) = parse("scale --workers 1,3 --quick --without-settings") else {
        panic!("not scale")
    };
    assert_eq!((plan.n, plan.workers, plan.has_settings), (100_000, vec![1, 3], false));
    assert_eq!(plan.connections, [2, 4, 8, 16, 32, 64]);
    assert_eq!(parse("scale-worker"), Ok(Command::ScaleWorker));
}

#[test]
fn cliffs_takes_cases_and_a_divisor() {
    let Ok(Command::Cliffs(plan)) = parse("cliffs --only fan-out,due --quick") else { panic!("not cliffs") };
    assert_eq!((plan.divisor, plan.only), (10, vec![Case::FanOut, Case::Due]));
    let Ok(Command::Cliffs(plan)) = parse("cliffs --divisor 1000") else { panic!("not cliffs") };
    assert_eq!((plan.divisor, plan.only.len()), (1000, 0));
}

#[test]
fn the_latency_ignores_callers() {
    let expected = LatencyPlan { n: 7, ..LatencyPlan::default() };
    assert_eq!(parse("driver latency --n 7 --callers 32"), Ok(Command::Driver(Mode::Latency(expected))));
}

#[test]
fn errors_name_the_invalid_argument() {
    for (line, name) in [
        ("--slow", "--slow"),
        ("driver bulk --size 3", "--size"),
        ("pages --jobs 0", "--jobs"),
        ("forever --minutes 0", "--minutes"),
        ("driver info --n 3", "--n"),
        ("driver bulk --n", "--n"),
        ("driver bulk --n many", "many"),
        ("driver steady --callers 0", "--callers"),
        ("driver bulk --n 1 --n 2", "--n"),
        ("driver bulk 7", "'7'"),
        ("driver fly", "fly"),
        ("driver", "mode"),
        ("--quick --full", "cannot be combined"),
        ("--quick=yes", "--quick"),
        ("--only speed", "speed"),
        ("peers --only rocket", "rocket"),
        ("peers --only rocket", "graphile-worker"),
        ("peers --n 0", "--n"),
        ("peer windlass fly 1 1", "MEASURE"),
        ("peer windlass bulk 1", "CALLERS"),
        ("scale --workers 1,0", "--workers"),
        ("cliffs --only rocket", "fan-out"),
        ("cliffs --divisor 0", "--divisor"),
    ] {
        let error = parse(line).unwrap_err().to_string();
        assert!(error.contains(name), "{line:?} gave {error:?}");
    }
}
