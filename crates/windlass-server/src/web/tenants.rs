//! Tenants: who they are, their share, their limits. For super-admins.

use askama::Template;
use axum::extract::State as FromState;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;
use windlass::{Act, Reach, Tenant};

use super::asked::{Id, Query};
use super::cards::grouped;
use super::frame::{Section, TenantName};
use super::html::{Html, escape};
use super::list::{Cell, Fields, FormPage, Link, ListPage, ListRow, badge, columns};
use super::page::{Page, back, page, sentence};
use super::posted::Posted;
use super::query::encode_into;
use super::viewer::{SWITCHER, Viewer};
use super::when::When;
use crate::http::{App, Problem};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Search {
    q: String,
    /// The last tenant of the page before.
    after: Option<Uuid>,
}

/// Tenants on one page.
const SHOWN: u16 = 50;

/// `GET /ui/tenants`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    Query(search): Query<Search>,
) -> Page {
    let frame = viewer.frame(&app, Section::Tenants).await?;
    let looking = app.queue().look(Reach::Everything).await?;
    let mut found = looking.find_tenants(&search.q, search.after, SHOWN + 1).await?;
    let count = looking.count_tenants(&search.q).await?;
    looking.end().await?;
    let has_more = found.len() > usize::from(SHOWN);
    found.truncate(usize::from(SHOWN));
    let next = found.last().filter(|_| has_more).map(|last| {
        let mut address = format!("/ui/tenants?after={}&q=", last.id);
        encode_into(&mut address, &search.q);
        (address, "Next tenants")
    });
    let now = frame.now;
    let row = |tenant: &Tenant| ListRow {
        id: format!("tenant-{}", tenant.id),
        cells: vec![
            Cell::html(Html(format!(
                "<a href=\"/ui/tenants/{}\"><bdi>{}</bdi></a>",
                tenant.id,
                escape(&tenant.name)
            ))),
            Cell::html(status(tenant)),
            Cell::code(&tenant.slug),
            Cell::number("weight", &tenant.weight.to_string()),
            Cell::number("quota", &tenant.max_queued.map_or_else(|| "–".to_owned(), |most| most.to_string())),
            Cell::html(When::new(tenant.created_at, now)).named("made"),
            Cell::acts(format!(
                "<form class=\"inline\" method=\"post\" action=\"/ui/tenant\"><button class=\"small quiet\" name=\"tenant\" value=\"{}\" aria-label=\"Look at {}\">Look at</button></form>",
                tenant.id,
                escape(&tenant.name)
            )),
        ],
    };
    let before = format!(
        "<form class=\"filters\" action=\"/ui/tenants\" role=\"search\" aria-label=\"Tenants\"><label class=\"aloud\" for=\"t-q\">Find a tenant</label><input id=\"t-q\" type=\"search\" name=\"q\" value=\"{}\" placeholder=\"Name or slug\"><button>Find</button></form>",
        escape(&search.q)
    );
    page(&ListPage {
        aside: format!("{} {}", grouped(count), if search.q.trim().is_empty() { "in all" } else { "found" }),
        title: "Tenants",
        act: Some(Link { href: "/ui/tenants/new", word: "New tenant" }),
        before: Html(before),
        columns: columns(&["Tenant", "State", "Slug", "#Weight", "#Most queued", "Made", "!Actions"]),
        rows: found.iter().map(row).collect(),
        empty: ("No tenant fits", "Try another part of its name."),
        next,
        frame,
    })
}

/// `GET /ui/tenants/find`: the switcher's list for what is typed there.
pub(crate) async fn find(
    FromState(app): FromState<App>,
    viewer: Viewer,
    Query(search): Query<Search>,
) -> Page {
    let looking = app.queue().look(Reach::Everything).await?;
    let found = looking.find_tenants(&search.q, None, SWITCHER).await?;
    looking.end().await?;
    let current = viewer.caller.tenant();
    let tenants = found.into_iter().map(|tenant| TenantName { id: tenant.id, name: tenant.name }).collect();
    page(&FoundTenants { tenants, current })
}

#[derive(Template)]
#[template(path = "tenant_list.html")]
struct FoundTenants {
    tenants: Vec<TenantName>,
    current: Uuid,
}

fn status(tenant: &Tenant) -> Html {
    match tenant.status.as_str() {
        "active" => badge("succeeded", "tick", "Active"),
        "suspended" => badge("retrying", "dash", "Suspended"),
        _ => {
            let why =
                tenant.purge_blocked.as_ref().map(|why| format!("; stopped: {why}")).unwrap_or_default();
            badge("failed", "cross", &format!("Being deleted, {} jobs gone{why}", tenant.purged_jobs))
        }
    }
}

/// `GET /ui/tenants/new`
pub(crate) async fn new(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    show(&app, &viewer, None, &Map::new(), None).await
}

/// `GET /ui/tenants/{tenant_id}`
pub(crate) async fn edit(FromState(app): FromState<App>, viewer: Viewer, Id(id): Id) -> Page {
    let looking = app.queue().look(Reach::Everything).await?;
    let tenant = looking.tenant_record(id).await?;
    looking.end().await?;
    let shown = serde_json::to_value(&tenant).unwrap_or_default();
    show(&app, &viewer, Some(&tenant), &shown.as_object().cloned().unwrap_or_default(), None).await
}

async fn show(
    app: &App,
    viewer: &Viewer,
    tenant: Option<&Tenant>,
    shown: &Map<String, Value>,
    wrong: Option<String>,
) -> Page {
    let frame = viewer.frame(app, Section::Tenants).await?;
    let text = |name: &str, otherwise: &str| match shown.get(name) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => otherwise.to_owned(),
        Some(other) => other.to_string(),
    };
    let mut fields = Fields::default().input(("name", "Name"), "text!", &text("name", ""), "");
    if tenant.is_none() {
        fields = fields.input(
            ("slug", "Slug"),
            "text!",
            &text("slug", ""),
            "Small letters, digits, - and _; it stays.",
        );
    }
    let states = [("active", "Active"), ("suspended", "Suspended: takes and runs no jobs")]
        .map(|(value, word)| (value.to_owned(), word.to_owned()));
    let mut fields = fields.row(
        &Fields::default()
            .input(
                ("weight", "Weight"),
                "number",
                &text("weight", "1"),
                "Its share of the workers beside other tenants.",
            )
            .input(
                ("max_queued", "Most unfinished jobs"),
                "number",
                &text("max_queued", ""),
                "No limit if left empty.",
            )
            .input(
                ("max_running", "Most running jobs"),
                "number",
                &text("max_running", ""),
                "At the same time. No limit if left empty.",
            )
            .input(
                ("requests_per_minute", "Requests per minute"),
                "number",
                &text("requests_per_minute", ""),
                "No limit if left empty.",
            )
            .input(
                ("max_lanes", "Most lanes"),
                "number",
                &text("max_lanes", ""),
                "Combinations of definition, queue and priority. 1000 if left empty.",
            )
            .input(
                ("max_queue_names", "Most queue names"),
                "number",
                &text("max_queue_names", ""),
                "200 if left empty.",
            )
            .input(
                ("max_triggers", "Most triggers"),
                "number",
                &text("max_triggers", ""),
                "1000 if left empty.",
            ),
    );
    if tenant.is_some() {
        fields = fields.select(("status", "State"), &states, &text("status", "active"), "");
    }
    let after = tenant.map_or_else(String::new, |tenant| format!(
        "<section class=\"section\" aria-labelledby=\"t-del\"><div class=\"title\"><h2 id=\"t-del\">Delete the tenant</h2></div><p class=\"muted\">Its jobs, attempts, logs, triggers and tokens go with it, bit by bit. This cannot be undone.</p><br><form method=\"post\" action=\"/ui/tenants/{}\"><button class=\"danger\" name=\"do\" value=\"delete\" data-confirm=\"Delete this tenant and everything of it?\" data-detail=\"{}\" data-yes=\"Delete tenant\">Delete tenant</button></form></section>",
        tenant.id, escape(&format!("{} ({}): jobs, attempts, logs, triggers, tokens.", tenant.name, tenant.slug))
    ));
    page(&FormPage {
        title: tenant.map_or_else(|| "New tenant".to_owned(), |tenant| tenant.name.clone()),
        up: ("/ui/tenants", "Tenants"),
        head: tenant.map(status).unwrap_or_default(),
        wrong,
        before: Html::default(),
        action: tenant
            .map_or_else(|| "/ui/tenants/new".to_owned(), |tenant| format!("/ui/tenants/{}", tenant.id)),
        fields: fields.html(),
        save: if tenant.is_some() { "Save tenant" } else { "Make tenant" },
        others: Vec::new(),
        beside: Html::default(),
        after: Html(after),
        frame,
    })
}

fn fields(posted: &Posted) -> Result<Map<String, Value>, Problem> {
    let mut fields = Map::new();
    for name in ["name", "slug", "status"] {
        if let Some(text) = posted.text(name) {
            fields.insert(name.to_owned(), Value::from(text));
        }
    }
    for name in [
        "weight",
        "max_queued",
        "max_running",
        "requests_per_minute",
        "max_lanes",
        "max_queue_names",
        "max_triggers",
    ] {
        let value = match posted.text(name) {
            None if name == "weight" => continue,
            None => Value::Null,
            Some(text) => Value::from(
                text.parse::<i64>()
                    .map_err(|_| Problem::invalid(format!("/{name}"), "must be a whole number"))?,
            ),
        };
        fields.insert(name.to_owned(), value);
    }
    Ok(fields)
}

/// `POST /ui/tenants/new`
pub(crate) async fn create(FromState(app): FromState<App>, viewer: Viewer, posted: Posted) -> Page {
    let made = async {
        let acting = app.queue().act(Reach::Everything, &viewer.caller.actor()).await?;
        let tenant = acting.create_tenant(&fields(&posted)?).await?;
        acting.commit(&Act::new("tenant.create", tenant.id).after(&tenant)).await?;
        Ok::<_, Problem>(tenant)
    };
    match made.await {
        Ok(tenant) => Ok(back("/ui/tenants", "succeeded", format!("Made the tenant {}.", tenant.name))),
        Err(problem) if problem.kind.is_correctable() => {
            let shown =
                posted.0.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
            show(&app, &viewer, None, &shown, Some(sentence(&problem.detail))).await
        }
        Err(problem) => Err(problem.into()),
    }
}

/// `POST /ui/tenants/{tenant_id}`
pub(crate) async fn change(
    FromState(app): FromState<App>,
    viewer: Viewer,
    Id(id): Id,
    posted: Posted,
) -> Page {
    let acting = app.queue().act(Reach::Everything, &viewer.caller.actor()).await?;
    let before = acting.tenant_record(id).await?;
    if posted.get("do") == Some("delete") {
        let after = acting.delete_tenant(id).await?;
        acting.commit(&Act::new("tenant.delete", id).before(&before).after(&after)).await?;
        return Ok(back("/ui/tenants", "succeeded", format!("The tenant {} is being deleted.", before.name)));
    }
    let changed = async {
        let after = acting.change_tenant(id, &fields(&posted)?).await?;
        acting.commit(&Act::new("tenant.change", id).before(&before).after(&after)).await?;
        Ok::<_, Problem>(after)
    };
    match changed.await {
        Ok(tenant) => Ok(back("/ui/tenants", "succeeded", format!("Saved the tenant {}.", tenant.name))),
        Err(problem) if problem.kind.is_correctable() => {
            let shown =
                posted.0.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
            show(&app, &viewer, Some(&before), &shown, Some(sentence(&problem.detail))).await
        }
        Err(problem) => Err(problem.into()),
    }
}
