//! Compares the objects of a schema with those of a fresh installation: owners, columns, constraints, indexes, triggers, rules, row-level
//! security, policies, privileges, functions, views, and the roles. A restore into a server without our roles loses most of these and keeps the rows.

use std::collections::{BTreeMap, BTreeSet};

/// One object of the schema, as it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct CatalogObject {
    /// `table`, `policy`, `function` and so on.
    pub(crate) kind: String,
    /// The same for all weekly partitions of a table.
    pub(crate) name: String,
    /// Its own name.
    pub(crate) object: String,
    /// Empty for what has no owner of its own.
    pub(crate) owner: String,
    pub(crate) state: String,
    /// The statement that gives it to `windlass_owner`; none if it follows another object.
    pub(crate) take: Option<String>,
    /// The statement that removes it, for what can be removed without losing data.
    pub(crate) remove: Option<String>,
}

impl CatalogObject {
    /// Its line in the list of a fresh installation.
    pub(crate) fn line(&self) -> String {
        format!("{}\t{}\t{}", self.kind, self.name, self.state)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deviation {
    Missing,
    Altered,
    /// Not part of this release.
    Unexpected,
    OwnedBy(String),
}

/// One difference, with the statement that undoes it, if it is not undone by installing the functions again.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) kind: String,
    pub(crate) object: String,
    pub(crate) deviation: Deviation,
    pub(crate) undo: Option<String>,
}

impl Difference {
    /// Such as `policy admin_reads on job is missing`.
    pub(crate) fn describe(&self) -> String {
        let what = format!("{} {}", self.kind, self.object);
        match &self.deviation {
            Deviation::Missing => format!("{what} is missing"),
            Deviation::Altered => format!("{what} was changed"),
            Deviation::Unexpected => format!("{what} is not part of this release"),
            Deviation::OwnedBy(owner) => format!("{what} belongs to {owner}"),
        }
    }

    /// What this release does not have stays if it may contain data or serve somebody. A table is not changed, because its rows decide what is
    /// possible, and roles belong to the whole server. An operator has to decide about these.
    pub(crate) fn is_repaired_by_migrate(&self) -> bool {
        match self.kind.as_str() {
            "column" | "constraint" | "index" | "role" | "membership" | "privilege" => false,
            _ => self.deviation != Deviation::Unexpected || self.undo.is_some(),
        }
    }
}

/// Every difference between the objects that were found and the list of a fresh installation.
pub(crate) fn differences(fresh: &str, found: &[CatalogObject]) -> Vec<Difference> {
    let expected: BTreeMap<(&str, &str), &str> = fresh.lines().filter_map(parts).collect();
    let mut differences = Vec::new();
    let mut seen = BTreeSet::new();
    for one in found {
        let key = (one.kind.as_str(), one.name.as_str());
        seen.insert(key);
        let difference = |deviation, undo: &Option<String>| Difference {
            kind: one.kind.clone(),
            object: one.object.clone(),
            deviation,
            undo: undo.clone(),
        };
        let Some(state) = expected.get(&key) else {
            // Tables and functions of other roles are judged elsewhere: they are not always a problem. Nor is an index.
            let is_ours = one.owner == "windlass_owner"
                || matches!(one.kind.as_str(), "membership" | "privilege" | "column");
            if one.remove.is_some() || is_ours {
                differences.push(difference(Deviation::Unexpected, &one.remove));
            }
            continue;
        };
        if one.take.is_some() && one.owner != "windlass_owner" {
            differences.push(difference(Deviation::OwnedBy(one.owner.clone()), &one.take));
        }
        if one.state != *state {
            differences.push(difference(Deviation::Altered, &one.remove));
        }
    }
    // A partition is created by the keeper, and only those that exist are compared.
    let missing = expected.keys().filter(|key| !seen.contains(*key) && !key.1.ends_with("_part"));
    for (kind, name) in missing {
        let (kind, object) = ((*kind).to_owned(), (*name).to_owned());
        differences.push(Difference { kind, object, deviation: Deviation::Missing, undo: None });
    }
    differences
}

fn parts(line: &str) -> Option<((&str, &str), &str)> {
    let mut parts = line.splitn(3, '\t');
    Some(((parts.next()?, parts.next()?), parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::{CatalogObject, Deviation, differences};

    fn object(kind: &str, name: &str, owner: &str, state: &str) -> CatalogObject {
        CatalogObject {
            kind: kind.into(),
            name: name.into(),
            object: name.into(),
            owner: owner.into(),
            state: state.into(),
            take: (!owner.is_empty()).then(|| format!("alter {name}")),
            remove: owner.is_empty().then(|| format!("drop {name}")),
        }
    }

    #[test]
    fn what_is_missing_changed_added_or_of_another_role_is_a_difference() {
        let fresh = "table\tjob\trow security\ntable\tlive\trow security\npolicy\tp on job\tselect\n";
        let found = [
            object("table", "job", "somebody", "row security"),
            object("table", "live", "windlass_owner", "no grants"),
            object("table", "notes", "somebody", "no grants"),
            object("policy", "q on job", "", "all"),
            object("function", "old()", "windlass_owner", "x"),
        ];
        let differences = differences(fresh, &found);
        let described: Vec<String> = differences.iter().map(super::Difference::describe).collect();
        assert_eq!(
            described,
            [
                "table job belongs to somebody",
                "table live was changed",
                "policy q on job is not part of this release",
                "function old() is not part of this release",
                "policy p on job is missing",
            ]
        );
        assert_eq!(differences[2].undo.as_deref(), Some("drop q on job"));
        assert!(!differences[3].is_repaired_by_migrate());
        assert_eq!(differences[4].deviation, Deviation::Missing);
    }
}
