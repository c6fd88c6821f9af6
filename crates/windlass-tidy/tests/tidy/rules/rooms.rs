//! The parts of the library, called rooms. The table `rooms` of ARCHITECTURE.md lists every entry of `crates/windlass/src` and
//! which others each of them imports. The real entries and imports are derived from the tree here and compared with it, both
//! ways.

use std::collections::{BTreeMap, BTreeSet};

use crate::markdown::{Row, checked_tables};
use crate::rule::{Place, Rule};
use crate::source::{Source, expand, occurrences};
use crate::tree::{File, LIBRARY, Tree};

pub(crate) const RULES: &[&Rule] = &[&LISTED, &FEW, &IMPORTS, &ONE_WAY];

/// Where the table is.
const MAP: &str = "ARCHITECTURE.md";
/// It exports the names of all the others.
const FRONT: &str = "lib";
const MAX: usize = 18;

const LISTED: Rule = Rule {
    name: "the rooms of ARCHITECTURE.md are the entries of crates/windlass/src",
    fix: "give the room a row in the table `rooms`, with one sentence, or take the row away",
    find: |tree| {
        let Some(plan) = Plan::read(tree) else { return vec![no_plan()] };
        let real = rooms(tree);
        let missing = real.iter().filter(|room| !plan.0.contains_key(*room));
        let missing = missing.map(|room| at_map(1, format!("`{room}` is a room without a row")));
        let absent = plan.0.iter().filter(|(room, _)| !real.contains(*room));
        let absent = absent.map(|(room, row)| at_map(row.line, format!("there is no room `{room}`")));
        let mute = plan.0.iter().filter(|(_, row)| row.sentence.is_empty());
        let mute = mute.map(|(room, row)| at_map(row.line, format!("`{room}` has no description")));
        missing.chain(absent).chain(mute).collect()
    },
    caught: &[
        &[("crates/windlass/src/store.rs", "")],
        &[(MAP, STORE_AND_MODEL), ("crates/windlass/src/store/job.rs", "")],
        &[
            (MAP, STORE_AND_MODEL),
            ("crates/windlass/src/store.rs", ""),
            ("crates/windlass/src/model.rs", ""),
            ("crates/windlass/src/utils.rs", ""),
        ],
        &[
            (
                MAP,
                "<!-- checked: rooms -->\n| room | what it holds | imports |\n|---|---|---|\n| `store` | | nothing |\n",
            ),
            ("crates/windlass/src/store.rs", ""),
        ],
    ],
    passes: &[&[
        (MAP, STORE_AND_MODEL),
        ("crates/windlass/src/store.rs", ""),
        ("crates/windlass/src/store/job.rs", ""),
        ("crates/windlass/src/model/job.rs", ""),
    ]],
};

const FEW: Rule = Rule {
    name: "the library has at most 18 rooms",
    fix: "put it into the room that it belongs to",
    find: |tree| {
        let rooms = rooms(tree);
        let beyond = rooms.iter().skip(MAX);
        beyond.map(|room| at_map(1, format!("`{room}` is one of {} rooms", rooms.len()))).collect()
    },
    caught: &[NINETEEN],
    passes: &[NINETEEN_FILES.split_at(MAX).0],
};

const IMPORTS: Rule = Rule {
    name: "a room imports only what its row in ARCHITECTURE.md lists",
    fix: "move the code to where it may be used from; change the table only if the direction itself is wrong",
    find: |tree| {
        let Some(plan) = Plan::read(tree) else { return vec![no_plan()] };
        let rooms = rooms(tree);
        let mut places = Vec::new();
        let mut used = BTreeSet::new();
        for import in imports(tree) {
            let Import { from, to, .. } = &import;
            if !rooms.contains(to) {
                places
                    .push(import.place(format!("`{to}` is not a room: import it from where it is defined")));
            } else if !plan.0.get(from).is_some_and(|row| row.imports.contains(to)) {
                places.push(import.place(format!("`{from}` must not import `{to}`")));
            }
            used.insert((from.clone(), to.clone()));
        }
        for (from, row) in plan.0.iter().filter(|(from, _)| *from != FRONT) {
            let idle = row.imports.iter().filter(|to| !used.contains(&(from.clone(), (*to).clone())));
            places.extend(idle.map(|to| at_map(row.line, format!("`{from}` does not import `{to}`"))));
        }
        places
    },
    caught: &[
        // Not in the table: as a use, in a group, inline, and through the parent.
        &[
            (MAP, STORE_AND_MODEL),
            MODEL_RS,
            STORE_RS,
            ("crates/windlass/src/model/job.rs", "use crate::store::Claimed;\n"),
        ],
        &[
            (MAP, STORE_AND_MODEL),
            MODEL_RS,
            STORE_RS,
            (
                "crates/windlass/src/model/job.rs",
                "use crate::{\n    model::why,\n    store::{job, lane},\n};\n",
            ),
        ],
        &[
            (MAP, STORE_AND_MODEL),
            MODEL_RS,
            STORE_RS,
            ("crates/windlass/src/model/job.rs", "fn a() { crate::store::job::claim(); }\n"),
        ],
        &[
            (MAP, STORE_AND_MODEL),
            MODEL_RS,
            STORE_RS,
            ("crates/windlass/src/model/job.rs", "use super::super::store::job;\n"),
        ],
        &[
            (MAP, STORE_AND_MODEL),
            MODEL_RS,
            STORE_RS,
            (
                "crates/windlass/src/model/job.rs",
                "use super::super::{\n    model::why,\n    store::job,\n};\n",
            ),
        ],
        &[
            (MAP, STORE_AND_MODEL),
            MODEL_RS,
            STORE_RS,
            ("crates/windlass/src/model/job.rs", "use super::{super::store, why};\n"),
        ],
        &[(MAP, STORE_AND_MODEL), ("crates/windlass/src/model.rs", "use super::store;\n"), STORE_RS],
        // Through the names that the crate exports.
        &[
            (MAP, STORE_AND_MODEL),
            MODEL_RS,
            STORE_RS,
            ("crates/windlass/src/model/job.rs", "use crate::Queue;\n"),
        ],
        // In the table, but not in the tree.
        &[(MAP, STORE_AND_MODEL), MODEL_RS, ("crates/windlass/src/store.rs", "fn a() {}\n")],
    ],
    passes: &[
        &[
            (MAP, STORE_AND_MODEL),
            MODEL_RS,
            STORE_RS,
            ("crates/windlass/src/store/sql.rs", "use super::super::model::job;\n"),
        ],
        &[
            (MAP, STORE_AND_MODEL),
            MODEL_RS,
            STORE_RS,
            ("crates/windlass/src/model/job.rs", "/// As [`crate::store`] says.\nuse super::why;\n"),
        ],
        &[
            (MAP, STORE_AND_MODEL),
            MODEL_RS,
            STORE_RS,
            ("crates/windlass/src/model/job.rs", "#[cfg(test)]\nmod tests { use crate::store::job; }\n"),
            ("crates/windlass/src/model/job/tests.rs", "use crate::store::job;\n"),
        ],
    ],
};

const ONE_WAY: Rule = Rule {
    name: "no room imports itself by way of others",
    fix: "move what both need into a room below them",
    find: |tree| {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let imports = imports(tree);
        for import in &imports {
            edges.entry(import.from.clone()).or_default().insert(import.to.clone());
        }
        let in_a_cycle = imports.iter().filter(|import| reaches(&edges, &import.to, &import.from));
        in_a_cycle
            .map(|import| import.place(format!("`{}` also reaches `{}`", import.to, import.from)))
            .collect()
    },
    caught: &[
        &[
            ("crates/windlass/src/keeper.rs", "use crate::worker::ending;\n"),
            ("crates/windlass/src/worker/start.rs", "use crate::keeper::Keeper;\n"),
        ],
        &[
            ("crates/windlass/src/store.rs", "use crate::audit::Act;\n"),
            ("crates/windlass/src/audit.rs", "use crate::queue::Queue;\n"),
            ("crates/windlass/src/queue.rs", "use crate::store::database::Database;\n"),
        ],
    ],
    passes: &[&[
        ("crates/windlass/src/keeper.rs", "use crate::attempt::ending;\n"),
        ("crates/windlass/src/worker/start.rs", "use crate::{attempt::ending, keeper::Keeper};\n"),
        ("crates/windlass/src/attempt.rs", "#[cfg(test)]\nmod tests { use crate::worker::Worker; }\n"),
    ]],
};

/// The table, by room.
struct Plan(BTreeMap<String, Planned>);

struct Planned {
    line: usize,
    sentence: String,
    imports: BTreeSet<String>,
}

impl Plan {
    fn read(tree: &Tree) -> Option<Self> {
        let file = tree.files.iter().find(|file| file.path == MAP)?;
        let table = checked_tables(file).into_iter().find(|table| table.name == "rooms")?;
        (table.columns == ["room", "what it holds", "imports"])
            .then(|| Self(table.rows.iter().filter_map(Planned::read).collect()))
    }
}

impl Planned {
    fn read(row: &Row) -> Option<(String, Self)> {
        let [room, sentence, imports] = row.cells.as_slice() else { return None };
        let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let imports = names(imports).into_iter().collect();
        Some((names(room).pop()?, Self { line: row.line, sentence: sentence.clone(), imports }))
    }
}

/// One use of a room by another.
struct Import<'a> {
    file: &'a File,
    offset: usize,
    from: String,
    to: String,
}

impl Import<'_> {
    fn place(&self, what: String) -> Place {
        self.file.place_at(self.offset, what)
    }
}

fn imports(tree: &Tree) -> Vec<Import<'_>> {
    let mut found = Vec::new();
    for (file, source) in tree.rust().filter(|(file, _)| !file.is_test()) {
        let Some(module) = module_of(file).filter(|module| module[0] != FRONT) else { continue };
        let paths = source.crate_paths().into_iter().chain(paths_of_parents(source, &module));
        for (offset, path) in paths.filter(|(offset, _)| !source.is_test(*offset)) {
            let to = path.split("::").next().unwrap_or_default().to_owned();
            if to != module[0] && !to.is_empty() {
                found.push(Import { file, offset, from: module[0].to_owned(), to });
            }
        }
    }
    found
}

/// Every path that starts with as many `super` as lead out of the room, without them.
fn paths_of_parents(source: &Source, module: &[&str]) -> Vec<(usize, String)> {
    let out = "super::".repeat(module.len());
    occurrences(&source.code, "super::")
        // A sequence of them is found at its start.
        .filter(|offset| !source.code[..*offset].ends_with("super::"))
        .flat_map(|offset| expand(&source.code[offset..]).into_iter().map(move |path| (offset, path)))
        .filter_map(|(offset, path)| Some((offset, path.strip_prefix(&out)?.to_owned())))
        .collect()
}

/// `crates/windlass/src/worker/run.rs` is the module `worker::run`.
fn module_of(file: &File) -> Option<Vec<&str>> {
    let path = file.path.strip_prefix(LIBRARY)?.strip_suffix(".rs")?;
    Some(path.split('/').collect())
}

fn rooms(tree: &Tree) -> BTreeSet<String> {
    let entries = tree.files.iter().filter_map(|file| file.path.strip_prefix(LIBRARY));
    let rooms = entries.filter_map(|path| path.split(['/', '.']).next());
    rooms.map(str::to_owned).collect()
}

fn reaches(edges: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(room) = next.pop() {
        if room == to {
            return true;
        }
        if seen.insert(room) {
            next.extend(edges.get(room).into_iter().flatten().map(String::as_str));
        }
    }
    false
}

fn at_map(line: usize, what: String) -> Place {
    Place { path: MAP.to_owned(), line, what }
}

fn no_plan() -> Place {
    at_map(1, "no table `rooms` with the columns room, what it holds, imports".to_owned())
}

const STORE_AND_MODEL: &str = "<!-- checked: rooms -->\n\n| room | what it holds | imports |\n|---|---|---|\n\
    | `model` | rules | nothing |\n| `store` | statements | `model` |\n";
const MODEL_RS: (&str, &str) = ("crates/windlass/src/model.rs", "pub(crate) mod job;\n");
const STORE_RS: (&str, &str) = ("crates/windlass/src/store.rs", "use crate::model::job::Job;\n");

const NINETEEN: &[(&str, &str)] = &NINETEEN_FILES;
const NINETEEN_FILES: [(&str, &str); 19] = [
    ("crates/windlass/src/a.rs", ""),
    ("crates/windlass/src/b.rs", ""),
    ("crates/windlass/src/c.rs", ""),
    ("crates/windlass/src/d.rs", ""),
    ("crates/windlass/src/e.rs", ""),
    ("crates/windlass/src/f.rs", ""),
    ("crates/windlass/src/g.rs", ""),
    ("crates/windlass/src/h.rs", ""),
    ("crates/windlass/src/i.rs", ""),
    ("crates/windlass/src/j.rs", ""),
    ("crates/windlass/src/k.rs", ""),
    ("crates/windlass/src/l.rs", ""),
    ("crates/windlass/src/m.rs", ""),
    ("crates/windlass/src/n.rs", ""),
    ("crates/windlass/src/o.rs", ""),
    ("crates/windlass/src/p.rs", ""),
    ("crates/windlass/src/q.rs", ""),
    ("crates/windlass/src/r.rs", ""),
    ("crates/windlass/src/s.rs", ""),
];
