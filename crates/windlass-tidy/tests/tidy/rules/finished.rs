//! Only finished work is merged.
//!
//! The samples are assembled with `concat!`, so that a plain search for these marks finds none here.

use crate::rule::Rule;
use crate::source::starts;

pub(crate) const RULES: &[&Rule] = &[&NO_MARKS, &NO_UNWRAP];

const NO_MARKS: Rule = Rule {
    name: "no unfinished code is merged, and no test is disabled",
    fix: "finish it; for a known defect, assert the current behavior and explain why it is wrong",
    find: |tree| {
        let in_code = [concat!("#[", "ignore"), concat!("to", "do!("), concat!("unimple", "mented!(")];
        let in_prose = [concat!("FIX", "ME"), concat!("XX", "X")];
        let mut places = Vec::new();
        for (file, source) in tree.rust() {
            let code = in_code.iter().flat_map(|mark| starts(&source.code, mark).map(move |at| (at, mark)));
            let prose =
                in_prose.iter().flat_map(|mark| starts(&source.prose, mark).map(move |at| (at, mark)));
            places.extend(code.chain(prose).map(|(at, mark)| file.place_at(at, format!("`{mark}`"))));
        }
        for file in tree.ending(".sql") {
            let found = in_prose.iter().flat_map(|mark| starts(&file.text, mark).map(move |at| (at, mark)));
            places.extend(found.map(|(at, mark)| file.place_at(at, format!("`{mark}`"))));
        }
        places
    },
    caught: &[
        &[("crates/a/tests/b.rs", concat!("#[test]\n#[", "ignore = \"slow\"]\nfn a() {}\n"))],
        &[("crates/a/src/b.rs", concat!("fn a() { to", "do!() }\n"))],
        &[("crates/a/src/b.rs", concat!("fn a() { unimple", "mented!() }\n"))],
        &[("crates/a/src/b.rs", concat!("// FIX", "ME: wrong\n"))],
        &[("crates/a/src/b.sql", concat!("-- FIX", "ME: wrong\n"))],
    ],
    passes: &[&[("crates/a/src/b.rs", concat!("const MARK: &str = \"FIX", "ME\";\n"))]],
};

const NO_UNWRAP: Rule = Rule {
    name: "only tests unwrap",
    fix: "return the error, or use `expect` to state why it cannot happen",
    find: |tree| {
        let product = tree.rust().filter(|(file, _)| !file.is_test());
        product
            .flat_map(|(file, source)| {
                let found = source.code.match_indices(".unwrap()").map(|(at, _)| at);
                found.filter(|at| !source.is_test(*at)).map(|at| file.place_at(at, "`.unwrap()`"))
            })
            .collect()
    },
    caught: &[
        &[("crates/a/src/b.rs", "fn a() { b().unwrap(); }\n")],
        &[("crates/a/src/b.rs", "#[cfg(test)]\nmod tests { fn a() {} }\nfn b() { c().unwrap(); }\n")],
        &[("crates/a/examples/b.rs", "fn main() { b().unwrap(); }\n")],
    ],
    passes: &[
        &[("crates/a/tests/b.rs", "fn a() { b().unwrap(); }\n")],
        &[(
            "crates/a/src/b.rs",
            "//! Never `.unwrap()`.\n#[cfg(test)]\nmod tests {\n    fn a() { b().unwrap(); }\n}\n",
        )],
    ],
};
