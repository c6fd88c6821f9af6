//! Members: the people of a tenant and what each may do there. For those who manage them.

use axum::extract::{Query, State as FromState};
use uuid::Uuid;
use windlass::{Act, Member};

use super::frame::Section;
use super::html::{Html, escape};
use super::list::{Cell, Fields, FormPage, Link, ListPage, ListRow, badge, columns};
use super::page::{Page, back, page, sentence};
use super::posted::Posted;
use super::search::Search;
use super::viewer::Viewer;
use super::when::When;
use crate::auth::{MemberRole, Secret, member_fields};
use crate::http::{App, Problem};

/// What a person may be, and what that means.
const ROLES: [(&str, &str, &str); 3] = [
    ("viewer", "Viewer", "Viewer: looks"),
    ("operator", "Operator", "Operator: also enqueues, cancels, retries"),
    ("tenant_admin", "Tenant admin", "Tenant admin: also triggers, tokens, members, deleting"),
];

/// `GET /ui/members`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    Query(search): Query<Search>,
) -> Page {
    let frame = viewer.frame(&app, Section::Members).await?;
    let looking = app.queue().look(viewer.caller.reach()).await?;
    let members = looking.members(viewer.caller.tenant()).await?;
    looking.end().await?;
    let found = search.among(&members, |member, wanted| {
        member.email.contains(wanted) || member.name.to_lowercase().contains(wanted)
    });
    let now = frame.now;
    let own = viewer.caller.user_id();
    let row = |member: &&Member| ListRow {
        id: format!("member-{}", member.user_id),
        cells: vec![
            Cell::html(person(member, own == Some(member.user_id))).class("whole"),
            Cell::html(role_form(member)).named("role"),
            Cell::html(state(member)),
            Cell::html(When::new(member.created_at, now)).named("since"),
            Cell::acts(remove_form(member, own == Some(member.user_id))),
        ],
    };
    page(&ListPage {
        title: "Members",
        aside: Search::aside(found.len(), "people who may sign in to this tenant"),
        act: Some(Link { href: "/ui/members/new", word: "Add member" }),
        before: search.form(members.len(), "/ui/members", "Find a member", "E-mail or name"),
        columns: columns(&["Person", "Role", "State", "Member since", "!Actions"]),
        rows: found.iter().take(Search::SHOWN).map(row).collect(),
        empty: (
            "No members",
            "Add the people who should see this tenant's jobs. Programs use tokens instead.",
        ),
        next: None,
        frame,
    })
}

fn person(member: &Member, is_own: bool) -> Html {
    let you = if is_own { " <span class=\"tag\">you</span>" } else { "" };
    let name = if member.name.is_empty() {
        String::new()
    } else {
        format!("<span class=\"sub cut\" dir=\"auto\">{}</span>", escape(&member.name))
    };
    Html(format!("<span class=\"cut\"><bdi>{}</bdi>{you}</span>{name}", escape(&member.email)))
}

fn state(member: &Member) -> Html {
    match (member.is_active, member.has_password) {
        (false, _) => badge("canceled", "dash", "Switched off"),
        (true, false) => badge("queued", "clock", "No password yet"),
        (true, true) => badge("succeeded", "tick", "Active"),
    }
}

fn role_form(member: &Member) -> Html {
    let options: String = ROLES
        .iter()
        .map(|(role, word, _)| {
            let selected = if *role == member.role { " selected" } else { "" };
            format!("<option value=\"{role}\"{selected}>{word}</option>")
        })
        .collect();
    Html(format!(
        "<form class=\"inline\" method=\"post\" action=\"/ui/members\"><input type=\"hidden\" name=\"email\" value=\"{email}\"><label class=\"aloud\" for=\"role-{id}\">Role of {email}</label><select class=\"small\" id=\"role-{id}\" name=\"role\">{options}</select><button class=\"small\" name=\"do\" value=\"role\" aria-label=\"Save the role of {email}\">Save</button></form>",
        email = escape(&member.email),
        id = member.user_id
    ))
}

fn remove_form(member: &Member, is_own: bool) -> String {
    let detail = if is_own {
        "This is you: you lose sight of this tenant at once.".to_owned()
    } else {
        format!(
            "{} loses sight of this tenant within seconds. What they did stays in the audit trail.",
            member.email
        )
    };
    format!(
        "<form class=\"inline\" method=\"post\" action=\"/ui/members\"><button class=\"small danger\" name=\"remove\" value=\"{}\" data-confirm=\"Remove this member?\" data-detail=\"{}\" data-yes=\"Remove member\" aria-label=\"Remove {}\">Remove</button></form>",
        member.user_id,
        escape(&detail),
        escape(&member.email)
    )
}

/// `GET /ui/members/new`
pub(crate) async fn new(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    show(&app, &viewer, &Posted::default(), None).await
}

async fn show(app: &App, viewer: &Viewer, typed: &Posted, wrong: Option<String>) -> Page {
    let frame = viewer.frame(app, Section::Members).await?;
    let text = |name: &str| typed.get(name).unwrap_or_default();
    let roles = ROLES.map(|(role, _, words)| (role.to_owned(), words.to_owned()));
    let fields = Fields::default()
        .input(("email", "E-mail"), "email!", text("email"), "Somebody who is known here already keeps their name and password.")
        .input(("name", "Name"), "text", text("name"), "")
        .select(("role", "Role"), &roles, typed.get("role").unwrap_or("viewer"), "")
        .input(
            ("password", "Password"),
            "password",
            "",
            "At least 12 characters, for somebody new. Without one they come in by your own sign-in (JWT) only.",
        );
    page(&FormPage {
        title: "Add member".to_owned(),
        up: ("/ui/members", "Members"),
        head: Html::default(),
        wrong,
        before: Html::default(),
        action: "/ui/members/new".to_owned(),
        fields: fields.html(),
        save: "Add member",
        others: Vec::new(),
        beside: Html::default(),
        after: Html::default(),
        frame,
    })
}

/// `POST /ui/members/new`
pub(crate) async fn create(FromState(app): FromState<App>, viewer: Viewer, posted: Posted) -> Page {
    match put(&app, &viewer, &posted).await {
        Ok(member) => Ok(back("/ui/members", "succeeded", format!("{} is a member now.", member.email))),
        Err(problem) if problem.kind.status().is_client_error() => {
            show(&app, &viewer, &posted, Some(sentence(&problem.detail))).await
        }
        Err(problem) => Err(problem.into()),
    }
}

/// `POST /ui/members`: gives a member another role, or removes them.
pub(crate) async fn change(FromState(app): FromState<App>, viewer: Viewer, posted: Posted) -> Page {
    let done = match posted.get("remove").and_then(|id| Uuid::try_parse(id).ok()) {
        Some(user) => remove(&app, &viewer, user).await.map(|member| format!("Removed {}.", member.email)),
        None => put(&app, &viewer, &posted).await.map(|member| {
            let role = ROLES.iter().find(|(role, ..)| *role == member.role).map_or("", |(_, word, _)| word);
            format!("{} is {} now.", member.email, role.to_lowercase())
        }),
    };
    match done {
        Ok(words) => Ok(back("/ui/members", "succeeded", words)),
        Err(problem) if problem.kind.status().is_client_error() => {
            Ok(back("/ui/members", "failed", sentence(&problem.detail)))
        }
        Err(problem) => Err(problem.into()),
    }
}

async fn put(app: &App, viewer: &Viewer, posted: &Posted) -> Result<Member, Problem> {
    let role = MemberRole::named(posted.get("role").unwrap_or_default())
        .ok_or_else(|| Problem::invalid("/role", "must be viewer, operator or tenant_admin"))?;
    let email = posted.text("email").unwrap_or_default();
    let name = posted.text("name").map(str::to_owned);
    let password = posted.get("password").filter(|text| !text.is_empty());
    let fields = member_fields(email, name, role, password.map(Secret::new)).await?;
    let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
    let member = acting.put_member(viewer.caller.tenant(), &fields).await?;
    acting.commit(&Act::new("member.put", member.user_id).after(&member)).await?;
    Ok(member)
}

async fn remove(app: &App, viewer: &Viewer, user: Uuid) -> Result<Member, Problem> {
    let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
    let removed = acting.remove_member(viewer.caller.tenant(), user).await?;
    acting.commit(&Act::new("member.remove", user).before(&removed)).await?;
    Ok(removed)
}
