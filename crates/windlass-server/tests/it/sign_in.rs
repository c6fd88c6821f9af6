//! Signing in under attack: the input is bounded, guessing is slow, and a stranger locks out no one.

use std::sync::Arc;

use serde_json::json;
use windlass_server::auth::session::{self, From};
use windlass_server::auth::{Role, Secret};
use windlass_server::http::Options;

use crate::support::TestServer;
use crate::support::people::PASSWORD;

fn from(address: &str) -> From {
    From { address: Some(address.to_owned()), ..From::default() }
}

async fn status(server: &TestServer, address: &str, email: &str, password: &str) -> u16 {
    match session::sign_in(&server.app, email, Secret::new(password), &from(address)).await {
        Ok(_) => 200,
        Err(problem) => problem.kind.status().as_u16(),
    }
}

/// Finding 18.
#[tokio::test]
async fn password_guessing_does_not_lock_out_the_owner() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "ada@example.com", "viewer").await;
    for _ in 0..10 {
        assert_eq!(status(&server, "203.0.113.9", "ada@example.com", "guess guess guess").await, 401);
    }
    assert_eq!(status(&server, "203.0.113.9", "ada@example.com", PASSWORD).await, 429, "even the right one");
    assert_eq!(
        status(&server, "198.51.100.1", "ada@example.com", PASSWORD).await,
        200,
        "the owner can sign in"
    );
    let refused =
        session::sign_in(&server.app, "ada@example.com", Secret::new("x"), &from("203.0.113.9")).await;
    assert!(refused.unwrap_err().retry_after.is_some_and(|seconds| (1..=120).contains(&seconds)));
    // A client that tries many accounts is stopped by its address.
    let mut responses = Vec::new();
    for number in 0..40 {
        responses
            .push(status(&server, "192.0.2.7", &format!("p{number}@example.com"), "guess guess guess").await);
    }
    assert_eq!(responses.iter().filter(|status| **status == 401).count(), 30);
    assert!(responses[30..].iter().all(|status| *status == 429), "{responses:?}");
    // So are invented tokens.
    let mut tokens = Vec::new();
    for _ in 0..40 {
        let made_up = Secret::new("wl_api_0000000000000000_x");
        let response = session::sign_in_with_token(&server.app, &made_up, &from("192.0.2.8")).await;
        tokens.push(response.unwrap_err().kind.status().as_u16());
    }
    assert!(tokens.contains(&429), "{tokens:?}");
}

/// Finding 6: 120 of these took 1.2 GB.
#[tokio::test]
async fn anonymous_input_is_bounded_before_it_is_stored() {
    let server = TestServer::start().await;
    let stranger = server.anonymous().with("sec-fetch-site", "same-origin");
    let long = "a".repeat(3 * 1024 * 1024);
    for field in ["email", "password", "token", "next"] {
        let response = stranger.form("/ui/sign-in", &[(field, &long)]).await;
        assert_eq!(response.status, 413, "{field}");
    }
    let long = "a".repeat(8 * 1024);
    for (email, password) in [(long.as_str(), "x"), ("ada@example.com", long.as_str()), ("no address", "x")] {
        let response = stranger.form("/ui/sign-in", &[("email", email), ("password", password)]).await;
        assert_eq!(response.status, 422);
        assert!(response.text.contains("Incorrect email"), "{}", response.text);
    }
    let admin = server.client(windlass::DEFAULT_TENANT, Role::TenantAdmin).await;
    let invitation = json!({"email": "ada@example.com", "role": "viewer"});
    let made = admin.post("/api/v1/admin/invitations", &invitation).await.expect(201);
    let link = made["link"].as_str().unwrap();
    let link = &link[link.find("/ui/").unwrap()..];
    assert_eq!(stranger.form(link, &[("name", &"a".repeat(100_000))]).await.status, 413);
    let none = format!("/ui/invitations/{}", "a".repeat(43));
    let response = stranger.form(&none, &[("name", &"a".repeat(100_000))]).await;
    assert_eq!(response.status, 404, "a request without one of our links is not read");
}

/// the client sends another address with each guess, and the proxy appends the true one.
#[tokio::test]
async fn guesses_through_a_proxy_count_for_the_address_that_the_proxy_reports() {
    let options = Options { proxies: Arc::new("127.0.0.1".parse().unwrap()), ..Options::default() };
    let server = TestServer::start_with(options).await;
    let mut responses = Vec::new();
    for number in 0..40 {
        let browser = server.anonymous().with("sec-fetch-site", "same-origin");
        let browser = browser.with("x-forwarded-for", format!("[198.51.100.{number}]\", 203.0.113.9"));
        let fields = [("email", format!("p{number}@example.com")), ("password", "guess guess".to_owned())];
        let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
        responses.push(browser.form("/ui/sign-in", &fields).await.status.as_u16());
    }
    assert_eq!(responses.iter().filter(|status| **status == 429).count(), 10, "{responses:?}");
    let audit = "select distinct from_address from windlass.audit where from_address is not null";
    let rows = server.queue.client().await.query(audit, &[]).await.unwrap();
    let addresses: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(addresses, ["203.0.113.9"]);
}
