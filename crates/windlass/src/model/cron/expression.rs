//! The five fields of a cron expression.

use croner::parser::{CronParser, Seconds, Year};
use croner::{CronPattern, Weekday};
use jiff::civil::{Date, date};

use super::{RAREST_DAYS, words};
use crate::error::{Error, Result};

const MAX_LENGTH: usize = 200;

const FIELDS: [(&str, &str); 5] = [
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of month", "1 to 31, or L for the last"),
    ("month", "1 to 12, or JAN to DEC"),
    (
        "day of week",
        "0 to 7 (0 and 7 are Sunday), or SUN to SAT, with #n for the nth and L for the last of a month",
    ),
];

/// A valid cron expression.
///
/// ```
/// use windlass::schedule::Cron;
///
/// let cron = Cron::parse("0 9 * * 1-5")?;
/// assert_eq!(cron.as_str(), "0 9 * * 1-5");
/// println!("{}", cron.in_words());
/// assert!(Cron::parse("61 * * * *").is_err());
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cron {
    text: String,
    fields: CronPattern,
    minutes: Vec<i32>,
    hours: Vec<i32>,
    is_interval: bool,
}

impl Cron {
    /// Parses five fields, or a shorthand such as `@daily`.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = |message: String| Error::refused("cron_expr", message);
        let text = text.trim();
        if text.is_empty() || text.len() > MAX_LENGTH || text.chars().any(char::is_control) {
            return Err(refuse(format!("must have 1 to {MAX_LENGTH} characters on one line")));
        }
        let plain = if text.starts_with('@') { nickname(text)?.to_owned() } else { text.to_uppercase() };
        let parts: Vec<&str> = plain.split_whitespace().collect();
        match parts.len() {
            5 => {}
            6 | 7 => {
                return Err(refuse(format!(
                    "the schedule has {} fields; expected 5, as seconds and years are not supported: minute, hour, day of month, month, day of week",
                    parts.len()
                )));
            }
            count => {
                return Err(refuse(format!(
                    "the schedule has {count} fields; expected 5: minute, hour, day of month, month, day of week"
                )));
            }
        }
        // croner accepts 7 for Sunday, except in this one place.
        let weekday = parts[4].replace("7L", "0L");
        let read = |parts: [&str; 5]| parser().parse(&parts.join(" "));
        let Ok(read_whole) = read([parts[0], parts[1], parts[2], parts[3], &weekday]) else {
            // Finds the invalid field: parses each one with stars in place of the others.
            for (position, (name, expected)) in FIELDS.iter().enumerate() {
                let mut alone = ["*"; 5];
                alone[position] = if position == 4 { &weekday } else { parts[position] };
                if read(alone).is_err() {
                    return Err(refuse(format!(
                        "{:?} is not a {name}: {expected}, with * , - and /",
                        parts[position]
                    )));
                }
            }
            return Err(refuse("is not a cron expression".to_owned()));
        };
        let fields = read_whole.pattern;
        let values = |part: Vec<u16>| part.into_iter().map(i32::from).collect::<Vec<i32>>();
        let cron = Self {
            text: text.to_owned(),
            minutes: values(fields.minutes.values()),
            hours: values(fields.hours.values()),
            fields,
            is_interval: parts[..2].iter().any(|part| part.starts_with('*')),
        };
        if cron.minutes.is_empty() || cron.hours.is_empty() || !cron.can_occur() {
            return Err(refuse(format!("{text:?} never occurs: no month has such a day")));
        }
        Ok(cron)
    }

    /// The expression as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// A description in English, without a full stop.
    #[must_use]
    pub fn in_words(&self) -> String {
        words::describe(&self.fields, &self.minutes, &self.hours)
    }

    pub(super) fn is_interval(&self) -> bool {
        self.is_interval
    }

    pub(super) fn matches_month(&self, day: Date) -> bool {
        self.fields.month_match(day.month().unsigned_abs().into()).unwrap_or(false)
    }

    pub(super) fn matches_day(&self, day: Date) -> bool {
        let (year, month) = (i32::from(day.year()), day.month().unsigned_abs().into());
        let weekday =
            Weekday::from_days_from_sunday(day.weekday().to_sunday_zero_offset().unsigned_abs().into());
        self.matches_month(day)
            && self.fields.day_match(year, month, day.day().unsigned_abs().into(), weekday).unwrap_or(false)
    }

    /// The first matching minute of the day, counted from midnight, that is not before `earliest`.
    pub(super) fn minute_from(&self, earliest: i32) -> Option<i32> {
        let (hour, minute) = (earliest / 60, earliest % 60);
        if self.hours.contains(&hour)
            && let Some(minute) = self.minutes.iter().find(|&&candidate| candidate >= minute)
        {
            return Some(hour * 60 + minute);
        }
        let later = self.hours.iter().find(|&&candidate| candidate > hour)?;
        Some(later * 60 + self.minutes.first()?)
    }

    fn can_occur(&self) -> bool {
        let mut day = date(2024, 1, 1);
        for _ in 0..RAREST_DAYS {
            if self.matches_day(day) {
                return true;
            }
            match day.tomorrow() {
                Ok(next) => day = next,
                Err(_) => return false,
            }
        }
        false
    }
}

fn parser() -> CronParser {
    CronParser::builder().seconds(Seconds::Disallowed).year(Year::Optional).build()
}

fn nickname(text: &str) -> Result<&'static str> {
    Ok(match text.to_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            return Err(Error::refused(
                "cron_expr",
                format!("{text:?} is not one of @yearly, @monthly, @weekly, @daily, @hourly"),
            ));
        }
    })
}
