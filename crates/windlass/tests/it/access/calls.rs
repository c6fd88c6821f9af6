//! Every function of the schema, as a call with plausible arguments for one tenant.

use tokio_postgres::Client;
use uuid::Uuid;

/// What the arguments of a call are about.
pub(super) struct About {
    pub(super) tenant: Uuid,
    pub(super) job: Uuid,
    pub(super) lane: i32,
}

pub(super) struct Function {
    pub(super) name: String,
    arguments: Vec<(String, String)>,
}

pub(super) async fn functions(admin: &Client) -> Vec<Function> {
    let query = "select p.proname::text, array(select coalesce(p.proargnames[i], '') from generate_series(1, p.pronargs) i),
            array(select format_type(t, null) from unnest(p.proargtypes) with ordinality a (t, ord) order by ord)
        from pg_proc p where p.pronamespace = 'windlass'::regnamespace and p.prorettype <> 'trigger'::regtype order by 1";
    // So that every type is named with its schema.
    admin.batch_execute("set search_path = pg_catalog").await.unwrap();
    let rows = admin.query(query, &[]).await.unwrap();
    rows.iter()
        .map(|row| {
            let (names, types): (Vec<String>, Vec<String>) = (row.get(1), row.get(2));
            Function { name: row.get(0), arguments: names.into_iter().zip(types).collect() }
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

    pub(super) fn takes_a_tenant(&self) -> bool {
        self.arguments.iter().any(|(name, _)| is_tenant(&self.name, name))
    }
}

fn is_tenant(function: &str, name: &str) -> bool {
    name.contains("tenant") || (name == "of_id" && function.contains("tenant"))
}

fn value(function: &str, name: &str, kind: &str, about: &About) -> String {
    let is_new = function.starts_with("enqueue");
    // Without `extra` a job goes the hot way, through the one function that does not set its search path.
    if is_new && (name == "depends_on" || name == "extra") {
        return "null".to_owned();
    }
    if let Some(element) = kind.strip_suffix("[]") {
        return match element {
            // Rows and the like: only the owner's own functions take them.
            element if element.contains('.') || element == "tid" => format!("null::{kind}"),
            element => format!("array[{}]", value(function, name, element, about)),
        };
    }
    let literal = |text: &str, kind: &str| format!("'{text}'::pg_catalog.{kind}");
    match kind {
        "uuid" if is_tenant(function, name) => literal(&about.tenant.to_string(), "uuid"),
        "uuid" if is_new => "pg_catalog.gen_random_uuid()".to_owned(),
        "uuid" => literal(&about.job.to_string(), "uuid"),
        "integer" if name.contains("lane") => about.lane.to_string(),
        "integer" => "1".to_owned(),
        "bigint" => literal("1", "int8"),
        "smallint" => literal("3", "int2"),
        "real" => literal("1", "float4"),
        "double precision" => literal("0", "float8"),
        "boolean" => "false".to_owned(),
        "jsonb" if name == "uniqueness" => literal(r#""active""#, "jsonb"),
        "jsonb" if is_new => literal("{}", "jsonb"),
        "jsonb" => literal(r#"{"key": "unserved", "definition_key": "unserved"}"#, "jsonb"),
        "json" => literal("{}", "json"),
        "bytea" => literal(r"\x00", "bytea"),
        "interval" => literal("1 s", "interval"),
        "timestamp with time zone" if name == "deadline" => literal("2999-01-01Z", "timestamptz"),
        "timestamp with time zone" => literal("2026-01-01Z", "timestamptz"),
        "text" if name == "source" => literal("manual", "text"),
        "text" if name == "if_unmet" => literal("run", "text"),
        "text" if name == "queue" => literal("default", "text"),
        "text" if name.contains("key") => literal("unserved", "text"),
        "text" => literal("a", "text"),
        kind if kind.contains('.') => format!("null::{kind}"),
        kind => format!("null::pg_catalog.{kind}"),
    }
}
