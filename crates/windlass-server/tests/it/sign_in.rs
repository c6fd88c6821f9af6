//! Signing in under attack: what is typed is bounded, guessing is slow, and nobody is kept out by a stranger.

use serde_json::json;
use windlass_server::auth::session::{self, From};
use windlass_server::auth::{Role, Secret};

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
async fn a_stranger_who_guesses_does_not_keep_the_owner_out() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "ada@example.com", "viewer").await;
    for _ in 0..10 {
        assert_eq!(status(&server, "203.0.113.9", "ada@example.com", "guess guess guess").await, 401);
    }
    assert_eq!(status(&server, "203.0.113.9", "ada@example.com", PASSWORD).await, 429, "even the right one");
    assert_eq!(status(&server, "198.51.100.1", "ada@example.com", PASSWORD).await, 200, "the owner comes in");
    let refused =
        session::sign_in(&server.app, "ada@example.com", Secret::new("x"), &from("203.0.113.9")).await;
    assert!(refused.unwrap_err().retry_after.is_some_and(|seconds| (1..=120).contains(&seconds)));
    // Whoever goes from account to account is stopped by their address.
    let mut answers = Vec::new();
    for number in 0..40 {
        answers
            .push(status(&server, "192.0.2.7", &format!("p{number}@example.com"), "guess guess guess").await);
    }
    assert_eq!(answers.iter().filter(|status| **status == 401).count(), 30);
    assert!(answers[30..].iter().all(|status| *status == 429), "{answers:?}");
    // So are tokens that are made up.
    let mut tokens = Vec::new();
    for _ in 0..40 {
        let made_up = Secret::new("wl_api_0000000000000000_x");
        let answer = session::sign_in_with_token(&server.app, &made_up, &from("192.0.2.8")).await;
        tokens.push(answer.unwrap_err().kind.status().as_u16());
    }
    assert!(tokens.contains(&429), "{tokens:?}");
}

/// Finding 6: 120 of these took 1.2 GB.
#[tokio::test]
async fn what_a_stranger_types_is_bounded_before_it_is_kept() {
    let server = TestServer::start().await;
    let stranger = server.anonymous().with("sec-fetch-site", "same-origin");
    let long = "a".repeat(3 * 1024 * 1024);
    for field in ["email", "password", "token", "next"] {
        let answer = stranger.form("/ui/sign-in", &[(field, &long)]).await;
        assert_eq!(answer.status, 413, "{field}");
    }
    let long = "a".repeat(8 * 1024);
    for (email, password) in [(long.as_str(), "x"), ("ada@example.com", long.as_str()), ("no address", "x")] {
        let answer = stranger.form("/ui/sign-in", &[("email", email), ("password", password)]).await;
        assert_eq!(answer.status, 422);
        assert!(answer.text.contains("Incorrect email"), "{}", answer.text);
    }
    let admin = server.client(windlass::DEFAULT_TENANT, Role::TenantAdmin).await;
    let invitation = json!({"email": "ada@example.com", "role": "viewer"});
    let made = admin.post("/api/v1/admin/invitations", &invitation).await.expect(201);
    let link = made["link"].as_str().unwrap();
    let link = &link[link.find("/ui/").unwrap()..];
    assert_eq!(stranger.form(link, &[("name", &"a".repeat(100_000))]).await.status, 413);
    let none = format!("/ui/invitations/{}", "a".repeat(43));
    let answer = stranger.form(&none, &[("name", &"a".repeat(100_000))]).await;
    assert_eq!(answer.status, 404, "what comes with no link of ours is not read");
}
