//! Which tables a transaction has changed, and whose rows: triggers of the test note every row that is written.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::Client;
use uuid::Uuid;

/// A row names its tenant in one of these columns, or as the id that it is about. An update that leaves the row as it was is
/// not noted.
const NOTE: &str = "
    create table public.noted (xact xid8 default pg_current_xact_id(), relation text, tenant uuid);
    grant select on public.noted to public;
    create function public.note() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
    declare
      versions jsonb[] := array[]::jsonb[];
    begin
      if tg_op = 'TRUNCATE' then
        insert into public.noted (relation) values (tg_argv[0]);
        return null;
      end if;
      if tg_op <> 'INSERT' then
        versions := versions || to_jsonb(old);
      end if;
      if tg_op <> 'DELETE' then
        versions := versions || to_jsonb(new);
      end if;
      if versions[1] is distinct from versions[2] then
        insert into public.noted (relation, tenant)
          select tg_argv[0], coalesce(v ->> 'tenant_id', v ->> 'by_tenant', v ->> 'chosen_tenant',
                   case tg_argv[0] when 'tenants' then v ->> 'id' when 'gate' then v ->> 'of_id' end)::uuid
            from unnest(versions) v;
      end if;
      return null;
    end
    $$;
    do $$
    declare
      relation text;
    begin
      for relation in
        select c.relname from pg_class c
         where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
           and c.relname <> 'key_lock' -- has no row after a transaction
      loop
        execute format('create trigger note after insert or update or delete on windlass.%I for each row execute function public.note(%L)',
          relation, relation);
        execute format('create trigger note_all after truncate on windlass.%I for each statement execute function public.note(%L)',
          relation, relation);
      end loop;
    end
    $$";

/// Begins to note changes.
pub(super) async fn note(admin: &Client) {
    admin.batch_execute(NOTE).await.unwrap();
}

/// The tables that the open transaction changed, by whose rows they were.
#[derive(Default)]
pub(super) struct Changes(BTreeMap<&'static str, BTreeSet<String>>);

impl Changes {
    pub(super) async fn of(client: &Client, own: Uuid, other: Uuid) -> Self {
        let query =
            "select distinct relation, tenant from public.noted where xact = pg_catalog.pg_current_xact_id()";
        let mut changes = Self::default();
        for row in client.query(query, &[]).await.unwrap() {
            let whose = match row.get::<_, Option<Uuid>>(1) {
                Some(tenant) if tenant == own => OWN,
                Some(tenant) if tenant == other => OTHER,
                _ => NOBODY,
            };
            changes.0.entry(whose).or_default().insert(row.get(0));
        }
        changes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether rows of this table were changed, whosever they are.
    pub(super) fn have(&self, table: &str) -> bool {
        self.0.values().any(|tables| tables.contains(table))
    }

    pub(super) fn are_of(&self, whose: &str) -> bool {
        self.0.contains_key(whose)
    }
}

pub(super) const AUDIT: &str = "audit";
pub(super) const OWN: &str = "own";
pub(super) const OTHER: &str = "other";
pub(super) const NOBODY: &str = "nobody";

impl std::fmt::Display for Changes {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = [OWN, OTHER, NOBODY]
            .iter()
            .filter_map(|whose| {
                let tables = self.0.get(whose)?.iter().map(String::as_str).collect::<Vec<_>>();
                Some(format!("{whose} {}", tables.join(" ")))
            })
            .collect();
        write!(to, "{}", parts.join("; "))
    }
}
