//! Which callers are accepted and which are not: forged tokens, sessions, other sites' pages.

mod keys;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::{Value, json};
use windlass_server::auth::session::{self, From};
use windlass_server::auth::{JwtKeys, JwtSettings, Secret, create_admin_token};
use windlass_server::http::{Options, table};

use crate::support::{Client, TestServer};
use keys::PublishedKeys;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn settings() -> JwtSettings {
    JwtSettings {
        keys: JwtKeys::Secret(Secret::new(SECRET)),
        issuer: "https://issuer.test".to_owned(),
        audience: "windlass".to_owned(),
        tenant_claim: "app_metadata.tenant_id".to_owned(),
        role_claim: "app_metadata.role".to_owned(),
    }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn claims(tenant: uuid::Uuid) -> Value {
    json!({"iss": "https://issuer.test", "aud": "windlass", "sub": "1b671a64-40d5-491e-99b0-da01ff1f3341", "exp": now() + 600,
        "app_metadata": {"tenant_id": tenant, "role": "operator"}})
}

fn sign(header: &Header, claims: &Value, secret: &str) -> String {
    encode(header, claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap()
}

/// Built by hand: no library would create it.
fn raw(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{signature}", part(header), part(claims))
}

#[tokio::test]
async fn a_jwt_of_the_trusted_issuer_is_a_caller_with_the_claimed_tenant_and_role() {
    let server = TestServer::start_with(Options { jwt: Some(settings()), ..Options::default() }).await;
    let tenant = server.queue.tenant("a").await;
    let token = sign(&Header::new(Algorithm::HS256), &claims(tenant), SECRET);
    let me = Client::new(&server.base, Some(token)).get("/api/v1/me").await.expect(200);
    assert_eq!((&me["role"], &me["tenant_id"]), (&json!("operator"), &json!(tenant)));
    assert_eq!(me["name"], "jwt:1b671a64-40d5-491e-99b0-da01ff1f3341");
}

/// M2: a JWT of twenty seconds created a token that never expired.
#[tokio::test]
async fn a_jwt_creates_no_token_that_outlives_it() {
    let server = TestServer::start_with(Options { jwt: Some(settings()), ..Options::default() }).await;
    let tenant = server.queue.tenant("a").await;
    let mut claims = claims(tenant);
    claims["app_metadata"]["role"] = json!("tenant_admin");
    let jwt = Client::new(&server.base, Some(sign(&Header::new(Algorithm::HS256), &claims, SECRET)));
    let path = "/api/v1/admin/tokens";
    let body = json!({"name": "x", "role": "viewer"});
    let problem = jwt.post(path, &body).await.problem(422, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/expires_at");
    let at = |seconds: i64| jiff::Timestamp::from_second(claims["exp"].as_i64().unwrap() + seconds).unwrap();
    let until = |at: jiff::Timestamp| json!({"name": "x", "role": "viewer", "expires_at": at.to_string()});
    jwt.post(path, &until(at(1))).await.problem(422, "invalid");
    jwt.post(path, &until(at(0))).await.expect(201);
    // Rotating an existing one does not prolong it either.
    let admin = server.client(tenant, windlass_server::auth::Role::TenantAdmin).await;
    let lasting = admin.post(path, &body).await.expect(201);
    let rotate = format!("{path}/{}/rotate", lasting["id"].as_str().unwrap());
    jwt.post(&rotate, &json!({})).await.problem(422, "invalid");
}

#[tokio::test]
async fn forged_and_expired_jwts_are_rejected() {
    let server = TestServer::start_with(Options { jwt: Some(settings()), ..Options::default() }).await;
    let tenant = server.queue.tenant("a").await;
    let good = claims(tenant);
    let hs256 = Header::new(Algorithm::HS256);
    let signed = sign(&hs256, &good, SECRET);
    let (body, signature) = signed.rsplit_once('.').unwrap();
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        sign(&hs256, &claims, SECRET)
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        sign(&hs256, &claims, SECRET)
    };
    let header_with = |name: &str, value: Value| {
        // Signed correctly, but with a header that requests something else.
        let mut header = json!({"alg": "HS256", "typ": "JWT"});
        header[name] = value;
        let unsigned = raw(&header, &good, "");
        let message = unsigned.trim_end_matches('.');
        let signature = jsonwebtoken::crypto::sign(
            message.as_bytes(),
            &EncodingKey::from_secret(SECRET.as_bytes()),
            Algorithm::HS256,
        )
        .unwrap();
        format!("{message}.{signature}")
    };
    // Signed rightly, with a text that names something twice: readers differ in which of them counts.
    let signed_text = |header: &str, claims: &str| {
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
        format!("{message}.{signature}")
    };
    let (plain, text) = (r#"{"alg":"HS256"}"#, good.to_string());
    let twice = |claim: &str| signed_text(plain, &text.replacen('{', &format!("{{{claim},"), 1));
    let role_twice = text.replace(r#""role":"#, r#""role":"viewer","role":"#);
    assert_ne!(role_twice, text);
    let by_hand = Client::new(&server.base, Some(signed_text(plain, &text)));
    by_hand.get("/api/v1/me").await.expect(200);
    let metadata = |value: Value| with("app_metadata", value);
    let mut forged = vec![
        ("no algorithm", raw(&json!({"alg": "none"}), &good, "")),
        ("None", raw(&json!({"alg": "None"}), &good, "")),
        ("NONE", raw(&json!({"alg": "NONE"}), &good, "")),
        ("none, signed", raw(&json!({"alg": "none"}), &good, signature)),
        ("no alg", raw(&json!({"typ": "JWT"}), &good, signature)),
        ("alg null", raw(&json!({"alg": null}), &good, signature)),
        ("alg list", raw(&json!({"alg": ["HS256"]}), &good, signature)),
        ("lower case", header_with("alg", json!("hs256"))),
        ("HS384", sign(&Header::new(Algorithm::HS384), &good, SECRET)),
        ("HS512", sign(&Header::new(Algorithm::HS512), &good, SECRET)),
        ("RS256 claimed", raw(&json!({"alg": "RS256"}), &good, signature)),
        ("ES256 claimed", raw(&json!({"alg": "ES256"}), &good, signature)),
        ("another secret", sign(&hs256, &good, "another secret of thirty-two chars")),
        ("empty secret", sign(&hs256, &good, "")),
        ("no signature", format!("{body}.")),
        ("short signature", format!("{body}.{}", &signature[..20])),
        ("changed claims", {
            let (header, rest) = signed.split_once('.').unwrap();
            let other = URL_SAFE_NO_PAD.encode(claims(uuid::Uuid::from_u128(7)).to_string());
            format!("{header}.{other}.{}", rest.rsplit_once('.').unwrap().1)
        }),
        ("two parts", body.to_owned()),
        ("four parts", format!("{signed}.x")),
        ("five parts", format!("{signed}.x.y")),
        ("expired", with("exp", json!(now() - 600))),
        ("expired a moment ago", with("exp", json!(now() - 1))),
        ("expires in this second", with("exp", json!(now()))),
        ("valid in a minute", with("nbf", json!(now() + 60))),
        ("valid in ten seconds", with("nbf", json!(now() + 10))),
        ("exp as text", with("exp", json!((now() + 600).to_string()))),
        ("exp null", with("exp", Value::Null)),
        ("exp a list", with("exp", json!([now() + 600]))),
        ("exp negative", with("exp", json!(-1))),
        ("no exp", without("exp")),
        ("not yet", with("nbf", json!(now() + 600))),
        ("nbf as text", with("nbf", json!((now() + 600).to_string()))),
        ("no issuer", without("iss")),
        ("another issuer", with("iss", json!("https://issuer.test.evil"))),
        ("a list of issuers", with("iss", json!(["https://issuer.test"]))),
        ("no audience", without("aud")),
        ("another audience", with("aud", json!("other"))),
        ("audience null", with("aud", Value::Null)),
        ("empty audience", with("aud", json!([]))),
        ("no subject", without("sub")),
        ("empty subject", with("sub", json!(""))),
        ("subject a number", with("sub", json!(7))),
        ("no metadata", without("app_metadata")),
        ("no role", metadata(json!({"tenant_id": tenant}))),
        ("an unknown role", metadata(json!({"tenant_id": tenant, "role": "root"}))),
        ("no tenant", metadata(json!({"role": "operator"}))),
        ("tenant not an id", metadata(json!({"tenant_id": "default", "role": "operator"}))),
        ("the nil tenant", metadata(json!({"tenant_id": uuid::Uuid::nil(), "role": "operator"}))),
        ("an unknown tenant", metadata(json!({"tenant_id": uuid::Uuid::from_u128(7), "role": "operator"}))),
        ("subject twice", twice(r#""sub":"eve""#)),
        ("expiry twice", twice(r#""exp":1"#)),
        ("an unknown claim twice", twice(r#""x":1,"x":1"#)),
        ("role twice, within another claim", signed_text(plain, &role_twice)),
        ("alg twice", signed_text(r#"{"alg":"HS256","alg":"HS256"}"#, &text)),
        ("not base64", "a.b.c".to_owned()),
        ("empty", "..".to_owned()),
        ("too long", format!("{signed}{}", "a".repeat(9000))),
    ];
    for name in ["jku", "jwk", "x5u", "x5c", "crit"] {
        forged.push((name, header_with(name, json!("https://evil.test/keys"))));
    }
    assert!(forged.len() >= 45, "{}", forged.len());
    Client::new(&server.base, Some(signed)).get("/api/v1/me").await.expect(200);
    for (name, token) in forged {
        let response = Client::new(&server.base, Some(token)).get("/api/v1/me").await;
        assert_eq!(response.status, 401, "{name}");
    }
}

/// Public keys at a URL: the key id decides, and a shared-secret signature made with the public key is rejected.
#[tokio::test]
async fn a_jwt_is_verified_by_the_published_key_of_its_id() {
    let keys = PublishedKeys::start().await;
    let jwt = JwtSettings { keys: JwtKeys::Jwks(keys.address()), ..settings() };
    let server = TestServer::start_with(Options { jwt: Some(jwt), ..Options::default() }).await;
    let tenant = server.queue.tenant("a").await;
    let status =
        async |token: String| Client::new(&server.base, Some(token)).get("/api/v1/me").await.status.as_u16();
    let header = |id: Option<&str>, algorithm| {
        let mut header = Header::new(algorithm);
        header.kid = id.map(str::to_owned);
        header
    };
    let good = claims(tenant);
    let signed = encode(&header(Some("one"), Algorithm::EdDSA), &good, &keys.private).unwrap();
    assert_eq!(status(signed).await, 200);
    assert_eq!(
        status(encode(&header(Some("two"), Algorithm::EdDSA), &good, &keys.private).unwrap()).await,
        401,
        "an unknown key"
    );
    assert_eq!(
        status(encode(&header(None, Algorithm::EdDSA), &good, &keys.private).unwrap()).await,
        401,
        "no key id"
    );
    let confused = encode(
        &header(Some("one"), Algorithm::HS256),
        &good,
        &EncodingKey::from_secret(keys.public.as_bytes()),
    )
    .unwrap();
    assert_eq!(status(confused).await, 401, "the public key as a shared secret");
    assert_eq!(keys.asked(), 1, "unknown keys do not cause another fetch at once");
}

#[tokio::test]
async fn a_person_signs_in_and_out_and_only_our_own_pages_can_post() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "ada@example.com", "operator").await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);

    let password = |text: &str| Secret::new(text);
    let from = From::default();
    let app = &server.app;
    for (email, wrong) in
        [("ada@example.com", "wrong horse battery"), ("bob@example.com", "correct horse battery")]
    {
        let refused = session::sign_in(app, email, password(wrong), &from).await.unwrap_err();
        assert_eq!(refused.kind.status(), 401);
    }
    let cookie =
        session::sign_in(app, "Ada@example.com", password("correct horse battery"), &from).await.unwrap();
    let cookie = cookie.to_str().unwrap().to_owned();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax") && cookie.contains("Path=/"),
        "{cookie}"
    );
    let browser = server.anonymous().with("cookie", cookie.split(';').next().unwrap());
    let me = browser.get("/api/v1/me").await.expect(200);
    assert_eq!((&me["role"], &me["tenant_id"]), (&json!("operator"), &json!(tenant)));

    let job = json!({"definition_key": "a"});
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "none"),
        ("origin", "https://evil.test"),
        ("x-nothing", "1"),
    ] {
        browser.with(name, value).post("/api/v1/jobs", &job).await.problem(403, "forbidden");
    }
    browser.with("sec-fetch-site", "same-origin").post("/api/v1/jobs", &job).await.expect(201);
    browser.with("origin", &server.base).post("/api/v1/jobs", &job).await.expect(201);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let request = browser.with("sec-fetch-site", "same-origin").request(Method::POST, "/api/v1/jobs");
        let response = request.header("content-type", kind).body(job.to_string()).send().await.unwrap();
        assert_eq!(response.status(), 415, "{kind}");
    }
    // A token in a cookie is not a credential.
    let token = server.admin.token.clone().unwrap();
    server
        .anonymous()
        .with("cookie", format!("windlass={token}"))
        .get("/api/v1/me")
        .await
        .problem(401, "unauthorized");

    let away = browser.with("sec-fetch-site", "same-origin").form("/ui/sign-out", &[]).await;
    assert_eq!(away.status, 303);
    browser.get("/api/v1/me").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn a_token_can_sign_in_until_it_expires() {
    let server = TestServer::start().await;
    let token = create_admin_token(&server.queue, "mine").await.unwrap();
    let cookie = session::sign_in_with_token(&server.app, &Secret::new(token.expose()), &From::default())
        .await
        .unwrap();
    let browser = server.anonymous().with("cookie", cookie.to_str().unwrap().split(';').next().unwrap());
    assert_eq!(browser.get("/api/v1/me").await.expect(200)["role"], "super_admin");
    server.admin.delete(&format!("/api/v1/admin/tokens/{}", token.id())).await.expect(200);
    browser.get("/api/v1/me").await.problem(401, "unauthorized");
    assert!(
        session::sign_in_with_token(&server.app, &Secret::new(token.expose()), &From::default())
            .await
            .is_err()
    );
}

/// X-10, on every route: a request that another site makes a browser send is rejected before it is read.
#[tokio::test]
async fn no_route_accepts_a_change_from_another_sites_page() {
    let server = TestServer::start().await;
    let token = Secret::new(server.admin.token.clone().unwrap());
    let cookie = session::sign_in_with_token(&server.app, &token, &From::default()).await.unwrap();
    let browser = server.anonymous().with("cookie", cookie.to_str().unwrap().split(';').next().unwrap());
    // Changing the theme is harmless. A hook identifies its callers by the signature of the message, which a browser does not
    // have, and reads no cookie.
    let open = ["/ui/theme", "/api/v1/hooks/{hook}"];
    let changing =
        table().into_iter().filter(|route| route.method != Method::GET && !open.contains(&route.path));
    let mut tried = 0;
    for route in changing {
        let words = route.path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        let path = words.collect::<Vec<_>>().join("/");
        for (name, value) in [
            ("sec-fetch-site", "cross-site"),
            ("origin", "https://evil.test"),
            ("x-nothing", "neither header"),
        ] {
            for kind in ["application/json", "text/plain", "application/x-www-form-urlencoded"] {
                let request = browser.with(name, value).request(route.method.clone(), &path);
                let response = request.header("content-type", kind).body("{}").send().await.unwrap();
                assert_eq!(response.status(), 403, "{} {} with {name}: {value}", route.method, route.path);
            }
        }
        tried += 1;
    }
    assert!(tried > 50, "{tried}");
}
