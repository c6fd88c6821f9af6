//! The stored numbers of states and outcomes: one place in Rust, and one in SQL.

use crate::rule::Rule;
use crate::source::words;
use crate::tree::{LIBRARY, STATEMENTS};

pub(crate) const RULES: &[&Rule] = &[&IN_JSON, &IN_SQL];

const IN_JSON: Rule = Rule {
    name: "only model/job/state.rs contains the codes of states and outcomes",
    fix: "call State::code or AttemptOutcome::code",
    find: |tree| {
        let of_library = tree.rust().filter(|(file, _)| file.path.starts_with(LIBRARY) && !file.is_test());
        of_library
            .flat_map(|(file, source)| {
                let literals = source.strings.iter().filter(|literal| !source.is_test(literal.start));
                let coded = literals.filter(|literal| has_json_code(&literal.text));
                coded.map(|literal| {
                    file.place_at(literal.start, "the code of a state or an outcome in a string")
                })
            })
            .collect()
    },
    caught: &[
        &[("crates/windlass/src/pull/leftovers.rs", "let detail = r#\"{\"outcome\": 7, \"next\": 5}\"#;\n")],
        &[("crates/windlass/src/pull/leftovers.rs", "let detail = \"{\\\"next\\\":5}\";\n")],
    ],
    passes: &[
        &[(
            "crates/windlass/src/attempt/ending.rs",
            "format!(r#\"{{\"outcome\":{},\"next\":{}}}\"#, a, b);\n",
        )],
        &[(
            "crates/windlass/src/pull.rs",
            "#[cfg(test)]\nmod tests { const A: &str = r#\"{\"next\": 5}\"#; }\n",
        )],
    ],
};

/// The twin of state.rs.
const NAMES: &str = "crates/windlass/src/store/functions/base/names.sql";

const IN_SQL: Rule = Rule {
    name: "of the statements, only base/names.sql contains the codes of states and outcomes",
    fix: "use windlass.state_code('queued'), windlass.outcome_code('lost') or windlass.has_ended(code), which the planner folds",
    find: |tree| {
        let statements = tree.ending(".sql").filter(|file| file.path.starts_with(STATEMENTS));
        let mut places = Vec::new();
        for file in statements.filter(|file| file.path != NAMES) {
            places.extend(sql_codes(&file.text).into_iter().map(|offset| file.place_at(offset, "a bare code")));
        }
        for (file, source) in tree.rust().filter(|(file, _)| file.path.starts_with(LIBRARY) && !file.is_test()) {
            let sql = source.strings.iter().filter(|literal| {
                !source.is_test(literal.start) && words(&literal.text, "windlass").next().is_some()
            });
            for literal in sql {
                let offsets = sql_codes(&literal.text).into_iter().map(|offset| literal.start + offset);
                places.extend(offsets.map(|offset| file.place_at(offset, "a bare code")));
            }
        }
        places
    },
    caught: &[
        &[(STATEMENT, "select from ended e where e.next = 5\n")],
        &[(STATEMENT, "select case when e.next <= 4 then e.next end\n")],
        &[(STATEMENT, "select case when f.job_status is distinct from 1 then a.last_error end\n")],
        &[(STATEMENT, "select count(*) filter (where h.outcome in (2, 3, 5))\n")],
        &[(STATEMENT, "select from h where h.job_status between 1 and 4\n")],
        &[(STATEMENT, "select from j where windlass.state_code(windlass.state_of(j.tenant_id, j.id)) > 4\n")],
        &[(STATEMENT, "select coalesce((e.detail -> 'outcome')::smallint, 1)\n")],
        &[(STATEMENT, "select l.lane, 5 as state from l\n")],
        &[(STATEMENT, "select case when a then b.next else 4 end::smallint as next\n")],
        &[(STATEMENT, "perform windlass.finish_waiting(tenant, array[job], 4::smallint, 'canceled');\n")],
        &[(STATEMENT, "perform windlass.settle('{\"outcome\": 7}');\n")],
        &[("crates/windlass/src/store/a.rs", "let a = \"select from windlass.history where job_status = 3\";\n")],
    ],
    passes: &[&[
        (NAMES, "return state <= 4;\n"),
        (
            STATEMENT,
            "-- The state = 5, or next = 7.
             select count(distinct h.outcome) > 1, h.outcome, 1, (select s.state from s limit 1) as state
               from h where h.job_status = $5 and h.attempt = 1 and windlass.has_ended(e.next)
                 and e.next = windlass.state_code('queued') and d.outcome = 'failed' and h.status > 10
              order by h.state, 2;
             perform windlass.finish_waiting(tenant, jobs[1:1000], windlass.state_code('failed'), 'expired');\n",
        ),
        ("crates/windlass/src/store/a.rs", "let a = \"the next = 5\";\n"),
        ("crates/windlass/migrations/0003_jobs.sql", "check (job_status between 1 and 4)\n"),
    ]],
};

const STATEMENT: &str = "crates/windlass/src/store/functions/job/a.sql";

/// Whether a JSON text sets an outcome or a next state to a number.
fn has_json_code(text: &str) -> bool {
    let text = text.replace([' ', '\\'], "");
    ["\"outcome\":", "\"next\":"].iter().any(|field| {
        text.match_indices(field)
            .any(|(at, _)| text[at + field.len()..].starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Columns, variables and parameters that hold a code, and the functions that return one.
const CODED: [&str; 8] =
    ["state", "status", "job_status", "outcome", "next", "final", "state_code", "outcome_code"];

/// The offsets where SQL has a number in the place of a state or an outcome: compared with one, named as one, or passed
/// as one.
fn sql_codes(text: &str) -> Vec<usize> {
    let tokens = tokens(text);
    let found = tokens.iter().enumerate().filter(|(index, (_, token))| {
        let after = &tokens[index + 1..];
        match token {
            Token::Word("finish_waiting") => arguments(after).windows(3).any(is_small_number),
            Token::Word(name) => CODED.contains(name) && is_compared(&after[arguments(after).len()..]),
            Token::Text("outcome" | "next") => {
                matches!(after, [(_, Token::Mark(')')), rest @ ..] if is_compared(rest))
            }
            Token::Text(text) => has_json_code(text),
            Token::Code => is_named(after),
            Token::Mark(_) => false,
        }
    });
    found.map(|(_, (offset, _))| *offset).collect()
}

/// Whether the tokens compare what is before them with a number, or give it a number if it is null.
fn is_compared(tokens: &[(usize, Token<'_>)]) -> bool {
    let mut compares = false;
    for (index, (_, token)) in tokens.iter().enumerate() {
        match token {
            Token::Mark('=' | '<' | '>' | '!') | Token::Word("in" | "between" | "from" | "when") => {
                compares = true;
            }
            Token::Mark(',') if index > 0 && tokens[index - 1].1 == Token::Word("smallint") => {
                compares = true;
            }
            Token::Mark('(' | ':') | Token::Word("is" | "not" | "distinct" | "smallint") => {}
            Token::Code => return compares,
            Token::Mark(_) | Token::Word(_) | Token::Text(_) => return false,
        }
    }
    false
}

/// Whether the tokens after a number give it the name of a code.
fn is_named(tokens: &[(usize, Token<'_>)]) -> bool {
    let mut rest = tokens.iter().map(|(_, token)| token);
    let end = rest.find(|token| !matches!(token, Token::Word("end" | "smallint") | Token::Mark(':')));
    end == Some(&Token::Word("as")) && matches!(rest.next(), Some(Token::Word(name)) if CODED.contains(name))
}

fn is_small_number(tokens: &[(usize, Token<'_>)]) -> bool {
    matches!(tokens, [(_, Token::Code), (_, Token::Mark(':')), (_, Token::Mark(':'))])
}

/// The argument list at the start, with its parentheses; empty if there is none.
fn arguments<'a, 'b>(tokens: &'b [(usize, Token<'a>)]) -> &'b [(usize, Token<'a>)] {
    let mut depth = 0_usize;
    for (index, (_, token)) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(') => depth += 1,
            Token::Mark(')') => depth = depth.saturating_sub(1),
            Token::Mark(_) | Token::Word(_) | Token::Text(_) | Token::Code => {}
        }
        if depth == 0 {
            return if index == 0 { &[] } else { &tokens[..=index] };
        }
    }
    &[]
}

#[derive(Debug, PartialEq)]
enum Token<'a> {
    /// A name, a keyword, a parameter, or a number that is no code.
    Word(&'a str),
    /// A string, without its quotes.
    Text(&'a str),
    /// A number that could be a code: one digit, not zero.
    Code,
    Mark(char),
}

/// The tokens of SQL, with their offsets, without comments. The body of a function is read like the rest.
fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(inside) = rest.strip_prefix('\'') {
            let end = inside.find('\'').unwrap_or(inside.len());
            tokens.push((at, Token::Text(&inside[..end])));
            (end + 2).min(rest.len())
        } else if is_part(letter) {
            let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
            let word = &rest[..end];
            let is_code = matches!(word.as_bytes(), [b'1'..=b'9']);
            tokens.push((at, if is_code { Token::Code } else { Token::Word(word) }));
            end
        } else {
            if !letter.is_whitespace() {
                tokens.push((at, Token::Mark(letter)));
            }
            letter.len_utf8()
        };
        at += length;
    }
    tokens
}

fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '$')
}
