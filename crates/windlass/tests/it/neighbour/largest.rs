//! Every function that applications may call, with the largest allowed arguments, and with larger ones.

use tokio_postgres::Client;
use uuid::Uuid;

/// How large the arguments are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Largest,
    TooLarge,
}

/// Jobs of one call that accepts many.
const MANY: usize = 500;
const PAYLOAD_BYTES: usize = 1_048_576;
const TEXT_BYTES: usize = 500;
const NAME_BYTES: usize = 200;
const MAX_TAGS: usize = 20;
const TAG_BYTES: usize = 100;
const MAX_NEEDS: usize = 100;

/// The calls: the function's name, the size, and the call with its arguments. If several arguments are too large, only one is
/// checked, so each argument has its own call in which it is the largest, and one in which it is too large.
pub(super) async fn calls(admin: &Client, tenant: Uuid) -> Vec<(String, Size, String)> {
    let lane = "select lane from windlass.route_of($1, 'loud', null, null)";
    let lane: i32 = admin.query_one(lane, &[&tenant]).await.unwrap().get(0);
    let query = "select p.proname::text, array(select coalesce(p.proargnames[i], '') from generate_series(1, p.pronargs) i),
            array(select format_type(t, null) from unnest(p.proargtypes) with ordinality a (t, ord) order by ord)
        from pg_proc p where p.pronamespace = 'windlass'::regnamespace and has_function_privilege('windlass_app', p.oid, 'execute')
         and p.prorettype <> 'trigger'::regtype order by 1";
    // So that every type is named with its schema.
    admin.batch_execute("set search_path = pg_catalog").await.unwrap();
    let about = About { tenant, lane };
    let mut calls = Vec::new();
    for row in admin.query(query, &[]).await.unwrap() {
        let (function, names, types): (String, Vec<String>, Vec<String>) =
            (row.get(0), row.get(1), row.get(2));
        let usual: Vec<String> =
            names.iter().zip(&types).map(|(name, kind)| about.usual(&function, name, kind)).collect();
        let call = |arguments: &[String]| format!("windlass.{function}({})", arguments.join(", "));
        calls.push((function.clone(), Size::Largest, call(&usual)));
        for (position, (name, kind)) in names.iter().zip(&types).enumerate() {
            for size in [Size::Largest, Size::TooLarge] {
                let Some(value) = about.large(name, kind, size) else { continue };
                let mut arguments = usual.clone();
                arguments[position] = value;
                calls.push((function.clone(), size, call(&arguments)));
            }
        }
    }
    assert!(calls.len() > 60, "{}", calls.len());
    calls
}

struct About {
    tenant: Uuid,
    lane: i32,
}

impl About {
    /// Arguments with an effect. Lists are as long as those of a large batch.
    fn usual(&self, function: &str, name: &str, kind: &str) -> String {
        if let Some(element) = kind.strip_suffix("[]") {
            return match (name, element) {
                ("tags" | "depends_on" | "each" | "extras", _) => format!("null::{kind}"),
                ("jobs", "uuid") if function == "cancel" || function == "retry" => {
                    format!("array(select id from windlass.jobs where definition_key = 'loud' limit {MANY})")
                }
                // Numbered from 1, with 64 jobs each.
                ("parts", _) => format!("array(select (n + 63) / 64 from generate_series(1, {MANY}) n)"),
                (_, element) => {
                    format!(
                        "array(select {} from generate_series(1, {MANY}))",
                        self.usual(function, name, element)
                    )
                }
            };
        }
        match (name, kind) {
            ("tenant" | "tenants" | "tenant_id", "uuid") => format!("'{}'::uuid", self.tenant),
            ("created_by" | "parent_id" | "job_id", "uuid") => "null::uuid".to_owned(),
            (_, "uuid") if ["cancel", "retry"].contains(&function) => {
                "(select id from windlass.jobs where definition_key = 'loud' limit 1)".to_owned()
            }
            (_, "uuid") => "gen_random_uuid()".to_owned(),
            ("lane" | "lanes" | "in_lane" | "of_lane", "integer") => self.lane.to_string(),
            ("max_attempts", "smallint") => "3::smallint".to_owned(),
            ("actor", "text") => "'loud'".to_owned(),
            ("definition_key", "text") => "'loud'".to_owned(),
            ("name", "text") => "'loud.event'".to_owned(),
            ("source", "text") if function.starts_with("enqueue") => "'manual'".to_owned(),
            ("payload" | "payloads" | "options", "jsonb" | "json") => format!("'{{}}'::{kind}"),
            (_, kind) => format!("null::{kind}"),
        }
    }

    /// One argument at its limit, or beyond; none for arguments without a size.
    fn large(&self, name: &str, kind: &str, size: Size) -> Option<String> {
        let element = kind.trim_end_matches("[]");
        let more = usize::from(size == Size::TooLarge);
        let text = |bytes: usize| format!("repeat('x', {})", bytes + more);
        let json = |kind: &str| format!("('{{\"t\": \"' || {} || '\"}}')::{kind}", text(PAYLOAD_BYTES - 9));
        Some(match (name, kind) {
            ("name", "text") => text(NAME_BYTES),
            ("queue", "text") => text(100),
            (_, "text") => text(TEXT_BYTES),
            ("payload", "jsonb" | "json") => json(kind),
            ("payloads", "jsonb[]" | "json[]") => format!(
                "array[{}] || array(select '{{}}'::{element} from generate_series(2, {MANY}))",
                json(element)
            ),
            ("depends_on", "uuid[]") if size == Size::TooLarge => {
                format!("array(select gen_random_uuid() from generate_series(0, {MAX_NEEDS}))")
            }
            ("depends_on", "uuid[]") => {
                format!("array(select id from windlass.jobs where definition_key = 'loud' limit {MAX_NEEDS})")
            }
            ("tags", _) => {
                format!("array(select {} from generate_series(1, {}))", text(TAG_BYTES), MAX_TAGS)
            }
            ("max_attempts", "smallint" | "integer") => format!("{}::{kind}", 1000 + more),
            ("priority", "integer") => (1000 + more).to_string(),
            ("delay", "interval") => format!("interval '{} days'", 36_500 + more),
            (_, "timestamp with time zone") => {
                format!("timestamptz '{}'", if size == Size::TooLarge { "infinity" } else { "9998-12-31Z" })
            }
            _ => return None,
        })
    }
}
