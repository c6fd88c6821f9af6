//! Every function of the schema, as a call with valid arguments for one tenant.

use tokio_postgres::{Client, SimpleQueryMessage};

use super::arguments::{is_tenant, value};
use super::odd_arguments::odd_values;
use super::stock::About;

pub(super) struct Function {
    pub(super) name: String,
    /// Whether its result has room for a text or an id.
    pub(super) returns_text: bool,
    arguments: Vec<(String, String)>,
}

pub(super) async fn functions(admin: &Client) -> Vec<Function> {
    let query = "
        select p.proname::text, array(select coalesce(p.proargnames[i], '') from generate_series(1, p.pronargs) i),
               array(select format_type(t, null) from unnest(p.proargtypes) with ordinality a (t, ord) order by ord),
               exists (select from unnest(p.prorettype || coalesce(
                         (select array_agg(o.type) from unnest(p.proallargtypes, p.proargmodes) o (type, mode) where o.mode in ('o', 't')), '{}')) r
                        where format_type(r, null) in ('text', 'json', 'jsonb', 'uuid', 'uuid[]'))
          from pg_proc p where p.pronamespace = 'windlass'::regnamespace and p.prorettype <> 'trigger'::regtype order by 1";
    // So that every type is named with its schema.
    admin.batch_execute("set search_path = pg_catalog").await.unwrap();
    let rows = admin.query(query, &[]).await.unwrap();
    rows.iter()
        .map(|row| {
            let (names, types): (Vec<String>, Vec<String>) = (row.get(1), row.get(2));
            let arguments = names.into_iter().zip(types).collect();
            Function { name: row.get(0), returns_text: row.get(3), arguments }
        })
        .collect()
}

impl Function {
    /// Names nothing without its schema, so that it means the same on every search path.
    pub(super) fn call(&self, about: &About) -> String {
        let arguments: Vec<String> =
            self.arguments.iter().map(|(name, kind)| value(&self.name, name, kind, about)).collect();
        format!("windlass.{}({})", self.name, arguments.join(", "))
    }

    /// The same with another value in the place of each argument in turn.
    pub(super) fn odd_calls(&self, about: &About) -> Vec<String> {
        let usual: Vec<String> =
            self.arguments.iter().map(|(name, kind)| value(&self.name, name, kind, about)).collect();
        let mut calls = Vec::new();
        for (place, (_, kind)) in self.arguments.iter().enumerate() {
            for odd in odd_values(kind, &usual[place]) {
                let mut arguments = usual.clone();
                arguments[place] = odd;
                calls.push(format!("windlass.{}({})", self.name, arguments.join(", ")));
            }
        }
        calls
    }

    /// A function that is granted and lacks a privilege of its own answers with the same code as one that is not granted.
    pub(super) async fn is_granted_to(&self, admin: &Client, group: &str) -> bool {
        let query = "select bool_or(has_function_privilege($2, p.oid, 'execute')) from pg_proc p
            where p.pronamespace = 'windlass'::regnamespace and p.proname = $1";
        admin.query_one(query, &[&self.name, &group]).await.unwrap().get(0)
    }

    pub(super) fn takes_a_tenant(&self) -> bool {
        self.arguments.iter().any(|(name, _)| is_tenant(&self.name, name))
    }
}

/// What a call is answered: the SQLSTATE of its refusal, or `answers` and the text of its rows.
pub(super) async fn answer(client: &Client, call: &str) -> (String, String) {
    match client.simple_query(&format!("select r::text from {call} r")).await {
        Err(error) => (error.code().map_or("broken", |code| code.code()).to_owned(), String::new()),
        Ok(messages) => {
            let rows = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            ("answers".to_owned(), rows.collect::<Vec<_>>().join(" "))
        }
    }
}
