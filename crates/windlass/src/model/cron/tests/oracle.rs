//! Compares the due instants around every clock change in every zone of the IANA database, 2020 to 2037, for sixty
//! expressions, with the result of checking every single minute.
//!
//! The oracle shares only the offsets of the zones with the code under test: it parses the fields itself, and detects
//! gaps and repeated hours only by comparing each minute's local time with the previous minutes.

use std::collections::{BTreeMap, HashSet};

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, db};
use jiff::{SignedDuration, Timestamp};

use windlass_testing::{is_full, sample};

use super::super::Schedule;

const EXPRESSIONS: [&str; 60] = [
    "* * * * *",
    "*/5 * * * *",
    "*/15 * * * *",
    "*/7 * * * *",
    "0 * * * *",
    "30 * * * *",
    "15,45 * * * *",
    "59 * * * *",
    "* 2 * * *",
    "* 1-3 * * *",
    "*/10 2 * * *",
    "*/20 0-3 * * *",
    "0 */2 * * *",
    "30 */3 * * *",
    "5 */6 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "59 23 * * *",
    "0 1 * * *",
    "30 1 * * *",
    "15 1 * * *",
    "0 2 * * *",
    "30 2 * * *",
    "59 2 * * *",
    "0 3 * * *",
    "30 3 * * *",
    "0 4 * * *",
    "0 12 * * *",
    "0,30 2 * * *",
    "0,15,30,45 1,2 * * *",
    "0-59 2 * * *",
    "10-20 1-3 * * *",
    "0 0,12 * * *",
    "0 2,3 * * *",
    "30 23,0,1 * * *",
    "45 22-23 * * *",
    "0 2 * * SUN",
    "30 2 * * 0",
    "30 1 * * 7",
    "0 2 * * MON-FRI",
    "30 2 * * 6,0",
    "0 3 * * SAT",
    "0 0 L * *",
    "30 2 L * *",
    "30 2 L 3,10 *",
    "30 2 * * SUNL",
    "30 1 * * 0L",
    "30 2 * MAR SUN#2",
    "30 1 * NOV SUN#1",
    "0 2 * 3 SUN#5",
    "0 2 1 * *",
    "30 2 25-31 * *",
    "30 2 8-14 3 *",
    "0 1 31 * FRI",
    "30 2 29 2 *",
    "30 2 */2 * *",
    "0 0 1 1 *",
    "*/30 * * 4,9,10 *",
    "* * * * 6",
    "0 2 * 3,4 *",
];
/// No change moves the clocks by more than three hours, so its effects end within this distance.
const AROUND: SignedDuration = SignedDuration::from_hours(3);
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

#[test]
fn clock_changes_agree_with_a_search_of_every_minute() {
    let (from, until): (Timestamp, Timestamp) =
        ("2020-01-01T00:00:00Z".parse().unwrap(), "2038-01-01T00:00:00Z".parse().unwrap());
    let fields: Vec<Fields> = EXPRESSIONS.iter().map(|text| Fields::read(text)).collect();
    let mut zones: BTreeMap<Vec<(Timestamp, i32)>, String> = BTreeMap::new();
    let mut names = 0;
    for name in db().available() {
        let Ok(zone) = TimeZone::get(name.as_str()) else { continue };
        names += 1;
        let changes = zone.following(from).take_while(|change| change.timestamp() < until);
        let mut table = vec![(Timestamp::UNIX_EPOCH, zone.to_offset(from).seconds())];
        table.extend(changes.map(|change| (change.timestamp(), change.offset().seconds())));
        // Zones with the same offsets are one zone with several names.
        zones.entry(table).or_insert_with(|| name.as_str().to_owned());
    }
    assert!(names > 400 && zones.len() > 60, "{names} names, {} zones", zones.len());
    zones.retain(|table, _| table.len() > 1);

    // The result around a change depends only on the local time and the change, so every minute is checked only once
    // for each such case. The code under test is called for every zone.
    let mut known: BTreeMap<(DateTime, i32), Vec<Vec<i64>>> = BTreeMap::new();
    let mut seen = HashSet::new();
    let mut compared = 0;
    for (table, name) in sample(zones.into_iter().collect(), 20) {
        let name = name.as_str();
        let schedules: Vec<Schedule> =
            EXPRESSIONS.iter().map(|text| Schedule::new(text, name).unwrap()).collect();
        for (position, &(change, offset)) in table.iter().enumerate().skip(1) {
            let moved = offset - table[position - 1].1;
            let near = |other: &(Timestamp, i32)| {
                other.0 != change && other.0.duration_since(change).abs() <= AROUND * 2
            };
            assert!(
                !table.iter().any(near),
                "{name}: two changes within hours, which the cases below do not distinguish"
            );
            let local = schedules[0].zone().to_datetime(change);
            // A third of the zones repeat a case of another zone; it is checked with the offset of every other zone,
            // too.
            seen.insert((local, moved, offset));
            let expected = known
                .entry((local, moved))
                .or_insert_with(|| search_every_minute(schedules[0].zone(), change, &fields));
            for (schedule, expected) in schedules.iter().zip(expected) {
                let due: Vec<i64> = schedule
                    .due_in(change - AROUND, change + AROUND)
                    .map(|due| due.duration_since(change).as_mins())
                    .collect();
                assert_eq!(&due, expected, "{} in {name} around {change}", schedule.cron().as_str());
                compared += due.len();
            }
        }
    }
    if is_full() {
        assert!(
            known.len() > 200 && seen.len() > 1000 && compared > 100_000,
            "{} {} {compared}",
            known.len(),
            seen.len()
        );
    }
    assert!(compared > 0);
}

/// A minute of local time.
struct Minute {
    from_change: i64,
    local: DateTime,
    is_repeated: bool,
    /// The minutes before it that the clock skipped.
    skipped: Vec<DateTime>,
}

fn minutes_around(zone: &TimeZone, change: Timestamp) -> Vec<Minute> {
    let around = AROUND.as_mins();
    let local = |from_change: i64| {
        let at = change + MINUTE * i32::try_from(from_change).unwrap();
        zone.to_offset(at).to_datetime(at)
    };
    let mut seen: HashSet<DateTime> = (-2 * around..=-around).map(local).collect();
    (1 - around..=around)
        .map(|from_change| {
            let (before, now) = (local(from_change - 1), local(from_change));
            let skipped = std::iter::successors(Some(before + MINUTE), |minute| Some(*minute + MINUTE));
            let skipped = skipped.take_while(|minute| *minute < now).collect();
            Minute { from_change, local: now, is_repeated: !seen.insert(now), skipped }
        })
        .collect()
}

/// The minutes from the change at which each expression is due.
fn search_every_minute(zone: &TimeZone, change: Timestamp, fields: &[Fields]) -> Vec<Vec<i64>> {
    let minutes = minutes_around(zone, change);
    let is_due = |fields: &Fields, minute: &Minute| {
        if fields.is_interval() {
            fields.hold(minute.local)
        } else {
            minute.skipped.iter().any(|skipped| fields.hold(*skipped))
                || fields.hold(minute.local) && !minute.is_repeated
        }
    };
    let due = |fields: &Fields| {
        let due = minutes.iter().filter(|minute| is_due(fields, minute));
        due.map(|minute| minute.from_change).collect()
    };
    fields.iter().map(due).collect()
}

struct Fields {
    text: [String; 5],
    /// The independent fields, by value.
    minutes: [bool; 60],
    hours: [bool; 24],
    months: [bool; 13],
}

impl Fields {
    fn read(text: &str) -> Self {
        let mut text = text.to_owned();
        for (number, name) in ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"].iter().enumerate() {
            text = text.replace(name, &number.to_string());
        }
        for (month, number) in [("MAR", "3"), ("NOV", "11")] {
            text = text.replace(month, number);
        }
        let parts: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let text: [String; 5] = parts.try_into().unwrap();
        let plain = |part: &str, value: usize, first: i8| {
            part.split(',').any(|item| holds(item, i8::try_from(value).unwrap(), first))
        };
        Self {
            minutes: std::array::from_fn(|minute| plain(&text[0], minute, 0)),
            hours: std::array::from_fn(|hour| plain(&text[1], hour, 0)),
            months: std::array::from_fn(|month| plain(&text[3], month, 1)),
            text,
        }
    }

    fn is_interval(&self) -> bool {
        self.text[0].contains('*') || self.text[1].contains('*')
    }

    fn hold(&self, at: DateTime) -> bool {
        let [.., day, _, weekday] = &self.text;
        let value = |field: i8| usize::try_from(field).unwrap();
        if !(self.minutes[value(at.minute())]
            && self.hours[value(at.hour())]
            && self.months[value(at.month())])
        {
            return false;
        }
        let last = at.date().days_in_month();
        let day_holds =
            day.split(',').any(|item| if item == "L" { at.day() == last } else { holds(item, at.day(), 1) });
        let today = at.weekday().to_sunday_zero_offset();
        let weekday_holds =
            weekday.split(',').any(|item| match (item.split_once('#'), item.strip_suffix('L')) {
                (Some((day, nth)), _) => {
                    holds(day, today, 0) && (at.day() - 1) / 7 + 1 == nth.parse::<i8>().unwrap()
                }
                (_, Some(day)) => holds(day, today, 0) && at.day() + 7 > last,
                _ => holds(item, today, 0) || item == "7" && today == 0,
            });
        match (day.as_str(), weekday.as_str()) {
            ("*", _) => weekday_holds,
            (_, "*") => day_holds,
            _ => day_holds || weekday_holds,
        }
    }
}

fn holds(item: &str, value: i8, first: i8) -> bool {
    let (range, step) = item.split_once('/').unwrap_or((item, "1"));
    let (low, high) = match range.split_once('-') {
        Some((low, high)) => (low.parse().unwrap(), high.parse().unwrap()),
        None if range == "*" => (first, 60),
        None => (range.parse().unwrap(), range.parse().unwrap()),
    };
    (low..=high).contains(&value) && (value - low) % step.parse::<i8>().unwrap() == 0
}
