//! No one creates, changes or revokes a credential or a role that exceeds their own: every kind of caller tries every way on
//! every target, and the resulting rows of the database are compared with the caller's permissions and tenants.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio_postgres::Client as Database;
use uuid::Uuid;
use windlass::admin::INSTALLATION;
use windlass_server::auth::{Permission, Role};
use windlass_testing::sample;

use crate::cli::{Ran, windlass};
use crate::support::{Client, TestServer};

const TOKENS: &str = "/api/v1/admin/tokens";
const MEMBERS: [Role; 3] = [Role::Viewer, Role::Operator, Role::TenantAdmin];

/// The permissions and tenant of a credential, a membership or an invitation.
#[derive(Debug, Clone)]
struct Reach {
    role: Role,
    scopes: Option<Vec<String>>,
    tenant: Uuid,
}

impl Reach {
    fn permissions(&self) -> BTreeSet<&'static str> {
        let named =
            |scope: &str| self.scopes.as_ref().is_none_or(|scopes| scopes.iter().any(|one| one == scope));
        let of_role = Permission::ALL.into_iter().skip(2).filter(|permission| self.role.may(*permission));
        of_role.map(Permission::as_str).filter(|scope| named(scope)).collect()
    }

    fn may(&self, scope: &str) -> bool {
        self.permissions().contains(scope)
    }

    /// Whether all of it is within the caller's own. A tenant administrator creates worker tokens without being a worker.
    fn is_within(&self, caller: &Self) -> bool {
        let mut own = caller.permissions();
        if caller.role == Role::TenantAdmin && caller.scopes.is_none() {
            own.insert("work");
        }
        self.permissions().is_subset(&own)
            && (caller.role == Role::SuperAdmin
                || (self.role != Role::SuperAdmin && self.tenant == caller.tenant))
    }
}

impl Reach {
    /// The id of a new token with these permissions.
    async fn token(&self, server: &TestServer) -> String {
        let held: Option<Vec<&str>> =
            self.scopes.as_ref().map(|scopes| scopes.iter().map(String::as_str).collect());
        let client = server.scoped_client(self.tenant, self.role, held.as_deref()).await;
        client.token.unwrap().split('_').nth(2).unwrap().to_owned()
    }
}

/// A caller that tries.
struct Tries {
    reach: Reach,
    client: Client,
    number: usize,
}

/// The accounts whose passwords it tries to reset.
const ACCOUNTS: [&str; 6] = [
    "viewer@example.com",
    "operator@example.com",
    "tenant_admin@example.com",
    "both@example.com",
    "root@example.com",
    "theirs@example.com",
];

fn scopes(of: &[&str]) -> Option<Vec<String>> {
    Some(of.iter().map(ToString::to_string).collect())
}

/// Every role with all its permissions, and callers with management permissions but fewer scopes.
async fn callers(server: &TestServer, tenant: Uuid) -> Vec<Tries> {
    let mut reaches: Vec<Reach> =
        Role::ALL.into_iter().map(|role| Reach { role, scopes: None, tenant }).collect();
    let reads = ["members:manage", "tokens:manage", "jobs:read", "triggers:read", "events:read"];
    let fewer: [&[&str]; 5] =
        [&[], &["tokens:manage"], &["members:manage"], &["tokens:manage", "members:manage"], &reads];
    for role in [Role::TenantAdmin, Role::SuperAdmin] {
        reaches.extend(fewer.iter().map(|held| Reach { role, scopes: scopes(held), tenant }));
    }
    let mut callers = Vec::new();
    for reach in reaches {
        let held: Option<Vec<&str>> =
            reach.scopes.as_ref().map(|scopes| scopes.iter().map(String::as_str).collect());
        let client = server.scoped_client(tenant, reach.role, held.as_deref()).await;
        callers.push((reach, client.with("sec-fetch-site", "same-origin")));
    }
    for role in MEMBERS {
        let email = format!("caller-{role}@example.com");
        server.member(tenant, &email, role.as_str()).await;
        callers.push((Reach { role, scopes: None, tenant }, server.browser(&email).await));
    }
    let numbered = callers.into_iter().enumerate();
    numbered
        .map(|(number, (reach, client))| Tries { reach, client: client.with("x-tenant-id", tenant), number })
        .collect()
}

/// The scopes that are requested for a token of this role.
fn asked_scopes(role: Role, caller: &Reach) -> Vec<Option<Vec<String>>> {
    let whole = Reach { role, scopes: None, tenant: INSTALLATION }.permissions();
    let mut asked = vec![None, Some(Vec::new()), caller.scopes.clone()];
    asked.extend(whole.iter().map(|scope| scopes(&[scope])));
    asked.push(Some(whole.into_iter().map(str::to_owned).collect()));
    asked
}

impl Tries {
    /// The callers of the attack try everything, the others a part that a random seed selects.
    fn part<T>(&self, all: Vec<T>, most: usize) -> Vec<T> {
        let scopes = self.reach.scopes.as_deref().map(<[String]>::len);
        let is_attacker = self.reach.role == Role::TenantAdmin
            && self.reach.may("tokens:manage")
            && scopes.is_none_or(|n| n == 1);
        if is_attacker { all } else { sample(all, most) }
    }

    async fn to_make_tokens(&self) {
        let own = &self.reach;
        for role in Role::ALL {
            let tenant = if role == Role::SuperAdmin { INSTALLATION } else { own.tenant };
            for asked in self.part(asked_scopes(role, own), 4) {
                let wanted = Reach { role, scopes: asked.clone(), tenant };
                let body = json!({"name": "t", "role": role.as_str(), "scopes": asked});
                let is_made = self.client.post(TOKENS, &body).await.status == 201;
                let is_known = asked.iter().flatten().all(|scope| wanted.may(scope));
                let may = own.may("tokens:manage")
                    && is_known
                    && (own.scopes.is_none() || asked.is_some())
                    && wanted.is_within(own);
                assert_eq!(is_made, may, "{own:?} creates {body}");
            }
            let fields = [("acting_for", own.tenant.to_string()), ("name", "t".to_owned())];
            let mut fields: Vec<(&str, &str)> =
                fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            fields.push(("role", role.as_str()));
            self.client.form("/ui/tokens/new", &fields).await;
        }
    }

    /// Tokens of the caller's tenant, of another one, and of the installation.
    fn targets(&self, tenants: [Uuid; 3]) -> Vec<Reach> {
        let mut targets = Vec::new();
        for tenant in tenants {
            for role in self.part(Role::ALL.to_vec(), 2) {
                let is_possible =
                    role == Role::Worker || (tenant == INSTALLATION) == (role == Role::SuperAdmin);
                let whole = Reach { role, scopes: None, tenant };
                let limited = Reach { scopes: scopes(&["tokens:manage"]), ..whole.clone() };
                let is_known = whole.may("tokens:manage");
                targets.extend([(whole, is_possible), (limited, is_possible && is_known)]);
            }
        }
        targets.into_iter().filter(|(_, is_possible)| *is_possible).map(|(target, _)| target).collect()
    }

    async fn to_rotate_tokens(&self, server: &TestServer, tenants: [Uuid; 3]) {
        for target in self.targets(tenants) {
            let id = target.token(server).await;
            let response = self.client.post(&format!("{TOKENS}/{id}/rotate"), &json!({})).await;
            let is_rotated = response.status == 201;
            assert!(!is_rotated || target.is_within(&self.reach), "{:?} rotates {target:?}", self.reach);
        }
    }

    async fn to_revoke_tokens(&self, server: &TestServer, database: &Database, tenants: [Uuid; 3]) {
        let read = "select revoked_at is not null from windlass.api_tokens where id = $1";
        let own = &self.reach;
        for target in self.targets(tenants) {
            for by_form in [false, true] {
                let id = target.token(server).await;
                if by_form {
                    let (tenant, of) = (own.tenant.to_string(), target.tenant.to_string());
                    let fields = [("acting_for", tenant.as_str()), ("of", &of), ("revoke", &id)];
                    self.client.form("/ui/tokens", &fields).await;
                } else {
                    self.client.delete(&format!("{TOKENS}/{id}")).await;
                }
                let is_revoked: bool = database.query_one(read, &[&id]).await.unwrap().get(0);
                let may = own.may("tokens:manage") && target.is_within(own);
                assert!(may || !is_revoked, "{own:?} revokes {target:?}, by form: {by_form}");
                // A super-admin that names a tenant acts on the tokens of that tenant.
                assert!(
                    !may || is_revoked || target.tenant != own.tenant,
                    "{own:?} cannot revoke {target:?}"
                );
            }
        }
    }

    async fn to_invite(&self) {
        for role in ["viewer", "operator", "tenant_admin", "worker", "super_admin"] {
            let email = |way: &str| format!("{way}-{role}-{}@example.com", self.number);
            let body = json!({"email": email("api"), "role": role});
            self.client.post("/api/v1/admin/invitations", &body).await;
            let (tenant, email) = (self.reach.tenant.to_string(), email("ui"));
            let fields = [("acting_for", tenant.as_str()), ("email", &email), ("role", role)];
            self.client.form("/ui/members/new", &fields).await;
        }
    }

    /// Changing or removing a member also takes away their previous role.
    async fn to_change_members(&self, database: &Database, tenant: Uuid, user: Uuid) {
        let set = "insert into windlass.members (tenant_id, user_id, role) values ($1, $2, $3)
            on conflict (tenant_id, user_id) do update set role = excluded.role";
        let read = "select role from windlass.members where tenant_id = $1 and user_id = $2";
        let of = |role: Role| Reach { role, scopes: None, tenant };
        let (path, acting, member) =
            (format!("/api/v1/admin/members/{user}"), self.reach.tenant.to_string(), user.to_string());
        let ways = ["api", "ui"].into_iter().flat_map(|way| {
            let changed = Role::ALL.into_iter().map(Some);
            changed.chain([None]).map(move |new| (way, new))
        });
        let ways: Vec<_> = ways.collect();
        for old in MEMBERS {
            for (way, new) in self.part(ways.clone(), 4) {
                database.execute(set, &[&tenant, &user, &old.as_str()]).await.unwrap();
                let fields = [("acting_for", acting.as_str())];
                match (way, new) {
                    ("api", Some(new)) => {
                        self.client.patch(&path, &json!({"role": new.as_str()})).await;
                    }
                    ("api", None) => {
                        self.client.delete(&path).await;
                    }
                    (_, Some(new)) => {
                        let fields = [fields[0], ("user", &member), ("role", new.as_str())];
                        self.client.form("/ui/members", &fields).await;
                    }
                    (_, None) => {
                        self.client.form("/ui/members", &[fields[0], ("remove", &member)]).await;
                    }
                }
                let row = database.query_opt(read, &[&tenant, &user]).await.unwrap();
                let is: Option<Role> = row.map(|row| row.get::<_, &str>(0).parse().unwrap());
                let both = std::iter::once(old).chain(is);
                let is_within = both.into_iter().all(|role| of(role).is_within(&self.reach));
                assert!(is == Some(old) || is_within, "{:?} changes {old} to {is:?} by {way}", self.reach);
            }
        }
    }

    async fn to_reset_passwords(&self) {
        let tenant = self.reach.tenant.to_string();
        for email in ACCOUNTS {
            self.client.post("/api/v1/admin/password-resets", &json!({"email": email})).await;
            let fields = [("acting_for", tenant.as_str()), ("reset", email)];
            self.client.form("/ui/members", &fields).await;
        }
    }
}

/// Everything that this caller created.
async fn made_by(database: &Database, name: &str) -> Vec<(String, Reach)> {
    let made = "select 'token', t.tenant_id, t.role, t.scopes from windlass.api_tokens t where t.created_by = $1
        union all select 'invitation', i.tenant_id, i.role, null from windlass.invitations i where i.created_by = $1
        union all select 'reset', m.tenant_id, m.role, null
          from windlass.password_resets r join windlass.members m using (user_id) where r.created_by = $1
        union all select 'reset', $2, 'super_admin', null
          from windlass.password_resets r join windlass.users u on u.id = r.user_id and u.is_super_admin where r.created_by = $1";
    let rows = database.query(made, &[&name, &INSTALLATION]).await.unwrap();
    let reach = |row: &tokio_postgres::Row| Reach {
        role: row.get::<_, &str>(2).parse().unwrap(),
        scopes: row.get(3),
        tenant: row.get(1),
    };
    rows.iter().map(|row| (row.get(0), reach(row))).collect()
}

/// C1: a tenant administrator created a super-admin with its own scopes.
#[tokio::test]
async fn no_grant_exceeds_the_permissions_of_its_grantor() {
    let server = TestServer::start().await;
    let database = server.queue.client().await;
    let (own, other) = (server.queue.tenant("own").await, server.queue.tenant("other").await);
    for (tenant, email, role) in [
        (own, ACCOUNTS[0], "viewer"),
        (own, ACCOUNTS[1], "operator"),
        (own, ACCOUNTS[2], "tenant_admin"),
        (own, ACCOUNTS[3], "viewer"),
        (other, ACCOUNTS[3], "viewer"),
        (own, ACCOUNTS[4], "viewer"),
        (other, ACCOUNTS[5], "viewer"),
    ] {
        server.member(tenant, email, role).await;
    }
    let root = "update windlass.users set is_super_admin = true where email = 'root@example.com'";
    database.batch_execute(root).await.unwrap();
    let changed = server.member(own, "changed@example.com", "viewer").await;
    let theirs = server.member(other, "changed-elsewhere@example.com", "viewer").await;

    let mut kinds = BTreeSet::new();
    for caller in callers(&server, own).await {
        caller.to_make_tokens().await;
        caller.to_rotate_tokens(&server, [own, other, INSTALLATION]).await;
        caller.to_revoke_tokens(&server, &database, [own, other, INSTALLATION]).await;
        caller.to_invite().await;
        caller.to_change_members(&database, own, changed).await;
        caller.to_change_members(&database, other, theirs).await;
        caller.to_reset_passwords().await;
        let name = caller.client.get("/api/v1/me").await.expect(200)["name"].as_str().unwrap().to_owned();
        for (kind, made) in made_by(&database, &name).await {
            assert!(made.is_within(&caller.reach), "{:?} created the {kind} {made:?}", caller.reach);
            kinds.insert(kind);
        }
    }
    assert_eq!(kinds, BTreeSet::from(["invitation", "reset", "token"].map(str::to_owned)), "each was tried");
}

/// The command line calls the same API with the same token.
#[tokio::test]
async fn the_command_line_grants_no_more_than_its_token_allows() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let root = server.client(tenant, Role::SuperAdmin).await.token.unwrap();
    let root = root.split('_').nth(2).unwrap();
    let admin = server.client(tenant, Role::TenantAdmin).await.token.unwrap();
    let create = ["tokens", "create", "x", "--role", "super_admin"];
    let scoped = [&create[..], &["--scope", "tokens:manage"]].concat();
    for arguments in [&create[..], &scoped, &["tokens", "rotate", root]] {
        let mut command = windlass(arguments);
        command.args(["--server", &server.base]).env("WINDLASS_TOKEN", &admin);
        let ran = Ran::of(command.output().await.unwrap());
        assert!(ran.code != 0 && ran.out.is_empty(), "{ran:?}");
    }
    let shown: Value = server.admin.get(TOKENS).await.expect(200);
    let made = shown["tokens"].as_array().unwrap().iter().filter(|token| token["role"] == "super_admin");
    assert_eq!(made.count(), 2, "the server's own and the one above");
}

/// what a route changes, it shows only to those who may read it.
#[tokio::test]
async fn a_token_that_may_only_write_reads_nothing() {
    let server = TestServer::start().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    let tenant = windlass::DEFAULT_TENANT;
    let payload = json!({"definition_key": "a", "payload": {"customer": "private"}});
    let job =
        server.admin.post("/api/v1/jobs", &payload).await.expect(201)["id"].as_str().unwrap().to_owned();
    let writer = server.scoped_client(tenant, Role::Operator, Some(&["jobs:write"])).await;
    for verb in ["cancel", "retry"] {
        let shown = writer.post(&format!("/api/v1/jobs/{job}/{verb}"), &json!({})).await.expect(200);
        assert_eq!(shown.as_object().unwrap().keys().collect::<Vec<_>>(), ["id", "status"], "{verb}");
    }
    let copy = writer.get(&format!("/ui/jobs/new?from={job}")).await;
    assert!(copy.status == 403 && !copy.text.contains("private"), "{}", copy.text);

    let trigger = json!({"label": "l", "trigger_type": "event", "event_name": "x.y", "definition_key": "a",
        "payload_template": {"customer": "private"}});
    let made = server.admin.post("/api/v1/jobs/triggers", &trigger).await.expect(201);
    let path = format!("/api/v1/jobs/triggers/{}", made["id"].as_str().unwrap());
    let writer = server.scoped_client(tenant, Role::TenantAdmin, Some(&["triggers:write"])).await;
    let shown = writer.patch(&path, &json!({})).await.expect(200);
    assert_eq!(shown.as_object().unwrap().keys().collect::<Vec<_>>(), ["id", "generation"]);
}

/// the list of tenants needs the permission, not only the role.
#[tokio::test]
async fn a_super_admins_token_without_the_scope_sees_no_tenants() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("hidden-tenant").await;
    for scopes in [&[][..], &["jobs:read"]] {
        let client = server.scoped_client(windlass::DEFAULT_TENANT, Role::SuperAdmin, Some(scopes)).await;
        let token = client.token.clone().unwrap();
        let signed_in = server.anonymous().with("sec-fetch-site", "same-origin");
        let answer = signed_in.form("/ui/sign-in", &[("token", token.as_str())]).await;
        let cookie = answer.headers["set-cookie"].to_str().unwrap().to_owned();
        let browser = server.cookie_browser(&cookie);
        let page = browser.get("/ui/account").await;
        assert!(!page.text.contains(&tenant.to_string()), "{}", page.text);
        let chosen = browser.form("/ui/tenant", &[("tenant", &tenant.to_string())]).await;
        assert_eq!(chosen.status, 403);
    }
}
