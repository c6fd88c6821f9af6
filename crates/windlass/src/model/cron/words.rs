//! A cron expression in words.

use croner::CronPattern;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const NTH: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
/// If there are more times of the day than this, they are described as minutes and hours.
const MAX_TIMES: usize = 6;

pub(super) fn describe(fields: &CronPattern, minutes: &[i32], hours: &[i32]) -> String {
    let parts = fields.as_str().split_whitespace().collect::<Vec<_>>();
    let [minute, hour, day, month, weekday] = parts[..] else { return fields.as_str().to_owned() };
    let mut words = time(minute, hour, minutes, hours);
    let days = match (is_any(day), is_any(weekday)) {
        (true, true) => String::new(),
        (false, true) => format!(" on {}", month_days(day)),
        (true, false) => format!(" on {}", weekdays(weekday)),
        (false, false) => {
            let and = if weekday.starts_with('+') { "and only if it is" } else { "and on" };
            format!(" on {} {and} {}", month_days(day), weekdays(weekday.trim_start_matches('+')))
        }
    };
    words.push_str(&days);
    if !is_any(month) {
        words.push_str(&format!(" in {}", list(month, &|value| name(&MONTHS, value, 1))));
    }
    words
}

fn is_any(part: &str) -> bool {
    part == "*" || part == "?"
}

fn time(minute: &str, hour: &str, minutes: &[i32], hours: &[i32]) -> String {
    let every = |part: &str| part.strip_prefix("*/").and_then(|step| step.parse::<u32>().ok());
    match (minute, hour) {
        ("*", "*") => "every minute".to_owned(),
        (minute, "*") => match every(minute) {
            Some(step) => format!("every {step} minutes"),
            None if minutes == [0] => "every hour".to_owned(),
            None => format!("every hour at minute {}", join(minutes)),
        },
        ("*", hour) => format!("every minute during {}", hours_of(hour, hours)),
        (minute, hour) if every(minute).is_some() => {
            format!("every {} minutes during {}", every(minute).unwrap_or_default(), hours_of(hour, hours))
        }
        (_, hour) => match every(hour) {
            Some(step) if minutes == [0] => format!("every {step} hours"),
            Some(step) => format!("every {step} hours at minute {}", join(minutes)),
            None if minutes.len() * hours.len() <= MAX_TIMES => {
                let times = hours
                    .iter()
                    .flat_map(|hour| minutes.iter().map(move |minute| format!("{hour:02}:{minute:02}")));
                format!("at {}", join(&times.collect::<Vec<_>>()))
            }
            None => format!("at minute {} during {}", join(minutes), hours_of(hour, hours)),
        },
    }
}

fn hours_of(hour: &str, hours: &[i32]) -> String {
    match hour.split_once('-') {
        Some((from, to)) if !to.contains([',', '/', '-']) => format!("hours {from} to {to}"),
        _ if hours.len() == 1 => format!("hour {}", join(hours)),
        _ => format!("hours {}", join(hours)),
    }
}

fn month_days(part: &str) -> String {
    list(part, &|value| match value {
        "L" => "the last day of the month".to_owned(),
        "LW" | "WL" => "the last working day of the month".to_owned(),
        value => match value.strip_suffix('W') {
            Some(day) => format!("the working day nearest to day {day}"),
            None => format!("day {value}"),
        },
    })
}

fn weekdays(part: &str) -> String {
    list(part, &|value| {
        if let Some((day, nth)) = value.split_once('#') {
            let nth = nth.parse().ok().and_then(|nth: usize| NTH.get(nth.wrapping_sub(1))).unwrap_or(&"last");
            return format!("the {nth} {} of the month", name(&DAYS, day, 0));
        }
        match value.strip_suffix('L') {
            Some(day) => format!("the last {} of the month", name(&DAYS, day, 0)),
            None => name(&DAYS, value, 0),
        }
    })
}

/// `1-5`, `*/2`, `1,3`: each item in words, ranges as "a to b".
fn list(part: &str, word: &dyn Fn(&str) -> String) -> String {
    let items = part.split(',').map(|item| {
        let (range, step) = item.split_once('/').unwrap_or((item, "1"));
        let words = match range.split_once('-') {
            Some((from, to)) => format!("{} to {}", word(from), word(to)),
            None if is_any(range) => "all".to_owned(),
            None => word(range),
        };
        if step == "1" { words } else { format!("every {} of {words}", ordinal(step)) }
    });
    join(&items.collect::<Vec<_>>())
}

/// `2` as "2nd". A step that is not a number cannot come from a parsed expression and is returned unchanged.
fn ordinal(step: &str) -> String {
    let ending = match step.parse::<u32>().map_or((0, 0), |step| (step % 10, step % 100)) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{step}{ending}")
}

fn name(names: &[&str], value: &str, first: usize) -> String {
    let position = value.parse::<usize>().ok().and_then(|value| value.checked_sub(first));
    position
        .and_then(|position| names.get(position % names.len()))
        .map_or_else(|| value.to_owned(), |name| (*name).to_owned())
}

fn join(items: &[impl ToString]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    match items.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}
