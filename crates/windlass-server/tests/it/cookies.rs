//! Over TLS the session's cookie is bound to it and to this host; whether a request came over TLS, only a trusted proxy may say.

use std::sync::Arc;

use windlass_server::http::Options;

use crate::support::{Answer, Client, TestServer, secrets};

/// Signs in with the admin's token through the page, and answers with what was answered and the cookie.
async fn sign_in(server: &TestServer, client: &Client) -> (Answer, String) {
    let token = server.admin.token.as_deref().unwrap();
    let request =
        client.request(reqwest::Method::POST, "/ui/sign-in").header("sec-fetch-site", "same-origin");
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    let response = request.body(format!("token={token}")).send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let answer = Answer { status, headers, text: response.text().await.unwrap() };
    let cookie = answer.header("set-cookie").unwrap_or_default().to_owned();
    if let Some(secret) = cookie.split(['=', ';']).nth(1) {
        secrets::issued(secret);
    }
    (answer, cookie)
}

fn name_and_value(cookie: &str) -> &str {
    cookie.split(';').next().unwrap()
}

#[tokio::test]
async fn behind_a_trusted_proxy_that_speaks_tls_the_cookie_is_secure() {
    let proxies = Arc::new("127.0.0.1".parse().unwrap());
    let server = TestServer::start_with(Options { proxies, ..Options::default() }).await;
    for (name, value) in [("x-forwarded-proto", "https"), ("forwarded", "for=203.0.113.9;proto=https")] {
        let proxied = server.anonymous().with(name, value);
        let (_, cookie) = sign_in(&server, &proxied).await;
        assert!(cookie.starts_with("__Host-windlass=") && cookie.ends_with("; Secure"), "{cookie}");
        let browser = proxied.with("cookie", name_and_value(&cookie));
        browser.get("/api/v1/me").await.expect(200);
        // A cookie that anything but TLS may have set is not taken for one of ours.
        let tossed = name_and_value(&cookie).replace("__Host-windlass", "windlass");
        proxied.with("cookie", tossed).get("/api/v1/me").await.problem(401, "unauthorized");
    }
    let (_, plain) = sign_in(&server, &server.anonymous()).await;
    assert!(
        plain.starts_with("windlass=") && !plain.contains("Secure"),
        "plain HTTP goes on working: {plain}"
    );
    server.anonymous().with("cookie", name_and_value(&plain)).get("/api/v1/me").await.expect(200);
}

/// Not only the session's: also what says what was done, and how the pages look.
#[tokio::test]
async fn every_cookie_of_a_request_over_tls_is_secure() {
    let proxies = Arc::new("127.0.0.1".parse().unwrap());
    let server = TestServer::start_with(Options { proxies, ..Options::default() }).await;
    for (method, path, name) in [
        (reqwest::Method::POST, "/ui/theme", "windlass_theme="),
        (reqwest::Method::GET, "/ui/sign-in", "windlass_flash="),
        (reqwest::Method::GET, "/ui/no/such/page", ""),
    ] {
        for (client, is_tls) in
            [(server.anonymous(), false), (server.anonymous().with("x-forwarded-proto", "https"), true)]
        {
            let request = client.request(method.clone(), path).header("sec-fetch-site", "same-origin");
            let headers = request.send().await.unwrap().headers().clone();
            let cookies: Vec<&str> =
                headers.get_all("set-cookie").iter().map(|cookie| cookie.to_str().unwrap()).collect();
            assert!(
                name.is_empty() || cookies.iter().any(|cookie| cookie.starts_with(name)),
                "{path}: {cookies:?}"
            );
            assert!(
                cookies.iter().all(|cookie| cookie.ends_with("; Secure") == is_tls),
                "{path}: {cookies:?}"
            );
        }
    }
}

#[tokio::test]
async fn nobody_else_is_believed_to_have_spoken_tls() {
    let server = TestServer::start().await;
    let (_, cookie) = sign_in(&server, &server.anonymous().with("x-forwarded-proto", "https")).await;
    assert!(cookie.starts_with("windlass="), "{cookie}");
}
