//! The windlass roles that a login has, and those that it needs.

use tokio_postgres::types::Type;

use super::database::{Database, Statement};
use super::schema;
use crate::error::{Error, Result};

pub(crate) const STATEMENTS: &[&Statement] = &[&MISSING, &LOGIN];

/// Checks privileges and not memberships, because a superuser or the owner has all privileges without them. The server
/// takes two roles with SET ROLE, which is a separate privilege from PostgreSQL 16 on.
static MISSING: Statement =
    Statement { text: include_str!("sql/access/missing.sql"), types: &[Type::TEXT_ARRAY] };

/// Refuses a login without the privileges of these roles.
pub(crate) async fn require(db: &Database, roles: &[&str]) -> Result<()> {
    let rows = db.query(&MISSING, &[&roles]).await?;
    let missing: Vec<String> = rows.iter().map(|row| row.get("role")).collect();
    let Some(row) = rows.first() else { return Ok(()) };
    let denied = format!("permission denied for the login {:?}", row.get::<_, String>("login"));
    Err(Error::MissingRole { denied, roles: missing.join(", ") })
}

static LOGIN: Statement = Statement {
    text: "select session_user::text, pg_catalog.pg_has_role(session_user, 'windlass_operator', 'member')",
    types: &[],
};

/// Returns the login of the connection, which SET ROLE does not change, and whether it is an operator's.
pub(crate) async fn login(db: &Database) -> Result<(String, bool)> {
    let row = db.query_one(&LOGIN, &[]).await?;
    Ok((row.get(0), row.get(1)))
}

/// Returns the roles that may call a function, from the grants, without roles that are not granted to logins.
pub(crate) fn roles_for(function: &str) -> Vec<String> {
    let grants: String =
        schema::FUNCTIONS.last().copied().unwrap_or_default().lines().map(without_comment).collect();
    let quoted: Vec<&str> = grants.split('\'').skip(1).step_by(2).collect();
    let granted = |list: &[&str]| {
        let [_, functions] = list else { return false };
        functions.split_whitespace().any(|name| name == function)
    };
    let roles = quoted.windows(2).filter(|pair| granted(pair)).flat_map(|pair| pair[0].split_whitespace());
    roles.filter(|role| *role != "admin").map(|role| format!("windlass_{role}")).collect()
}

fn without_comment(line: &str) -> String {
    format!("{} ", line.split("--").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::roles_for;

    #[test]
    fn the_roles_of_a_function_are_read_from_the_grants() {
        assert_eq!(roles_for("claim"), ["windlass_worker", "windlass_server"]);
        let who = ["windlass_app", "windlass_worker", "windlass_server", "windlass_operator"];
        assert_eq!(roles_for("enqueue"), who);
        assert_eq!(roles_for("prune"), ["windlass_keeper", "windlass_server"]);
        assert_eq!(roles_for("create_tenant"), ["windlass_operator"], "without the admin role");
        assert!(roles_for("no_such_function").is_empty());
    }
}
