//! The settings of a session that a function of the owner reads. Every caller can set them.

use crate::rule::Rule;
use crate::tree::STATEMENTS;

pub(crate) const RULES: &[&Rule] = &[&KNOWN];

/// Those of decision 0014, which weaken nothing.
const ALLOWED: [&str; 3] = ["windlass.tenant_id", "windlass.actor", "windlass.keys_locked"];

const KNOWN: Rule = Rule {
    name: "a function reads no setting of windlass but those of decision 0014",
    fix: "pass an argument, or say in decision 0014 why a caller that sets it gains nothing, and allow it here",
    find: |tree| {
        let statements = tree.ending(".sql").filter(|file| file.path.starts_with(STATEMENTS));
        statements
            .flat_map(|file| {
                let read = file.text.match_indices("current_setting('windlass.").filter_map(|(offset, _)| {
                    let name = file.text[offset..].split('\'').nth(1)?;
                    (!ALLOWED.contains(&name)).then(|| file.place_at(offset, format!("reads {name}")))
                });
                read.collect::<Vec<_>>()
            })
            .collect()
    },
    caught: &[&[(
        "crates/windlass/src/store/functions/audit/a.sql",
        "-- Writes.\nselect where current_setting('windlass.audited', true) = 'on';\n",
    )]],
    passes: &[&[(
        "crates/windlass/src/store/functions/audit/a.sql",
        "-- Writes.\nselect current_setting('windlass.tenant_id', true), current_setting('role');\n",
    )]],
};
