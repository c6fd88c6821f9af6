//! Which Postgres is good enough. Too old a one is refused when connecting; one whose minor release lacks a fix that row-level
//! security rests on is warned about, because a queue that does not start helps nobody at night.

/// What a server's version means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    TooOld,
    /// Lacks fixes; the first release of its line that has them.
    Unfixed {
        fixed_in: &'static str,
    },
    Fine,
}

/// By `server_version_num`. The fixes: CVE-2023-2455 and CVE-2024-10976 (policies of the wrong role in plans that are used
/// again after `set role`), CVE-2025-8713 (statistics that show rows a policy hides).
pub(crate) fn standing(version: i32) -> Standing {
    let fixes = [(15, 150_014, "15.14"), (16, 160_010, "16.10"), (17, 170_006, "17.6")];
    if version < 150_000 {
        return Standing::TooOld;
    }
    let line = fixes.iter().find(|(major, _, _)| version / 10_000 == *major);
    match line {
        Some(&(_, fixed, fixed_in)) if version < fixed => Standing::Unfixed { fixed_in },
        _ => Standing::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::{Standing, standing};

    ///
    #[test]
    fn an_old_server_is_refused_and_one_without_the_fixes_is_told_of() {
        for (version, expected) in [
            (90_624, Standing::TooOld),
            (140_022, Standing::TooOld),
            (150_000, Standing::Unfixed { fixed_in: "15.14" }),
            (150_013, Standing::Unfixed { fixed_in: "15.14" }),
            (150_014, Standing::Fine),
            (160_009, Standing::Unfixed { fixed_in: "16.10" }),
            (160_010, Standing::Fine),
            (170_005, Standing::Unfixed { fixed_in: "17.6" }),
            (170_006, Standing::Fine),
            (180_000, Standing::Fine),
        ] {
            assert_eq!(standing(version), expected, "{version}");
        }
    }
}
