//! The viewer of a page, and the data that their browser sent.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use jiff::Timestamp;
use uuid::Uuid;
use windlass::admin::Reach;

use super::flash;
use super::frame::{Flash, Frame, Section, TenantName};
use super::problem::PageProblem;
use crate::auth::session::{Secure, session_hash};
use crate::auth::{Caller, Permission, Role, Who};
use crate::http::{App, BaseUrl, LinkUrl, Problem};

/// A signed-in viewer.
#[derive(Debug)]
pub(crate) struct Viewer {
    pub(crate) caller: Caller,
    /// The URL of this page, as requested.
    pub(crate) address: String,
    /// The URL of the server as seen by the browser: for examples to copy.
    pub(crate) base_url: String,
    /// The same for links that are sent to other people, if it is known.
    link_url: Result<LinkUrl, Problem>,
    theme: Option<&'static str>,
    flash: Option<Flash>,
    /// The hash of the session, for members other than super-admins.
    session: Option<[u8; 32]>,
}

impl FromRequestParts<App> for Viewer {
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, PageProblem> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let BaseUrl(base_url) = BaseUrl::from_request_parts(parts, app).await?;
        let link_url = LinkUrl::from_request_parts(parts, app).await;
        let Ok(secure) = Secure::from_request_parts(parts, app).await;
        let is_person = matches!(caller.who, Who::User { .. }) && caller.role != Role::SuperAdmin;
        let session = session_hash(&parts.headers, secure).filter(|_| is_person);
        Ok(Self {
            caller,
            session,
            address: parts.uri.path_and_query().map_or("/ui/jobs", |address| address.as_str()).to_owned(),
            base_url,
            link_url,
            theme: theme(&parts.headers),
            flash: cookie(&parts.headers, flash::NAME).and_then(flash::read),
        })
    }
}

impl Viewer {
    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.caller.may(permission)
    }

    /// The base URL of links that are sent to other people. Fails if it is not known; so call it before anything is
    /// created.
    pub(crate) fn link_url(&self) -> Result<&str, Problem> {
        self.link_url.as_ref().map(|url| url.0.as_str()).map_err(Clone::clone)
    }

    /// The frame of the page. It ends its own read before the page starts one, so that a request never holds two
    /// connections.
    pub(crate) async fn frame(&self, app: &App, section: Section) -> Result<Frame, PageProblem> {
        let may_find = self.caller.may_choose_any_tenant();
        let reach = if may_find { Reach::Everything } else { self.caller.reach() };
        let reading = app.queue().read(reach).await?;
        let now = reading.now().await?;
        let tenant = reading.tenant_names(Some(&[self.caller.tenant()]), 1).await?.pop();
        let tenants = if may_find { reading.tenant_names(None, SWITCHER).await? } else { Vec::new() };
        reading.end().await?;
        let tenants = if may_find { tenants } else { self.memberships(app).await? };
        let dead_letters = match self.may(Permission::ReadJobs) {
            true => app.pulses().dead_letters(app.queue(), self.caller.reach()).await?,
            false => 0,
        };
        let names = |(id, name): (Uuid, String)| TenantName { id, name };
        Ok(Frame {
            is_live: true,
            dead_letters,
            now,
            tenant: tenant.map(names),
            may_switch: may_find || tenants.len() > 1,
            may_find,
            tenants: tenants.into_iter().map(names).collect(),
            ..self.bare_frame(section)
        })
    }

    /// The tenants of which the user is a member.
    async fn memberships(&self, app: &App) -> Result<Vec<(Uuid, String)>, PageProblem> {
        let Some(hash) = &self.session else { return Ok(Vec::new()) };
        let session = app.queue().session_of(hash).await?;
        let members = session.map(|session| session.members).unwrap_or_default();
        Ok(members.into_iter().map(|member| (member.tenant_id, member.name)).collect())
    }

    /// The frame of a page that reads nothing from the database.
    pub(crate) fn bare_frame(&self, section: Section) -> Frame {
        Frame {
            section,
            theme: self.theme,
            is_live: false,
            now: Timestamp::now(),
            who: self.who(),
            role: role_words(self.caller.role),
            acting_for: self.caller.tenant(),
            tenant: None,
            tenants: Vec::new(),
            may_switch: false,
            may_find: false,
            sections: self.sections(),
            dead_letters: 0,
            search: String::new(),
            flash: self.flash.clone(),
        }
    }

    /// What a page shows that covers all tenants for a super-admin who has not chosen one, and otherwise the tenant.
    pub(crate) fn scope_words(&self, frame: &Frame) -> String {
        match (self.caller.wide_reach().tenant(), &frame.tenant) {
            (None, _) => "All tenants".to_owned(),
            (Some(_), Some(tenant)) => tenant.name.clone(),
            (Some(_), None) => "This tenant".to_owned(),
        }
    }

    fn who(&self) -> String {
        match &self.caller.who {
            Who::Token { name, .. } => format!("Token {name}"),
            Who::User { email, .. } => email.clone(),
            Who::Jwt { subject, .. } => subject.clone(),
            Who::Hook { name } => format!("Hook {name}"),
            Who::Local { user, .. } => user.clone(),
        }
    }

    /// The navigation contains only the sections that the viewer can open.
    fn sections(&self) -> Vec<Section> {
        let needs = [
            (Section::Jobs, Permission::ReadJobs),
            (Section::Triggers, Permission::ReadTriggers),
            (Section::DeadLetters, Permission::ReadJobs),
            (Section::Queues, Permission::ReadJobs),
            (Section::Workers, Permission::Administer),
            (Section::Overview, Permission::Administer),
            (Section::Retention, Permission::ReadJobs),
            (Section::Definitions, Permission::Administer),
            (Section::Tenants, Permission::Administer),
            (Section::Members, Permission::ManageMembers),
            (Section::Tokens, Permission::ManageTokens),
            (Section::Audit, Permission::ReadAudit),
        ];
        needs
            .into_iter()
            .filter(|(_, permission)| self.may(*permission))
            .map(|(section, _)| section)
            .collect()
    }
}

/// The number of tenants in the switcher before a search.
pub(crate) const SWITCHER: u16 = 20;

/// The role with this name in words; an unknown name is returned unchanged.
pub(super) fn role_name(role: &str) -> String {
    role.parse().map_or_else(|_| role.to_owned(), |role| role_words(role).to_owned())
}

const fn role_words(role: Role) -> &'static str {
    match role {
        Role::Viewer => "Viewer",
        Role::Operator => "Operator",
        Role::TenantAdmin => "Tenant admin",
        Role::Worker => "Worker",
        Role::SuperAdmin => "Super-admin",
    }
}

/// The chosen theme; none means that of the system.
pub(crate) fn theme(headers: &HeaderMap) -> Option<&'static str> {
    match cookie(headers, "windlass_theme")? {
        "dark" => Some("dark"),
        "light" => Some("light"),
        _ => None,
    }
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}
