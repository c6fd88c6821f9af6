//! Tenants: their names, weights and limits. For super-admins.

use askama::Template;
use axum::extract::State as FromState;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;
use windlass::admin::{Reach, Tenant};

use super::count::{count_words, grouped};
use super::form::{Form, Shown, Wrong};
use super::form_body::FormBody;
use super::frame::{Frame, Section, TenantName};
use super::page::{Page, back, page};
use super::query::encode_into;
use super::relative_time::RelativeTime;
use super::url_parameters::{PathId, UiQuery};
use super::viewer::{SWITCHER, Viewer};
use crate::http::{App, Problem};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TenantSearch {
    q: String,
    /// The last tenant of the previous page.
    after: Option<Uuid>,
}

/// The number of tenants on one page.
const SHOWN: u16 = 50;

#[derive(Template)]
#[template(path = "tenants.html")]
struct TenantsPage {
    frame: Frame,
    search: String,
    /// A search, or a page other than the first one.
    is_filtered: bool,
    aside: String,
    rows: Vec<TenantRow>,
    next: Option<String>,
}

struct TenantRow {
    id: Uuid,
    name: String,
    slug: String,
    state: State,
    weight: i32,
    max_queued: String,
    created: RelativeTime,
}

/// The state of a tenant, shown like a status.
struct State {
    role: &'static str,
    shape: &'static str,
    word: String,
}

/// `GET /ui/tenants`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    UiQuery(search): UiQuery<TenantSearch>,
) -> Page {
    let frame = viewer.frame(&app, Section::Tenants).await?;
    let reading = app.queue().read(Reach::Everything).await?;
    let mut found = reading.find_tenants(&search.q, search.after, SHOWN + 1).await?;
    let count = reading.count_tenants(&search.q).await?;
    reading.end().await?;
    let has_more = found.len() > usize::from(SHOWN);
    found.truncate(usize::from(SHOWN));
    let next = found.last().filter(|_| has_more).map(|last| {
        let mut address = format!("/ui/tenants?after={}&q=", last.id);
        encode_into(&mut address, &search.q);
        address
    });
    let now = frame.now;
    let row = |tenant: Tenant| TenantRow {
        state: state(&tenant),
        weight: tenant.weight,
        max_queued: tenant.max_queued.map_or_else(|| "–".to_owned(), |most| most.to_string()),
        created: RelativeTime::new(tenant.created_at, now),
        id: tenant.id,
        name: tenant.name,
        slug: tenant.slug,
    };
    let text = search.q.trim();
    page(&TenantsPage {
        is_filtered: search.after.is_some() || !text.is_empty(),
        aside: format!("{} {}", grouped(count), if text.is_empty() { "total" } else { "found" }),
        search: text.to_owned(),
        rows: found.into_iter().map(row).collect(),
        next,
        frame,
    })
}

/// `GET /ui/tenants/find`: the search results of the tenant switcher.
pub(crate) async fn find(
    FromState(app): FromState<App>,
    viewer: Viewer,
    UiQuery(search): UiQuery<TenantSearch>,
) -> Page {
    let reading = app.queue().read(Reach::Everything).await?;
    let found = reading.find_tenants(&search.q, None, SWITCHER).await?;
    reading.end().await?;
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

fn state(tenant: &Tenant) -> State {
    let (role, shape, word) = match tenant.status.as_str() {
        "active" => ("succeeded", "tick", "Active".to_owned()),
        "suspended" => ("retrying", "dash", "Suspended".to_owned()),
        _ => {
            let why =
                tenant.purge_blocked.as_ref().map(|why| format!("; stopped: {why}")).unwrap_or_default();
            ("failed", "cross", format!("Deleting, {} deleted{why}", count_words(tenant.purged_jobs, "job")))
        }
    };
    State { role, shape, word }
}

#[derive(Template)]
#[template(path = "tenant.html")]
struct TenantPage {
    frame: Frame,
    form: Form,
    shown: Shown,
    /// The edited tenant; none for a new one.
    tenant: Option<TenantHead>,
}

struct TenantHead {
    id: Uuid,
    name: String,
    slug: String,
    state: State,
}

/// The fields of the form, by their names in the API.
const FIELDS: [(&str, &str); 10] = [
    ("name", "name"),
    ("slug", "slug"),
    ("status", "status"),
    ("weight", "weight"),
    ("max_queued", "max_queued"),
    ("max_running", "max_running"),
    ("requests_per_minute", "requests_per_minute"),
    ("max_lanes", "max_lanes"),
    ("max_queue_names", "max_queue_names"),
    ("max_triggers", "max_triggers"),
];

const STATES: [(&str, &str); 2] =
    [("active", "Active"), ("suspended", "Suspended: accepts and runs no jobs")];

/// `GET /ui/tenants/new`
pub(crate) async fn new(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    show(&app, &viewer, None, Shown::default(), None).await
}

/// `GET /ui/tenants/{tenant_id}`
pub(crate) async fn edit(FromState(app): FromState<App>, viewer: Viewer, PathId(id): PathId) -> Page {
    let reading = app.queue().read(Reach::Everything).await?;
    let tenant = reading.tenant_record(id).await?;
    reading.end().await?;
    show(&app, &viewer, Some(&tenant), Shown::of(&tenant), None).await
}

async fn show(
    app: &App,
    viewer: &Viewer,
    tenant: Option<&Tenant>,
    shown: Shown,
    wrong: Option<Wrong>,
) -> Page {
    let frame = viewer.frame(app, Section::Tenants).await?;
    let head = |tenant: &Tenant| TenantHead {
        id: tenant.id,
        name: tenant.name.clone(),
        slug: tenant.slug.clone(),
        state: state(tenant),
    };
    let form = Form {
        title: tenant.map_or_else(|| "New tenant".to_owned(), |tenant| tenant.name.clone()),
        list: "Tenants",
        list_href: "/ui/tenants",
        action: tenant
            .map_or_else(|| "/ui/tenants/new".to_owned(), |tenant| format!("/ui/tenants/{}", tenant.id)),
        save: Some(if tenant.is_some() { "Save tenant" } else { "Create tenant" }),
        wrong,
    };
    page(&TenantPage { frame, form, shown, tenant: tenant.map(head) })
}

fn fields(posted: &FormBody) -> Result<Map<String, Value>, Problem> {
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
pub(crate) async fn create(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    let made = async {
        let acting = app.queue().act(Reach::Everything, &viewer.caller.actor()).await?;
        let tenant = acting.create_tenant(&fields(&posted)?).await?;
        acting.commit().await?;
        Ok::<_, Problem>(tenant)
    };
    match made.await {
        Ok(tenant) => Ok(back("/ui/tenants", "succeeded", format!("Created tenant {}.", tenant.name))),
        Err(problem) if problem.kind.is_correctable() => {
            show(&app, &viewer, None, Shown::typed(&posted), Some(Wrong::of(&problem, &FIELDS))).await
        }
        Err(problem) => Err(problem.into()),
    }
}

/// `POST /ui/tenants/{tenant_id}`
pub(crate) async fn change(
    FromState(app): FromState<App>,
    viewer: Viewer,
    PathId(id): PathId,
    posted: FormBody,
) -> Page {
    let acting = app.queue().act(Reach::Everything, &viewer.caller.actor()).await?;
    let before = acting.tenant_record(id).await?;
    if posted.get("do") == Some("delete") {
        acting.delete_tenant(id).await?;
        acting.commit().await?;
        app.authenticator().read_again(id);
        return Ok(back("/ui/tenants", "succeeded", format!("Deleting tenant {}.", before.name)));
    }
    let changed = async {
        let after = acting.change_tenant(id, &fields(&posted)?).await?;
        acting.commit().await?;
        Ok::<_, Problem>(after)
    };
    match changed.await {
        Ok(tenant) => Ok(back("/ui/tenants", "succeeded", format!("Saved tenant {}.", tenant.name))),
        Err(problem) if problem.kind.is_correctable() => {
            let wrong = Some(Wrong::of(&problem, &FIELDS));
            show(&app, &viewer, Some(&before), Shown::typed(&posted), wrong).await
        }
        Err(problem) => Err(problem.into()),
    }
}
