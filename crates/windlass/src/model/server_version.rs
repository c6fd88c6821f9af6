//! The supported versions of Postgres. A version that is too old is rejected when connecting. A minor release that
//! lacks a security fix of row-level security only causes a warning, because a queue that does not start is worse.

/// The result of checking a server version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionSupport {
    TooOld,
    /// Lacks security fixes; with the first minor release that has them.
    Unfixed {
        fixed_in: &'static str,
    },
    Fine,
}

/// Checks `server_version_num`. The fixes: CVE-2023-2455 and CVE-2024-10976 (policies of the wrong role in plans that
/// are reused after `set role`), CVE-2025-8713 (statistics that reveal rows which a policy hides).
pub(crate) fn standing(version: i32) -> VersionSupport {
    let fixes = [(15, 150_014, "15.14"), (16, 160_010, "16.10"), (17, 170_006, "17.6")];
    if version < 150_000 {
        return VersionSupport::TooOld;
    }
    let line = fixes.iter().find(|(major, _, _)| version / 10_000 == *major);
    match line {
        Some(&(_, fixed, fixed_in)) if version < fixed => VersionSupport::Unfixed { fixed_in },
        _ => VersionSupport::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::{VersionSupport, standing};

    ///
    #[test]
    fn an_old_server_is_rejected_and_one_without_fixes_warned_of() {
        for (version, expected) in [
            (90_624, VersionSupport::TooOld),
            (140_022, VersionSupport::TooOld),
            (150_000, VersionSupport::Unfixed { fixed_in: "15.14" }),
            (150_013, VersionSupport::Unfixed { fixed_in: "15.14" }),
            (150_014, VersionSupport::Fine),
            (160_009, VersionSupport::Unfixed { fixed_in: "16.10" }),
            (160_010, VersionSupport::Fine),
            (170_005, VersionSupport::Unfixed { fixed_in: "17.6" }),
            (170_006, VersionSupport::Fine),
            (180_000, VersionSupport::Fine),
        ] {
            assert_eq!(standing(version), expected, "{version}");
        }
    }
}
