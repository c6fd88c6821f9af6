mod oracle;

use jiff::Timestamp;

use super::{ClockChange, Cron, Schedule};

fn schedule(cron: &str, zone: &str) -> Schedule {
    Schedule::new(cron, zone).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn runs(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let runs = schedule(cron, zone).preview(at(after), count);
    runs.into_iter().map(|run| run.local).collect()
}

/// Invariant 36, by example. The clocks in Berlin change from 02:00 to 03:00 on 29 March 2026.
#[test]
fn a_time_that_the_clocks_skip_runs_at_the_first_instant_after_the_gap() {
    let runs = runs("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3);
    assert_eq!(runs, ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]);
    let change = schedule("30 2 * * *", "Europe/Berlin").preview(at("2026-03-28T12:00:00Z"), 2);
    assert_eq!(change[0].clock_change, Some(ClockChange::MovedPastGap));
    assert_eq!(change[1].clock_change, None);
}

#[test]
fn several_times_of_one_gap_run_once() {
    let runs = runs("0,30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 3);
    assert_eq!(runs, ["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:00:00+02:00"]);
}

#[test]
fn a_time_that_the_clocks_repeat_runs_the_first_time_only() {
    let seen = schedule("30 2 * * *", "Europe/Berlin").preview(at("2026-10-24T12:00:00Z"), 2);
    assert_eq!(seen[0].local, "2026-10-25T02:30:00+02:00");
    assert_eq!(seen[0].clock_change, Some(ClockChange::FirstOfTwo));
    assert_eq!(seen[1].local, "2026-10-26T02:30:00+01:00");
}

#[test]
fn an_interval_stays_even_through_both_changes() {
    for after in ["2026-03-29T00:10:00Z", "2026-10-25T00:10:00Z"] {
        let due: Vec<Timestamp> = schedule("*/30 * * * *", "Europe/Berlin")
            .due_in(at(after), at(after) + jiff::SignedDuration::from_hours(4))
            .collect();
        assert_eq!(due.len(), 8);
        assert!(due.windows(2).all(|pair| pair[1].duration_since(pair[0]).as_mins() == 30), "{due:?}");
    }
    let hourly = schedule("@hourly", "Europe/Berlin").preview(at("2026-10-24T23:30:00Z"), 3);
    let changes: Vec<_> = hourly.iter().map(|run| run.clock_change).collect();
    assert_eq!(changes, [Some(ClockChange::FirstOfTwo), Some(ClockChange::SecondOfTwo), None]);
}

#[test]
fn last_and_nth_days_names_and_nicknames_are_parsed() {
    assert_eq!(
        runs("0 9 L * *", "UTC", "2028-01-31T10:00:00Z", 2),
        ["2028-02-29T09:00:00+00:00", "2028-03-31T09:00:00+00:00"]
    );
    assert_eq!(runs("0 9 * * MON#2", "UTC", "2026-11-01T00:00:00Z", 1), ["2026-11-09T09:00:00+00:00"]);
    for last_sunday in ["0 9 * * 7L", "0 9 * * SUNL", "0 9 * * 0L"] {
        assert_eq!(runs(last_sunday, "UTC", "2026-11-01T00:00:00Z", 1), ["2026-11-29T09:00:00+00:00"]);
    }
    assert_eq!(runs("0 0 29 FEB *", "UTC", "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00+00:00"]);
    assert_eq!(runs("@midnight", "Asia/Kolkata", "2026-11-01T00:00:00Z", 1), ["2026-11-02T00:00:00+05:30"]);
    assert_eq!(runs("* * * * *", "UTC", "2026-11-01T00:00:59.999Z", 1), ["2026-11-01T00:01:00+00:00"]);
}

#[test]
fn an_invalid_schedule_is_rejected_with_the_expected_form() {
    let message = |cron: &str, zone: &str| Schedule::new(cron, zone).unwrap_err().to_string();
    let impossible = message("0 0 31 2 *", "UTC");
    assert!(impossible.starts_with("cron_expr") && impossible.contains("never occurs"), "{impossible}");
    assert!(message("0 0 30 2 *", "UTC").contains("never occurs"));
    assert!(message("0 30 9 * * *", "UTC").contains("seconds and years are not supported"));
    assert!(
        message("* * * *", "UTC")
            .contains("the schedule has 4 fields; expected 5: minute, hour, day of month")
    );
    assert!(message("61 * * * *", "UTC").contains("\"61\" is not a minute: 0 to 59"));
    assert!(message("* * * * MONDAY", "UTC").contains("is not a day of week"));
    assert!(message("* * 32 * *", "UTC").contains("is not a day of month"));
    assert!(message("@reboot", "UTC").contains("@daily"));
    assert!(message("", "UTC").contains("1 to 200 characters"));
    for zone in ["Mars/Base", "", "../../etc/passwd", "/etc/localtime", "+02:00", "A\u{0}B"] {
        let message = message("@daily", zone);
        assert!(message.starts_with("timezone") && message.contains("is not an IANA time zone"), "{message}");
    }
}

#[test]
fn a_hostile_expression_is_rejected_and_never_panics() {
    let long = "1,".repeat(500);
    for text in [
        "*/0 * * * *",
        "5-1 * * * *",
        "0 0 * * 1#9",
        "0 0 0 * *",
        "é * * * *",
        "- - - - -",
        "@",
        &long,
        "* * * * +",
    ] {
        assert!(Cron::parse(text).is_err(), "{text}");
    }
    proptest::proptest!(|(text in "[0-9A-Za-z@*,/#LW? +-]{0,40}")| {
        if let Ok(cron) = Cron::parse(&text) {
            assert!(!cron.in_words().is_empty());
        }
    });
}

#[test]
fn expressions_in_words() {
    let words = [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0 * * * *", "every hour"),
        ("30 * * * *", "every hour at minute 30"),
        ("0 2 * * *", "at 02:00"),
        ("0 2 * * MON-FRI", "at 02:00 on Monday to Friday"),
        ("0 9,17 1 * *", "at 09:00 and 17:00 on day 1"),
        ("0 0 L * *", "at 00:00 on the last day of the month"),
        ("0 9 * * MON#2", "at 09:00 on the second Monday of the month"),
        ("0 9 * * FRIL", "at 09:00 on the last Friday of the month"),
        ("0 0 1 JAN *", "at 00:00 on day 1 in January"),
        ("*/5 9-17 * * *", "every 5 minutes during hours 9 to 17"),
        ("0 */6 * * *", "every 6 hours"),
        ("0 0 13 * FRI", "at 00:00 on day 13 and on Friday"),
        ("@weekly", "at 00:00 on Sunday"),
        ("0 12 15W * *", "at 12:00 on the working day nearest to day 15"),
        ("0 12 * 1,6-8 *", "at 12:00 in January and June to August"),
    ];
    for (cron, expected) in words {
        assert_eq!(Cron::parse(cron).unwrap().in_words(), expected, "{cron}");
    }
}
