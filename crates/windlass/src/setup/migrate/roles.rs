//! The roles of windlass: they are created before the first migration, by whoever may create roles.
//!
//! Roles belong to the whole server and not to a database, so another database may have created them, and another login may have been
//! that creator. From PostgreSQL 16 on, the creator of a role administers it but may not take it (SET ROLE) until it has granted that to
//! itself, and no other login with CREATEROLE may grant it. A login that cannot do what is missing gets the statements for
//! somebody who can.
//!
//! No attribute is written that is the default anyway: managed services refuse statements that mention SUPERUSER or BYPASSRLS.

use std::fmt::Write as _;

use tokio_postgres::Client;

use crate::error::{Error, Result};
use crate::store::install::{self, RoleFacts};

/// The first one owns every object and never logs in; a deployment grants the others to its logins. Decision 0014 has the reasons.
const ROLES: [&str; 10] = [
    "windlass_owner",
    "windlass_migrator",
    "windlass_app",
    "windlass_worker",
    "windlass_keeper",
    "windlass_server",
    "windlass_admin",
    "windlass_operator",
    "windlass_reader",
    "windlass_puller",
];

/// Role, member, and whether the member has its privileges without taking it with SET ROLE.
pub(super) const MEMBERSHIPS: [(&str, &str, bool); 6] = [
    ("windlass_owner", "windlass_migrator", true),
    ("windlass_admin", "windlass_server", false),
    ("windlass_worker", "windlass_server", false),
    ("windlass_keeper", "windlass_server", false),
    ("windlass_app", "windlass_server", false),
    ("windlass_operator", "windlass_server", false),
];

/// The SQL that creates the roles, for whoever may create roles. It can be run again, and in any database of the server. It also allows
/// these logins to migrate; without any, the owner of the database in which it runs.
///
/// ```
/// let sql = windlass::setup::print_roles_sql(&["app".to_owned()]);
/// assert!(sql.contains("windlass_app"));
/// ```
#[must_use]
pub fn print_roles_sql(logins: &[String]) -> String {
    let mut sql = create_sql();
    if logins.is_empty() {
        sql.push_str(
            "\n-- The owner of this database may migrate it.
do $$
declare
  owner name;
begin
  for owner in
    select r.rolname from pg_catalog.pg_database d join pg_catalog.pg_roles r on r.oid = d.datdba
     where d.datname = current_database() and r.rolname <> current_user and not r.rolsuper
  loop
    execute format('grant windlass_migrator to %I', owner);
  end loop;
end
$$;
",
        );
    }
    for login in logins {
        let _ = writeln!(sql, "grant windlass_migrator to {};", quote(login));
    }
    sql
}

/// Creates the roles and memberships that do not exist. Ten processes that start at once would conflict in the shared catalog, so only
/// what is missing is written, and who comes second continues.
pub(super) fn create_sql() -> String {
    let names = ROLES.map(|role| format!("'{role}'")).join(", ");
    let members = MEMBERSHIPS.map(|(role, member, inherits)| format!("('{role}', '{member}', {inherits})"));
    format!(
        "-- The roles of windlass belong to the whole server. They own nothing but the schema windlass, and none of them can log in.
do $$
declare
  wanted text;
begin
  foreach wanted in array array[{names}] loop
    if not exists (select from pg_catalog.pg_roles r where r.rolname = wanted) then
      begin
        execute format('create role %I%s', wanted, case when wanted = 'windlass_server' then ' noinherit' else '' end);
      exception when duplicate_object or unique_violation then
        null; -- created at the same time by another database
      end;
    end if;
  end loop;
end
$$;

-- The server may take the other roles but does not inherit from them. From PostgreSQL 16 on, that is an option of the grant.
do $$
declare
  wanted record;
  has_options constant boolean := current_setting('server_version_num')::integer >= 160000;
begin
  for wanted in select * from (values {members}) w (role, member, inherits) loop
    if not pg_catalog.pg_has_role(wanted.member::name, wanted.role::name, case when has_options then 'SET' else 'MEMBER' end) then
      begin
        execute format('grant %I to %I %s', wanted.role, wanted.member,
          case when has_options then format('with set true, inherit %s', wanted.inherits::text) else '' end);
      exception when unique_violation or internal_error then
        null; -- granted at the same time by another database
      end;
    end if;
  end loop;
end
$$;
",
        members = members.join(", ")
    )
}

/// Allows the caller to own what it creates: on PostgreSQL 16 and newer the creator of a role may not take it by default.
const TAKE: &str = "do $$
declare
  has_options constant boolean := current_setting('server_version_num')::integer >= 160000;
begin
  if not pg_catalog.pg_has_role(current_user, 'windlass_owner', case when has_options then 'SET' else 'MEMBER' end) then
    execute format('grant windlass_owner to %I %s', current_user, case when has_options then 'with set true, inherit true' else '' end);
  end if;
exception when unique_violation or internal_error then
  null; -- granted at the same time by another process of this login
end
$$;
";

/// The part of the printed SQL that a migration needs.
pub(super) fn install_sql() -> String {
    format!("{}{TAKE}", create_sql())
}

/// Creates the roles that do not exist and lets the caller act as their owner, or says what is missing and who can do it.
pub(super) async fn ensure(client: &Client) -> Result<()> {
    let names = ROLES.to_vec();
    let facts = install::roles(client, &names, &MEMBERSHIPS).await?;
    if let Some(refusal) = refusal(&facts) {
        return Err(refusal);
    }
    if facts.missing_roles.is_empty() && facts.missing_memberships.is_empty() && facts.may_own {
        return Ok(());
    }
    Ok(client.batch_execute(&install_sql()).await?)
}

/// What this login cannot do, in words, and the statements for somebody who can.
fn refusal(facts: &RoleFacts) -> Option<Error> {
    let mut missing = Vec::new();
    let mut statements = Vec::new();
    let may_create = facts.is_superuser || facts.may_create_roles;
    let may_grant = |role: &str| {
        facts.is_superuser
            || facts.may_create_roles
                && (!facts.has_options || facts.missing_roles.iter().any(|one| one == role))
            || facts.administers.iter().any(|one| one == role)
    };
    if !may_create && !facts.missing_roles.is_empty() {
        missing.push(format!(
            "the roles {} do not exist and it may not create roles",
            facts.missing_roles.join(", ")
        ));
        statements.extend(facts.missing_roles.iter().map(|role| create(role)));
    }
    let ungranted: Vec<&(String, String)> =
        facts.missing_memberships.iter().filter(|(role, _)| !may_grant(role)).collect();
    if !ungranted.is_empty() {
        if missing.is_empty() {
            let list: Vec<String> =
                ungranted.iter().map(|(role, member)| format!("{role} to {member}")).collect();
            missing.push(format!("it cannot grant {}", list.join(", ")));
        }
        statements.extend(ungranted.iter().map(|(role, member)| grant(role, member, facts.has_options)));
    }
    if !facts.may_own && !may_grant("windlass_owner") {
        missing.push("it is not a member of windlass_migrator".to_owned());
        statements.push(format!("grant windlass_migrator to {};", quote(&facts.login)));
    }
    if !facts.has_schema && !facts.may_create_schemas {
        missing.push(format!("it may not create a schema in the database {}", facts.database));
        statements.push(format!(
            "grant create on database {} to {};",
            quote(&facts.database),
            quote(&facts.login)
        ));
    }
    if statements.is_empty() {
        return None;
    }
    let by = match &facts.administrators[..] {
        [] => "a superuser or an administrator with CREATEROLE".to_owned(),
        known => format!("{} or a superuser", known.join(", ")),
    };
    Some(Error::MigrationDenied {
        login: facts.login.clone(),
        missing: missing.join("; "),
        by,
        statements: statements.join("\n"),
    })
}

fn create(role: &str) -> String {
    let inherits = if role == "windlass_server" { " noinherit" } else { "" };
    format!("create role {role}{inherits};")
}

fn grant(role: &str, member: &str, has_options: bool) -> String {
    let inherits = MEMBERSHIPS.iter().any(|one| (one.0, one.1) == (role, member) && one.2);
    let options = if has_options { format!(" with set true, inherit {inherits}") } else { String::new() };
    format!("grant {role} to {member}{options};")
}

/// An identifier in SQL.
fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
