//! People of a test: accounts, memberships, and signed-in browsers.

use tokio::sync::OnceCell;
use uuid::Uuid;
use windlass_server::auth::session::{self, From};
use windlass_server::auth::{Secret, hash_password};

use super::{Client, TestServer, secrets};

/// The password of everyone here.
pub(crate) const PASSWORD: &str = "correct horse battery";

static HASH: OnceCell<String> = OnceCell::const_new();

impl TestServer {
    /// An account that is a member of a tenant, as if it had accepted an invitation. Returns its id.
    pub(crate) async fn member(&self, tenant: Uuid, email: &str, role: &str) -> Uuid {
        secrets::issued(PASSWORD);
        let hash = HASH.get_or_init(async || hash_password(Secret::new(PASSWORD)).await.unwrap()).await;
        let account = "insert into windlass.users (email, password_hash) values (lower($1), $2)
            on conflict (email) do update set updated_at = now() returning id";
        let database = self.queue.client().await;
        let id: Uuid = database.query_one(account, &[&email, hash]).await.unwrap().get(0);
        let member = "insert into windlass.members (tenant_id, user_id, role) values ($1, $2, $3)";
        database.execute(member, &[&tenant, &id, &role]).await.unwrap();
        id
    }

    /// A browser with a session, with one of our pages open.
    pub(crate) async fn browser(&self, email: &str) -> Client {
        self.browser_with(email, PASSWORD).await
    }

    pub(crate) async fn browser_with(&self, email: &str, password: &str) -> Client {
        let cookie =
            session::sign_in(&self.app, email, Secret::new(password), &From::default()).await.unwrap();
        self.cookie_browser(cookie.to_str().unwrap())
    }

    /// The same with the cookie that a response sets.
    pub(crate) fn cookie_browser(&self, cookie: &str) -> Client {
        let cookie = cookie.split(';').next().unwrap();
        self.anonymous().with("cookie", cookie).with("sec-fetch-site", "same-origin")
    }
}
