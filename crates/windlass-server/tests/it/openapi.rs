//! The description of the API is complete and correct, and the tools that read it report no error.

mod fuzz;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use windlass_server::auth::Permission;
use windlass_server::http::{Audience, ProblemKind, SIGNED, document, table};

use crate::support::TestServer;

#[test]
fn every_route_is_described_and_every_description_is_a_route() {
    let document = document();
    let described: BTreeSet<String> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let routes: BTreeSet<String> = table()
        .iter()
        .filter(|route| route.audience == Audience::Programs)
        .map(|route| format!("{} {}", route.method, route.path))
        .collect();
    assert_eq!(described, routes);
}

#[test]
fn every_operation_names_its_statuses_its_problems_and_its_permission() {
    let document = document();
    let mut ids = BTreeSet::new();
    for route in table().iter().filter(|route| route.audience == Audience::Programs) {
        let name = format!("{} {}", route.method, route.path);
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        assert!(ids.insert(operation["operationId"].to_string()), "{name} shares its id");
        assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{name} has no summary");
        assert_eq!(operation["x-permission"], route.permission.as_str());
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{name}");
        assert!(responses.contains_key("500") && responses.contains_key("503"), "{name}");
        // One route identifies its callers by the signature of the message.
        let is_refusing = route.permission != Permission::Anyone || route.path == SIGNED;
        assert_eq!(responses.contains_key("401"), is_refusing, "{name}");
        for (status, response) in responses {
            assert!(response["description"].as_str().is_some_and(|text| !text.is_empty()), "{name} {status}");
            assert!(response.get("content").is_none_or(Value::is_object), "{name} {status}");
            let is_problem = status.starts_with(['4', '5']);
            assert_eq!(
                response["content"].get("application/problem+json").is_some(),
                is_problem,
                "{name} {status}"
            );
        }
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let text = document.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name} is referred to and not described");
    }
}

/// Every problem type is listed where it can occur, and every body and response has an example that fits its own schema.
#[test]
fn every_problem_and_every_body_is_shown_by_an_example() {
    let document = document();
    let fits = |schema: &Value, example: &Value, place: &str| {
        let mut whole = schema.clone();
        whole["components"] = json!({"schemas": document["components"]["schemas"]});
        let validator = jsonschema::validator_for(&whole).unwrap();
        let error = validator.iter_errors(example).next().map(|error| error.to_string());
        assert_eq!(error, None, "the example of {place}: {example}");
    };
    let mut shown = BTreeSet::new();
    for route in table().iter().filter(|route| route.audience == Audience::Programs) {
        let name = format!("{} {}", route.method, route.path);
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        if let Some(body) = operation["requestBody"]["content"].get("application/json") {
            assert!(body["example"].is_object(), "{name} shows no body");
            fits(&body["schema"], &body["example"], &name);
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            for (kind, content) in response["content"].as_object().into_iter().flatten() {
                let place = format!("{name} {status}");
                if kind == "application/problem+json" {
                    let examples = content["examples"].as_object().unwrap();
                    assert!(!examples.is_empty(), "{place}");
                    for (problem, example) in examples {
                        assert_eq!(example["value"]["status"].to_string(), *status, "{place}");
                        fits(&content["schema"], &example["value"], &place);
                        shown.insert(problem.clone());
                    }
                    continue;
                }
                assert!(!content["example"].is_null(), "{place} shows no response");
                fits(&content["schema"], &content["example"], &place);
            }
        }
    }
    // Of a path, not of an operation: it is in the introduction.
    assert!(document["info"]["description"].as_str().unwrap().contains("method-not-allowed"));
    shown.insert("method-not-allowed".to_owned());
    let every: BTreeSet<String> = ProblemKind::ALL.iter().map(|kind| kind.as_str().to_owned()).collect();
    assert_eq!(shown, every);
    let named =
        document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"].as_array().unwrap();
    assert_eq!(named.len(), every.len());
}

/// Written again with `WINDLASS_BLESS=1`; a reviewer reads the difference.
#[test]
fn the_description_equals_the_stored_file() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/openapi/openapi.json");
    let found = format!("{}\n", serde_json::to_string_pretty(&document()).unwrap());
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &found).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == written, "the API changed: review it with WINDLASS_BLESS=1 and git diff");
}

#[tokio::test]
async fn it_is_served_as_json_and_as_a_page_without_external_content() {
    let server = TestServer::start().await;
    let anonymous = server.anonymous();
    let served = anonymous.get("/api/openapi.json").await.expect(200);
    assert!(served["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(served, document());
    let page = anonymous.get("/docs").await;
    assert_eq!(page.status, 200);
    assert!(
        page.header("content-security-policy").unwrap().starts_with("default-src 'none'; style-src 'sha256-")
    );
    for route in table().iter().filter(|route| route.audience == Audience::Programs) {
        assert!(page.text.contains(route.path), "{} is not on the page", route.path);
    }
    assert!(
        !page.text.contains("http://") && !page.text.contains("https://") && !page.text.contains("<script")
    );
}

/// It is built once, and not sent to a client that has it.
#[tokio::test]
async fn a_cached_description_is_not_modified() {
    let server = TestServer::start().await;
    for path in ["/api/openapi.json", "/docs"] {
        let first = server.anonymous().get(path).await;
        let tag = first.header("etag").unwrap().to_owned();
        for known in [tag.clone(), format!("\"other\", {}", tag.trim_start_matches("W/"))] {
            let again = server.anonymous().with("if-none-match", known).get(path).await;
            assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""), "{path}");
            assert_eq!(again.header("etag"), Some(tag.as_str()));
        }
        let other = server.anonymous().with("if-none-match", "\"other\"").get(path).await;
        assert_eq!((other.status.as_u16(), other.text), (200, first.text), "{path}");
    }
}

/// The described values are those that are returned: the same fields, no more and no fewer.
#[tokio::test]
async fn responses_have_the_described_fields() {
    let server = TestServer::start().await;
    let document = document();
    let admin = &server.admin;
    admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    let id = admin.post("/api/v1/jobs", &json!({"definition_key": "a"})).await.expect(201)["id"].clone();
    let id = id.as_str().unwrap();
    let tenant = admin.post("/api/v1/admin/tenants", &json!({"name": "T", "slug": "t"})).await.expect(201);
    server.member(windlass::DEFAULT_TENANT, "a@b.c", "viewer").await;
    let body = json!({"name": "n", "role": "viewer"});
    let token = admin.post("/api/v1/admin/tokens", &body).await.expect(201);
    let invitation = json!({"email": "d@e.f", "role": "viewer"});
    admin.post("/api/v1/admin/invitations", &invitation).await.expect(201);
    let mut shown = token.clone();
    shown.as_object_mut().unwrap().remove("token");
    let pairs = [
        ("Job", admin.get(&format!("/api/v1/jobs/{id}")).await.expect(200)),
        ("Why", admin.get(&format!("/api/v1/jobs/{id}/why")).await.expect(200)),
        ("TenantSummary", admin.get("/api/v1/jobs/summary").await.expect(200)),
        ("Overview", admin.get("/api/v1/admin/summary").await.expect(200)),
        ("Tenant", tenant),
        ("Token", shown),
        ("Member", admin.get("/api/v1/admin/members").await.expect(200)["members"][0].clone()),
        ("Invitation", admin.get("/api/v1/admin/invitations").await.expect(200)["invitations"][0].clone()),
        ("AuditEntry", admin.get("/api/v1/admin/audit").await.expect(200)["entries"][0].clone()),
        (
            "Definition",
            admin.get("/api/v1/admin/jobs/definitions").await.expect(200)["definitions"][0].clone(),
        ),
        ("Me", admin.get("/api/v1/me").await.expect(200)),
        ("Limits", admin.get("/api/v1/admin/limits").await.expect(200)),
    ];
    for (name, answered) in pairs {
        let described: BTreeSet<&String> =
            document["components"]["schemas"][name]["properties"].as_object().unwrap().keys().collect();
        let found: BTreeSet<&String> = answered.as_object().unwrap().keys().collect();
        assert_eq!(found, described, "{name}");
    }
}

#[test]
fn body_schemas_reject_unknown_fields() {
    let document = document();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next())
            else {
                continue;
            };
            let body: &Value = &document["components"]["schemas"][name];
            assert_eq!(body["additionalProperties"], false, "{method} {path}: {name} accepts anything");
        }
    }
}

#[test]
fn the_codes_of_why_are_those_documented() {
    let page = include_str!("../../../../docs/api.md");
    let table = page.split("<!-- checked: why-codes -->").nth(1).unwrap();
    let written: Vec<&str> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(written, windlass::job::Reason::CODES);
}

#[test]
fn the_documented_problems_are_the_problems() {
    let page = include_str!("../../../../docs/api.md");
    let table = page.split("<!-- checked: problems -->").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let written: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = ProblemKind::ALL
        .iter()
        .map(|kind| format!("| `{}` | {} | {} |", kind.as_str(), kind.status().as_u16(), kind.title()))
        .collect();
    assert_eq!(written, expected);
}
