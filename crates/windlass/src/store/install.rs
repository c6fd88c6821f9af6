//! What an installation consists of, by the catalog alone. Every login may read the catalog, so these work without any privilege.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::database::{Statement, query_unnamed};
use crate::error::Result;
use crate::model::doctor::catalog::CatalogObject;

pub(crate) const STATEMENTS: &[&Statement] = &[&ROLES, &CATALOG];

static ROLES: Statement = Statement {
    text: include_str!("sql/setup/roles.sql"),
    types: &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::BOOL],
};
static CATALOG: Statement = Statement { text: include_str!("sql/setup/catalog.sql"), types: &[] };

/// The roles that are missing, and what the caller may do about it.
#[derive(Debug)]
pub(crate) struct RoleFacts {
    pub(crate) login: String,
    pub(crate) database: String,
    /// PostgreSQL 16 and newer: SET and INHERIT are options of a grant, and only an administrator of a role may grant it.
    pub(crate) has_options: bool,
    pub(crate) is_superuser: bool,
    pub(crate) may_create_roles: bool,
    pub(crate) may_create_schemas: bool,
    pub(crate) has_schema: bool,
    pub(crate) missing_roles: Vec<String>,
    /// Role and member.
    pub(crate) missing_memberships: Vec<(String, String)>,
    /// The caller may become `windlass_owner`.
    pub(crate) may_own: bool,
    /// The roles that the caller administers.
    pub(crate) administers: Vec<String>,
    /// Who may grant `windlass_migrator`, besides superusers.
    pub(crate) administrators: Vec<String>,
}

pub(crate) async fn roles(
    client: &Client,
    roles: &[&str],
    memberships: &[(&str, &str, bool)],
) -> Result<RoleFacts> {
    let has_options = server_version(client).await? >= 160_000;
    let (of, members): (Vec<&str>, Vec<&str>) = memberships.iter().map(|one| (one.0, one.1)).unzip();
    let rows = query_unnamed(client, &ROLES, &[&roles, &of, &members, &has_options]).await?;
    let row = ROLES.row_of(rows)?;
    let memberships: Vec<String> = row.get("missing_memberships");
    let pairs = memberships.iter().filter_map(|pair| pair.split_once(' '));
    Ok(RoleFacts {
        login: row.get("login"),
        database: row.get("database"),
        has_options,
        is_superuser: row.get("is_superuser"),
        may_create_roles: row.get("may_create_roles"),
        may_create_schemas: row.get("may_create_schemas"),
        has_schema: row.get("has_schema"),
        missing_roles: row.get("missing_roles"),
        missing_memberships: pairs.map(|(role, member)| (role.to_owned(), member.to_owned())).collect(),
        may_own: row.get("may_own"),
        administers: row.get("administers"),
        administrators: row.get("administrators"),
    })
}

/// `server_version_num`.
pub(crate) async fn server_version(client: &Client) -> Result<i32> {
    let rows = client.query_typed("select current_setting('server_version_num')::integer", &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

pub(crate) async fn catalog(client: &Client) -> Result<Vec<CatalogObject>> {
    let rows = query_unnamed(client, &CATALOG, &[]).await?;
    let objects = rows.iter().map(|row| CatalogObject {
        kind: row.get("kind"),
        name: row.get("name"),
        object: row.get("object"),
        owner: row.get("owner"),
        state: row.get("state"),
        take: row.get("take"),
        remove: row.get("remove"),
    });
    Ok(objects.collect())
}
