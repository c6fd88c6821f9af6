//! Every form of every page names the tenant that it was rendered for, and is rejected if that is not the current one.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::json;
use windlass_server::auth::{Permission, Role};
use windlass_server::http::{Audience, Route, table};

use super::state::State;
use super::world::Ids;
use crate::support::TestServer;

/// Addresses whose response is not a page.
const NO_PAGES: [&str; 5] = [
    "/ui/live",
    "/ui/jobs/{job_id}/log",
    "/ui/jobs/{job_id}/payload",
    "/ui/jobs/{job_id}/result",
    "/ui/tenants/find",
];

fn guarded(method: &Method) -> Vec<Route> {
    let is_guarded = |route: &Route| {
        route.audience == Audience::People
            && route.permission != Permission::Anyone
            && route.method == *method
    };
    table().into_iter().filter(is_guarded).collect()
}

/// The action and the inside of each form of a page that changes something.
fn forms(page: &str, path: &str) -> Vec<(String, String)> {
    let posts = page.split("<form").skip(1).filter_map(|rest| {
        let (tag, inside) = rest.split_once('>')?;
        let inside = inside.split("</form>").next()?;
        let action = tag.split("action=\"").nth(1).map_or(path, |rest| rest.split('"').next().unwrap());
        tag.contains("method=\"post\"").then(|| (action.to_owned(), inside.to_owned()))
    });
    posts.collect()
}

/// The route that an address belongs to.
fn route_of<'a>(routes: &'a [Route], address: &str) -> Option<&'a Route> {
    let matches = |path: &str| {
        let (parts, given) = (path.split('/').collect::<Vec<_>>(), address.split('/').collect::<Vec<_>>());
        parts.len() == given.len()
            && parts.iter().zip(given).all(|(part, one)| part.starts_with('{') || *part == one)
    };
    let exact = routes.iter().find(|route| route.path == address);
    exact.or_else(|| routes.iter().find(|route| matches(route.path)))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_every_page_names_its_tenant_and_acts_for_no_other() {
    let server = TestServer::start().await;
    for key in ["a", "claimed"] {
        server
            .admin
            .post("/api/v1/admin/jobs/definitions", &json!({"key": key, "max_attempts": 1}))
            .await
            .expect(201);
    }
    let (mine, theirs) = (server.queue.tenant("mine").await, server.queue.tenant("theirs").await);
    let ids = Ids::of(&server, mine).await;
    // A dead letter, for its form.
    let fail = json!({"fence": ids.get("fence"), "error": "e"});
    let worker = server.client(mine, Role::Worker).await;
    worker.post(&format!("/api/v1/worker/jobs/{}/fail", ids.get("claimed_id")), &fail).await.expect(200);
    // A super-admin who is a person, so that every page has its form.
    let root = server.member(mine, "root@example.com", "tenant_admin").await;
    let database = server.queue.client().await;
    let raise = "update windlass.users set is_super_admin = true where id = $1";
    database.execute(raise, &[&root]).await.unwrap();
    let browser = server.browser("root@example.com").await;
    assert_eq!(browser.form("/ui/tenant", &[("tenant", &mine.to_string())]).await.status, 303);

    let field = format!("<input type=\"hidden\" name=\"acting_for\" value=\"{mine}\">");
    let posts = guarded(&Method::POST);
    let mut seen = BTreeSet::new();
    for route in guarded(&Method::GET).iter().filter(|route| !NO_PAGES.contains(&route.path)) {
        if route.path == "/ui/components" {
            continue;
        }
        let path = ids.path(route);
        let path = if path == "/ui/jobs/new" { format!("{path}?definition=a") } else { path };
        let page = browser.get(&path).await;
        let page = page.expect_text(200);
        for (action, inside) in forms(page, path.split('?').next().unwrap()) {
            assert!(inside.contains(&field), "a form of {path} for {action} names no tenant");
            seen.extend(route_of(&posts, &action).map(|route| route.path));
        }
    }
    let every: BTreeSet<&str> = posts.iter().map(|route| route.path).collect();
    assert_eq!(seen, every, "every form was found");

    // Regardless of its fields, a form does nothing for any tenant but the one it was rendered for.
    let before = State::of(&database, theirs).await;
    for route in &posts {
        let path = ids.path(route);
        let other = theirs.to_string();
        for fields in [
            vec![
                ("acting_for", other.as_str()),
                ("do", "save"),
                ("act", "cancel"),
                ("id", ids.get("job_id")),
            ],
            vec![("do", "save"), ("cancel", ids.get("job_id")), ("remove", ids.get("user_id"))],
            vec![("acting_for", ""), ("acting_for", &mine.to_string())],
        ] {
            let response = browser.form(&path, &fields).await;
            assert_eq!(response.status, 409, "{path}: {}", response.text);
            assert!(response.text.contains("othing was changed"), "{path}: {}", response.text);
        }
    }
    assert_eq!(State::of(&database, theirs).await, before, "nothing changed");
}

/// Finding 16: two tabs, and a membership that ended.
#[tokio::test]
async fn a_stale_page_changes_nothing() {
    let server = TestServer::start().await;
    let (a, b) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    let user = server.member(a, "ada@example.com", "tenant_admin").await;
    server.member(b, "ada@example.com", "tenant_admin").await;
    let ada = server.browser("ada@example.com").await;
    let (of_a, of_b) = (a.to_string(), b.to_string());
    let make = async |tenant: &str| {
        ada.form("/ui/tokens/new", &[("acting_for", tenant), ("name", "t"), ("role", "viewer")]).await
    };
    let database = server.queue.client().await;
    let tokens = async |tenant: uuid::Uuid| -> i64 {
        let query =
            "select count(*) from windlass.api_tokens where tenant_id = $1 and created_by like 'user:%'";
        database.query_one(query, &[&tenant]).await.unwrap().get(0)
    };
    make(&of_a).await.expect_text(200);
    assert_eq!((tokens(a).await, tokens(b).await), (1, 0));
    // In another tab they now use B.
    assert_eq!(ada.form("/ui/tenant", &[("tenant", &of_b)]).await.status, 303);
    assert_eq!(make(&of_a).await.status, 409);
    assert_eq!((tokens(a).await, tokens(b).await), (1, 0));
    // B removes them: no other tenant replaces it, neither for pages nor for the API.
    let remove = server.client(b, Role::TenantAdmin).await;
    remove.delete(&format!("/api/v1/admin/members/{user}")).await.expect(200);
    for tenant in [&of_a, &of_b] {
        assert_eq!(make(tenant).await.status, 403);
    }
    assert_eq!((tokens(a).await, tokens(b).await), (1, 0));
    ada.get("/api/v1/jobs").await.problem(403, "forbidden");
    let choice = ada.get("/ui/tenant").await;
    assert!(choice.expect_text(200).contains("no longer a member of the selected tenant"), "{}", choice.text);
    assert_eq!(ada.form("/ui/tenant", &[("tenant", &of_b)]).await.status, 403);
    assert_eq!(ada.form("/ui/tenant", &[("tenant", &of_a)]).await.status, 303);
    make(&of_a).await.expect_text(200);
    // A person who is a member of no tenant can still sign in, and gets a message.
    let remove = server.client(a, Role::TenantAdmin).await;
    remove.delete(&format!("/api/v1/admin/members/{user}")).await.expect(200);
    let again = server.browser("ada@example.com").await;
    assert_eq!(again.get("/ui/jobs").await.header("location"), Some("/ui/tenant"));
    assert!(again.get("/ui/tenant").await.expect_text(200).contains("not a member of any tenant"));
}
