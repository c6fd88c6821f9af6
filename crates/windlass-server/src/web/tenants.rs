//! Tenants: who they are, their share, their limits. For super-admins.

use axum::extract::{Query, State as FromState};
use serde::Deserialize;
use serde_json::{Map, Value};
use windlass::{Act, Reach, Tenant};

use super::frame::Section;
use super::html::{Html, escape};
use super::list::{Cell, Fields, FormPage, Link, ListPage, ListRow, badge, columns};
use super::page::{Page, back, page, sentence};
use super::posted::Posted;
use super::viewer::Viewer;
use super::when::When;
use crate::http::{App, Id, Problem};

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Search {
    #[serde(default)]
    q: String,
}

/// Tenants on one page; the rest is found by name.
const SHOWN: usize = 200;

/// `GET /ui/tenants`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    Query(search): Query<Search>,
) -> Page {
    let frame = viewer.frame(&app, Section::Tenants).await?;
    let looking = app.queue().look(Reach::Everything).await?;
    let tenants = looking.tenants().await?;
    looking.end().await?;
    let wanted = search.q.to_lowercase();
    let fits =
        |tenant: &&Tenant| tenant.name.to_lowercase().contains(&wanted) || tenant.slug.contains(&wanted);
    let found: Vec<&Tenant> = tenants.iter().filter(fits).collect();
    let now = frame.now;
    let row = |tenant: &&Tenant| ListRow {
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
        aside: if found.len() > SHOWN {
            format!("{SHOWN} of {} shown; find others by name", found.len())
        } else {
            format!("{} in all", found.len())
        },
        title: "Tenants",
        act: Some(Link { href: "/ui/tenants/new", word: "New tenant" }),
        before: Html(before),
        columns: columns(&["Tenant", "State", "Slug", "#Weight", "#Most queued", "Made", "!Actions"]),
        rows: found.iter().take(SHOWN).map(row).collect(),
        empty: ("No tenant fits", "Try another part of its name."),
        next: None,
        frame,
    })
}

fn status(tenant: &Tenant) -> Html {
    match tenant.status.as_str() {
        "active" => badge("succeeded", "tick", "Active"),
        "suspended" => badge("retrying", "dash", "Suspended"),
        _ => badge("failed", "cross", &format!("Being deleted, {} jobs gone", tenant.purged_jobs)),
    }
}

/// `GET /ui/tenants/new`
pub(crate) async fn new(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    show(&app, &viewer, None, &Map::new(), None).await
}

/// `GET /ui/tenants/{tenant_id}`
pub(crate) async fn edit(FromState(app): FromState<App>, viewer: Viewer, Id(id): Id) -> Page {
    let looking = app.queue().look(Reach::Everything).await?;
    let tenant = looking.tenants().await?.into_iter().find(|tenant| tenant.id == id);
    looking.end().await?;
    let tenant = tenant.ok_or_else(|| Problem::not_found("tenant"))?;
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
    let mut fields = fields
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
    for name in ["weight", "max_queued", "max_running", "requests_per_minute"] {
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
        Err(problem) if problem.kind.status().is_client_error() => {
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
        Err(problem) if problem.kind.status().is_client_error() => {
            let shown =
                posted.0.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
            show(&app, &viewer, Some(&before), &shown, Some(sentence(&problem.detail))).await
        }
        Err(problem) => Err(problem.into()),
    }
}
