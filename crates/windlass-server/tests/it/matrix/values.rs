//! No input in a form or an address causes a server error.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::json;
use windlass_server::auth::Permission;
use windlass_server::http::{Audience, Options, table};

use super::world::Ids;
use crate::support::TestServer;

const NUL: &str = "a%00b";

/// As written in a form or an address: empty, NUL, invalid UTF-8, far too long.
fn hostile() -> [String; 4] {
    [String::new(), NUL.to_owned(), "%FF%FE".to_owned(), "x".repeat(20_000)]
}

/// The value of an attribute in a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split(&format!(" {name}=\"")).nth(1)?.split('"').next()
}

/// The fields of a form with their values, and those of its buttons.
type Form = (BTreeMap<String, String>, Vec<(String, String)>);

fn fields(form: &str) -> Form {
    let (mut held, mut buttons) = (BTreeMap::new(), Vec::new());
    for tag in form.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
        let tag = format!("{tag} ");
        let Some(name) = attribute(&tag, "name") else { continue };
        let value = attribute(&tag, "value").unwrap_or_default();
        if tag.starts_with("button") {
            buttons.push((name.to_owned(), value.to_owned()));
        } else {
            held.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    (held, buttons)
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one scenario, in its order")]
async fn no_value_of_any_field_or_parameter_causes_a_server_error() {
    let server = TestServer::start_with(Options { component_page: true, ..Options::default() }).await;
    for key in ["a", "claimed"] {
        server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": key})).await.expect(201);
    }
    let mine = server.queue.tenant("mine").await;
    let ids = Ids::of(&server, mine).await;
    let root = server.member(mine, "root@example.com", "tenant_admin").await;
    let raise = "update windlass.users set is_super_admin = true where id = $1";
    server.queue.client().await.execute(raise, &[&root]).await.unwrap();
    let browser = server.browser("root@example.com").await;
    assert_eq!(browser.form("/ui/tenant", &[("tenant", &mine.to_string())]).await.status, 303);

    let pages = table().into_iter().filter(|route| route.audience == Audience::People);
    let (gets, posts): (Vec<_>, Vec<_>) = pages.partition(|route| route.method == Method::GET);
    let address = |route: &windlass_server::http::Route| {
        let path = route.path.replace("{secret}", "x").replace("{name}", "x");
        if path == route.path { ids.path(route) } else { path }
    };
    // The requests of the pages themselves: their forms, by address, and the parameters of their links.
    let mut forms: BTreeMap<String, Form> = BTreeMap::new();
    let mut parameters: BTreeSet<String> =
        ["q", "all", "cursor", "after", "from", "type", "next"].map(str::to_owned).into();
    for route in &gets {
        if ["/ui/live", "/ui/jobs/{job_id}/log", "/metrics"].contains(&route.path) {
            continue;
        }
        let path = address(route);
        let path = if path == "/ui/jobs/new" { format!("{path}?definition=a") } else { path };
        let page = browser.get(&path).await.text;
        for rest in page.split("<form").skip(1) {
            let (tag, inside) = rest.split_once('>').unwrap();
            let inside = inside.split("</form>").next().unwrap();
            let (held, buttons) = fields(inside);
            if tag.contains("method=\"post\"") {
                let action = attribute(tag, "action").unwrap_or(&path).split('?').next().unwrap().to_owned();
                let known = forms.entry(action).or_default();
                known.0.extend(held);
                known.1.extend(buttons);
            } else {
                parameters.extend(held.into_keys());
            }
        }
        for link in
            page.split("href=\"/ui/").skip(1).filter_map(|rest| rest.split('"').next()?.split_once('?'))
        {
            parameters
                .extend(link.1.split("&amp;").filter_map(|pair| Some(pair.split_once('=')?.0.to_owned())));
        }
    }
    assert!(parameters.contains("tag") && parameters.contains("worker"), "{parameters:?}");
    assert!(forms.len() > 12, "{:?}", forms.keys());

    let mut faults = Vec::new();
    let is_fault = |status: reqwest::StatusCode| status.is_server_error();
    for route in &gets {
        // Each alone with NUL, and all at once with the rest: the rejection of one must not hide another.
        let alone = parameters.iter().map(|parameter| format!("{parameter}={NUL}"));
        let together = hostile().map(|value| {
            let short = &value[..value.len().min(1500)];
            parameters.iter().map(|parameter| format!("{parameter}={short}")).collect::<Vec<_>>().join("&")
        });
        for query in alone.chain(together) {
            let path = format!("{}?{query}", address(route));
            let status = browser.request(Method::GET, &path).send().await.unwrap().status();
            if is_fault(status) {
                faults.push(format!("GET {}: {status}", &path[..path.len().min(120)]));
            }
        }
    }
    for route in posts.iter().filter(|route| !["/ui/sign-out", "/ui/tenant"].contains(&route.path)) {
        let path = address(route);
        let (held, buttons) = forms.get(&path).cloned().unwrap_or_default();
        let held: BTreeMap<_, _> = held.into_iter().map(|(name, value)| (name, encoded(&value))).collect();
        // Parameters that handlers read and no page contains now.
        let more = [
            "name",
            "slug",
            "email",
            "role",
            "revoke",
            "remove",
            "user",
            "reset",
            "queue",
            "worker",
            "id",
            "every",
            "key",
            "payload",
            "token",
            "password",
            "new_password",
            "current_password",
            "do",
            "act",
            "cancel",
            "retry",
            "delete",
            "back",
        ];
        let names: BTreeSet<String> = held
            .keys()
            .cloned()
            .chain(buttons.iter().map(|(name, _)| name.clone()))
            .chain(more.map(str::to_owned))
            .filter(|name| name != "acting_for")
            .collect();
        let alone = names.iter().flat_map(|name| ["", NUL].map(|value| (vec![name], value.to_owned())));
        let together = hostile()
            .map(|value| (names.iter().collect::<Vec<_>>(), value[..value.len().min(15_000)].to_owned()));
        for (named, value) in alone.chain(together) {
            let mut sent = held.clone();
            if route.permission != Permission::Anyone {
                sent.insert("acting_for".to_owned(), mine.to_string());
            }
            sent.extend(named.iter().map(|name| ((*name).clone(), value.clone())));
            let body: Vec<String> = sent.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let request = browser.request(Method::POST, &path).body(body.join("&"));
            let status = request.send().await.unwrap().status();
            if is_fault(status) {
                let value = &value[..value.len().min(20)];
                faults.push(format!("POST {path} {named:?}={value}: {status}"));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    // The sender had all permissions until the end.
    browser.get("/ui/tokens").await.expect_text(200);
}
