//! Members: the users of a tenant with their roles, and open invitations. For callers that can manage members.

use askama::Template;
use axum::extract::State as FromState;
use uuid::Uuid;
use windlass::admin::Member;
use windlass::internals::{Invitation, OpenReset};

use super::form::{Form, Shown, Wrong};
use super::form_body::FormBody;
use super::frame::{Frame, Section};
use super::page::{Page, back, page, sentence};
use super::relative_time::RelativeTime;
use super::search::{Search, Searched};
use super::url_parameters::UiQuery;
use super::viewer::Viewer;
use crate::auth::{MemberRole, accounts};
use crate::http::{App, Problem};

/// The roles of a member, with descriptions.
const ROLES: [(&str, &str, &str); 3] = [
    ("viewer", "Viewer", "Viewer: read only"),
    ("operator", "Operator", "Operator: can also enqueue, cancel, and retry jobs"),
    (
        "tenant_admin",
        "Tenant admin",
        "Tenant admin: can also manage triggers, tokens, and members, and delete jobs",
    ),
];

pub(super) fn role_words(role: &str) -> &'static str {
    ROLES.iter().find(|(name, ..)| *name == role).map_or("Member", |(_, words, _)| words)
}

#[derive(Template)]
#[template(path = "members.html")]
struct MembersPage {
    frame: Frame,
    search: Searched,
    members: Vec<MemberRow>,
    invitations: Vec<InvitationRow>,
    resets: Vec<ResetRow>,
}

struct MemberRow {
    member: Member,
    is_own: bool,
    since: RelativeTime,
}

impl MemberRow {
    fn has(&self, role: &str) -> bool {
        self.member.role == role
    }
}

struct InvitationRow {
    id: Uuid,
    email: String,
    role: &'static str,
    sent: RelativeTime,
    expires: RelativeTime,
}

/// An open password reset link.
struct ResetRow {
    user: Uuid,
    email: String,
    sent: RelativeTime,
    expires: RelativeTime,
}

/// `GET /ui/members`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    UiQuery(search): UiQuery<Search>,
) -> Page {
    let frame = viewer.frame(&app, Section::Members).await?;
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let members = reading.members(viewer.caller.tenant()).await?;
    let invitations = reading.invitations(viewer.caller.tenant()).await?;
    reading.end().await?;
    let resets = accounts::resets(&app, &viewer.caller).await?;
    let found = search.among(&members, |member, wanted| {
        member.email.contains(wanted) || member.name.to_lowercase().contains(wanted)
    });
    let invited = search.among(&invitations, |invitation, wanted| invitation.email.contains(wanted));
    let now = frame.now;
    let own = viewer.caller.user_id();
    let row = |member: &&Member| MemberRow {
        is_own: own == Some(member.user_id),
        since: RelativeTime::new(member.created_at, now),
        member: (*member).clone(),
    };
    let invitation = |invitation: &&Invitation| InvitationRow {
        id: invitation.id,
        email: invitation.email.clone(),
        role: role_words(&invitation.role),
        sent: RelativeTime::new(invitation.created_at, now),
        expires: RelativeTime::new(invitation.expires_at, now),
    };
    let asked = search.among(&resets, |reset, wanted| reset.email.contains(wanted));
    let reset = |reset: &&OpenReset| ResetRow {
        user: reset.user_id,
        email: reset.email.clone(),
        sent: RelativeTime::new(reset.created_at, now),
        expires: RelativeTime::new(reset.expires_at, now),
    };
    page(&MembersPage {
        resets: asked.iter().take(Search::SHOWN).map(reset).collect(),
        members: found.iter().take(Search::SHOWN).map(row).collect(),
        invitations: invited.iter().take(Search::SHOWN).map(invitation).collect(),
        search: search.searched(members.len().max(invitations.len()), found.len()),
        frame,
    })
}

#[derive(Template)]
#[template(path = "member_invite.html")]
struct InvitePage {
    frame: Frame,
    form: Form,
    shown: Shown,
    roles: Vec<(&'static str, &'static str)>,
}

/// How long an invitation is valid.
const DAYS: [(&str, &str); 3] = [("1", "1 day"), ("7", "7 days"), ("30", "30 days")];

/// The fields of the form, by their names in the API.
const FIELDS: [(&str, &str); 4] =
    [("email", "email"), ("role", "role"), ("days", "days"), ("expires_in_seconds", "days")];

/// `GET /ui/members/new`
pub(crate) async fn new(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    show(&app, &viewer, &FormBody::default(), None).await
}

async fn show(app: &App, viewer: &Viewer, typed: &FormBody, wrong: Option<Wrong>) -> Page {
    let frame = viewer.frame(app, Section::Members).await?;
    let may_give = |role: &str| {
        MemberRole::named(role).is_ok_and(|role| viewer.caller.check_grant(role.role(), None).is_ok())
    };
    let roles = ROLES.into_iter().filter(|(role, ..)| may_give(role));
    page(&InvitePage {
        shown: Shown::typed(typed),
        roles: roles.map(|(role, _, words)| (role, words)).collect(),
        form: Form {
            title: "Invite member".to_owned(),
            list: "Members",
            list_href: "/ui/members",
            action: "/ui/members/new".to_owned(),
            save: Some("Create invitation"),
            wrong,
        },
        frame,
    })
}

/// `POST /ui/members/new`
pub(crate) async fn create(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    match invite(&app, &viewer, &posted).await {
        Ok((email, link)) => {
            let words =
                format!("Send this link to {email}. Anyone with the link can accept the invitation once.");
            shown_once(&app, &viewer, "Invitation", words, link).await
        }
        Err(problem) if problem.kind.is_correctable() => {
            show(&app, &viewer, &posted, Some(Wrong::of(&problem, &FIELDS))).await
        }
        Err(problem) => Err(problem.into()),
    }
}

async fn invite(app: &App, viewer: &Viewer, posted: &FormBody) -> Result<(String, String), Problem> {
    let (caller, base) = (&viewer.caller, viewer.link_url()?);
    let role = MemberRole::named(posted.get("role").unwrap_or_default())?;
    let days: u32 = posted.get("days").and_then(|days| days.parse().ok()).unwrap_or(7);
    let email = posted.text("email").unwrap_or_default();
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let (made, secret) =
        accounts::invite(&acting, caller, email, role, days.saturating_mul(24 * 3600)).await?;
    acting.commit().await?;
    Ok((made.email, format!("{base}/ui/invitations/{}", secret.expose())))
}

#[derive(Template)]
#[template(path = "member_link.html")]
struct LinkPage {
    frame: Frame,
    title: &'static str,
    words: String,
    link: String,
}

/// Shows a link that contains a secret. It is only in the response to the request that created it.
async fn shown_once(app: &App, viewer: &Viewer, title: &'static str, words: String, link: String) -> Page {
    let mut frame = viewer.frame(app, Section::Members).await?;
    // A refresh would fetch the page without the link.
    frame.is_live = false;
    page(&LinkPage { frame, title, words, link })
}

/// `POST /ui/members`: changes a role, removes a member, revokes an invitation or a password reset link, or creates such a link.
pub(crate) async fn change(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    let id = |name: &str| posted.get(name).and_then(|id| Uuid::try_parse(id).ok());
    let done = if let Some(user) = id("remove") {
        remove(&app, &viewer, user).await
    } else if let Some(invitation) = id("revoke") {
        revoke(&app, &viewer, invitation).await
    } else if let Some(user) = id("revoke_reset") {
        let revoked = accounts::revoke_reset(&app, &viewer.caller, user).await;
        revoked.map(|revoked| format!("Revoked the password reset link for {}.", revoked.email))
    } else if let Some(email) = posted.get("reset") {
        let made = async {
            let base = viewer.link_url()?;
            let reset = accounts::begin_reset(&app, &viewer.caller, email).await?;
            let (_, secret) = reset.create(&viewer.caller).await?;
            reset.acting.commit().await?;
            Ok::<_, Problem>(format!("{base}/ui/password-resets/{}", secret.expose()))
        };
        match made.await {
            Ok(link) => {
                let words = format!(
                    "Send this link to {email}. It can be used once within 24 hours to set a new password. All sessions of the account are then signed out."
                );
                return shown_once(&app, &viewer, "Password reset", words, link).await;
            }
            Err(problem) => Err(problem),
        }
    } else if let Some(user) = id("user") {
        set_role(&app, &viewer, user, posted.get("role").unwrap_or_default()).await
    } else {
        Err(Problem::invalid("", "no member is specified"))
    };
    match done {
        Ok(words) => Ok(back("/ui/members", "succeeded", words)),
        Err(problem) if problem.kind.is_correctable() => {
            Ok(back("/ui/members", "failed", sentence(&problem.detail)))
        }
        Err(problem) => Err(problem.into()),
    }
}

async fn set_role(app: &App, viewer: &Viewer, user: Uuid, role: &str) -> Result<String, Problem> {
    let member = accounts::set_role(app, &viewer.caller, user, MemberRole::named(role)?).await?;
    Ok(format!("{} is now {}.", member.email, role_words(&member.role).to_lowercase()))
}

async fn remove(app: &App, viewer: &Viewer, user: Uuid) -> Result<String, Problem> {
    let removed = accounts::remove(app, &viewer.caller, user).await?;
    Ok(format!("Removed {}.", removed.email))
}

async fn revoke(app: &App, viewer: &Viewer, id: Uuid) -> Result<String, Problem> {
    let revoked = accounts::revoke_invitation(app, &viewer.caller, id).await?;
    Ok(format!("Revoked the invitation for {}.", revoked.email))
}
