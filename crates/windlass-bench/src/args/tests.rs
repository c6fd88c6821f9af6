use super::{BulkPlan, Command, ForeverPlan, Mode, Phase, Size, SuiteOptions, UsageError};

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
    ] {
        let error = parse(line).unwrap_err().to_string();
        assert!(error.contains(name), "{line:?} gave {error:?}");
    }
}
