//! Tenants: created, changed, suspended, limited and deleted by super-admins.

use std::ops::RangeInclusive;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;
use windlass::admin::{Fields, Tenant};

use crate::api::schema;
use crate::auth::Caller;
use crate::http::{App, Body, Id, IdempotencyKey, PageQuery, Problem, Query, replay, store_response};

/// A new tenant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTenant {
    #[schema(min_length = 1, max_length = 200, pattern = "\\S", example = "Acme Ltd")]
    name: String,
    /// The short name, used in URLs and on the command line.
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9][a-z0-9_-]*$", example = "acme")]
    slug: String,
    /// The id, if the tenant is to have that of an object of yours; default: a new one. It cannot be changed.
    id: Option<Uuid>,
    /// The share of the workers, relative to other tenants.
    #[schema(minimum = 1, maximum = 1000, example = 1)]
    weight: Option<u16>,
    /// The time zone of the web UI, and of schedules without their own.
    #[schema(example = "Europe/Berlin")]
    timezone: Option<String>,
    #[serde(flatten)]
    limits: LimitsChange,
}

/// The fields to change. Null removes a limit, or resets it to its default if it has one.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TenantChange {
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    name: Option<String>,
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9][a-z0-9_-]*$")]
    slug: Option<String>,
    status: Option<TenantStatus>,
    #[schema(minimum = 1, maximum = 1000)]
    weight: Option<u16>,
    timezone: Option<String>,
    #[serde(flatten)]
    limits: LimitsChange,
}

/// The limits to change. Null removes a limit or resets it to its default; omitted limits do not change.
// The values are checked by `LimitsChange::checked`: an error of a flattened field would have no pointer.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsChange {
    /// The maximum number of unfinished jobs.
    #[serde(deserialize_with = "given")]
    #[schema(minimum = 0, maximum = 1_000_000_000, value_type = Option<u32>)]
    max_queued: Option<Value>,
    /// The maximum number of jobs that run at the same time.
    #[serde(deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 1_000_000, value_type = Option<u32>)]
    max_running: Option<Value>,
    /// The maximum number of requests per minute of all its credentials together.
    #[serde(deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 10_000_000, value_type = Option<u32>)]
    requests_per_minute: Option<Value>,
    /// The maximum number of lanes: combinations of definition, queue and priority (default 1000).
    #[serde(deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 100_000, value_type = Option<u32>)]
    max_lanes: Option<Value>,
    /// The maximum number of queue names (default 200).
    #[serde(deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 100_000, value_type = Option<u32>)]
    max_queue_names: Option<Value>,
    /// The maximum number of triggers (default 1000).
    #[serde(deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 100_000, value_type = Option<u32>)]
    max_triggers: Option<Value>,
}

impl LimitsChange {
    /// The limits that the request names, including those that are null.
    pub(crate) fn checked(self) -> Result<Fields, Problem> {
        let given = [
            self.max_queued,
            self.max_running,
            self.requests_per_minute,
            self.max_lanes,
            self.max_queue_names,
            self.max_triggers,
        ];
        let mut fields = Fields::new();
        for ((name, range), given) in LIMITS.into_iter().zip(given) {
            let Some(limit) = given else { continue };
            if !limit.is_null() && !limit.as_u64().is_some_and(|limit| range.contains(&limit)) {
                let message = format!("must be between {} and {}", range.start(), range.end());
                return Err(Problem::invalid(format!("/{name}"), message));
            }
            fields.insert(name.to_owned(), limit);
        }
        Ok(fields)
    }
}

/// The limits of a tenant and their ranges, in the order of the fields above. The database has the same ranges.
const LIMITS: [(&str, RangeInclusive<u64>); 6] = [
    ("max_queued", 0..=1_000_000_000),
    ("max_running", 1..=1_000_000),
    ("requests_per_minute", 1..=10_000_000),
    ("max_lanes", 1..=100_000),
    ("max_queue_names", 1..=100_000),
    ("max_triggers", 1..=100_000),
];

/// New jobs of a suspended tenant are rejected.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TenantStatus {
    Active,
    Suspended,
}

/// Distinguishes null from an omitted field.
pub(crate) fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// The tenants.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tenants {
    #[schema(value_type = Vec<schema::Tenant>)]
    tenants: Vec<Tenant>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List tenants
#[utoipa::path(get, path = "/api/v1/admin/tenants", tag = "tenants", params(PageQuery), responses((status = 200, body = Tenants)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Tenants>, Problem> {
    let reading = app.queue().read(caller.global_reach()).await?;
    let tenants = reading.tenants().await?;
    reading.end().await?;
    let (tenants, next_cursor) = page.of(tenants, |tenant| tenant.slug.clone())?;
    Ok(Json(Tenants { tenants, next_cursor }))
}

/// Read a tenant
///
/// While it is being deleted, `purged_jobs` is the number of deleted jobs; afterwards the response is 404.
#[utoipa::path(get, path = "/api/v1/admin/tenants/{tenant_id}", tag = "tenants", params(("tenant_id" = Uuid, Path)), responses((status = 200, body = schema::Tenant)))]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<Tenant>, Problem> {
    let reading = app.queue().read(caller.global_reach()).await?;
    let found = reading.tenant_record(id).await?;
    reading.end().await?;
    Ok(Json(found))
}

/// Create a tenant
#[utoipa::path(post, path = "/api/v1/admin/tenants", tag = "tenants", request_body = NewTenant, responses((status = 201, body = schema::Tenant)))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    body: Body<NewTenant>,
) -> Result<Response, Problem> {
    let new = body.value;
    check(Some(&new.name), Some(&new.slug), new.weight, new.timezone.as_deref())?;
    let mut fields = new.limits.checked()?;
    fields.extend(object(
        json!({"name": new.name, "slug": new.slug, "id": new.id, "weight": new.weight, "timezone": new.timezone}),
    ));
    let acting = app.queue().act(caller.global_reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let made = acting.create_tenant(&fields).await?;
    store_response(&acting, &key, StatusCode::CREATED, &json!(made)).await?;
    acting.commit().await?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// Change a tenant
#[utoipa::path(patch, path = "/api/v1/admin/tenants/{tenant_id}", tag = "tenants", params(("tenant_id" = Uuid, Path)), request_body = TenantChange, responses((status = 200, body = schema::Tenant)))]
pub(crate) async fn change(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    body: Body<TenantChange>,
) -> Result<Json<Tenant>, Problem> {
    let change = body.value;
    check(change.name.as_deref(), change.slug.as_deref(), change.weight, change.timezone.as_deref())?;
    let limits = change.limits.checked()?;
    let mut fields = object(json!({
        "name": change.name, "slug": change.slug, "status": change.status, "weight": change.weight, "timezone": change.timezone,
    }));
    fields.retain(|_, value| !value.is_null());
    fields.extend(limits);
    let acting = app.queue().act(caller.global_reach(), &caller.actor()).await?;
    let changed = acting.change_tenant(id, &fields).await?;
    acting.commit().await?;
    Ok(Json(changed))
}

/// Delete a tenant
///
/// New jobs are rejected and its credentials end immediately. Its jobs are deleted in batches, then the tenant itself.
#[utoipa::path(delete, path = "/api/v1/admin/tenants/{tenant_id}", tag = "tenants", params(("tenant_id" = Uuid, Path)), responses((status = 202, body = schema::Tenant)))]
pub(crate) async fn delete(State(app): State<App>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let acting = app.queue().act(caller.global_reach(), &caller.actor()).await?;
    let after = acting.delete_tenant(id).await?;
    acting.commit().await?;
    app.authenticator().read_again(id);
    Ok((StatusCode::ACCEPTED, Json(after)).into_response())
}

fn check(
    name: Option<&str>,
    slug: Option<&str>,
    weight: Option<u16>,
    zone: Option<&str>,
) -> Result<(), Problem> {
    if name.is_some_and(|name| name.trim().is_empty() || name.chars().count() > 200) {
        return Err(Problem::invalid("/name", "must have 1 to 200 characters"));
    }
    let is_slug = |slug: &str| {
        let mut letters = slug.bytes();
        let first = letters.next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        first
            && slug.len() <= 63
            && letters.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
            // Tenants are named by slug or by id.
            && slug.replace('-', "").parse::<Uuid>().is_err()
    };
    if slug.is_some_and(|slug| !is_slug(slug)) {
        return Err(Problem::invalid(
            "/slug",
            "must have 1 to 63 characters of a-z, 0-9, - and _, start with a letter or digit, and not be a UUID",
        ));
    }
    if weight.is_some_and(|weight| !(1..=1000).contains(&weight)) {
        return Err(Problem::invalid("/weight", "must be between 1 and 1000"));
    }
    if zone.is_some_and(|zone| jiff::tz::TimeZone::get(zone).is_err()) {
        return Err(Problem::invalid("/timezone", "must be the name of a time zone, such as Europe/Berlin"));
    }
    Ok(())
}

pub(crate) fn object(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_gives_the_bounds_of_each_limit() {
        let document = crate::http::document();
        for schema in ["NewTenant", "TenantChange", "LimitsChange"] {
            let described = &document["components"]["schemas"][schema]["properties"];
            for (name, range) in LIMITS {
                let bounds = (&described[name]["minimum"], &described[name]["maximum"]);
                assert_eq!(bounds, (&json!(range.start()), &json!(range.end())), "{schema} {name}");
            }
        }
    }
    #[test]
    fn limits_are_read_the_same_way_by_every_request_that_has_them() {
        let read = |limits: &str| {
            let tenant = format!(r#"{{"name": "n", "slug": "s", {limits}}}"#);
            let new = crate::http::parse::<NewTenant>(&tenant).and_then(|new| new.limits.checked());
            let change = format!(r#"{{"name": "n", {limits}}}"#);
            let change =
                crate::http::parse::<TenantChange>(&change).and_then(|change| change.limits.checked());
            let alone = format!("{{{limits}}}");
            let alone = crate::http::parse::<LimitsChange>(&alone).and_then(LimitsChange::checked);
            [new, change, alone].map(|read| {
                read.map_err(|problem| {
                    problem.errors.into_iter().map(|fault| fault.pointer).collect::<Vec<_>>()
                })
            })
        };
        let given = object(json!({"max_lanes": 7, "max_queued": null}));
        assert_eq!(read(r#""max_lanes": 7, "max_queued": null"#), [(); 3].map(|()| Ok(given.clone())));
        for (refused, pointer) in [
            (r#""max_lanes": 0"#, "/max_lanes"),
            (r#""max_lanes": "7""#, "/max_lanes"),
            (r#""max_running": 1.5"#, "/max_running"),
            (r#""max_triggers": -1"#, "/max_triggers"),
            (r#""max_lines": 7"#, "/max_lines"),
        ] {
            assert_eq!(read(refused), [(); 3].map(|()| Err(vec![pointer.to_owned()])), "{refused}");
        }
    }
}
