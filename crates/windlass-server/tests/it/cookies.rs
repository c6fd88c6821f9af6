//! Over TLS the session cookie is bound to TLS and to this host; only a trusted proxy may report that a request came over TLS.

use std::sync::Arc;

use windlass_server::http::Options;

use crate::support::{Answer, Client, TestServer, secrets};

/// Signs in with the admin's token through the page, and returns the response and the cookie.
async fn sign_in(server: &TestServer, client: &Client) -> (Answer, String) {
    let token = server.admin.token.as_deref().unwrap();
    let request =
        client.request(reqwest::Method::POST, "/ui/sign-in").header("sec-fetch-site", "same-origin");
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    let response = request.body(format!("token={token}")).send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let answered = Answer { status, headers, text: response.text().await.unwrap() };
    let cookie = answered.header("set-cookie").unwrap_or_default().to_owned();
    if let Some(secret) = cookie.split(['=', ';']).nth(1) {
        secrets::issued(secret);
    }
    (answered, cookie)
}

fn name_and_value(cookie: &str) -> &str {
    cookie.split(';').next().unwrap()
}

#[tokio::test]
async fn the_cookie_is_secure_behind_a_trusted_tls_proxy() {
    let proxies = Arc::new("127.0.0.1".parse().unwrap());
    let server = TestServer::start_with(Options { proxies, ..Options::default() }).await;
    for (name, value) in [("x-forwarded-proto", "https"), ("forwarded", "for=203.0.113.9;proto=https")] {
        let proxied = server.anonymous().with(name, value);
        let (_, cookie) = sign_in(&server, &proxied).await;
        assert!(cookie.starts_with("__Host-windlass=") && cookie.ends_with("; Secure"), "{cookie}");
        let browser = proxied.with("cookie", name_and_value(&cookie));
        browser.get("/api/v1/me").await.expect(200);
        // A cookie that a request without TLS may have set is not accepted.
        let tossed = name_and_value(&cookie).replace("__Host-windlass", "windlass");
        proxied.with("cookie", tossed).get("/api/v1/me").await.problem(401, "unauthorized");
    }
    let (_, plain) = sign_in(&server, &server.anonymous()).await;
    assert!(plain.starts_with("windlass=") && !plain.contains("Secure"), "plain HTTP still works: {plain}");
    server.anonymous().with("cookie", name_and_value(&plain)).get("/api/v1/me").await.expect(200);
}

/// Not only the session cookie: also those of the flash message and of the theme.
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
async fn an_untrusted_proxy_cannot_claim_tls() {
    let server = TestServer::start().await;
    let (_, cookie) = sign_in(&server, &server.anonymous().with("x-forwarded-proto", "https")).await;
    assert!(cookie.starts_with("windlass="), "{cookie}");
}
