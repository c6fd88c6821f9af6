//! The frame of every page: the navigation, the top bar, the viewer and the current tenant.

use jiff::Timestamp;
use uuid::Uuid;

use super::assets;

/// The pages in the navigation, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Jobs,
    Triggers,
    DeadLetters,
    Queues,
    Workers,
    Overview,
    Retention,
    Definitions,
    Tenants,
    Members,
    Tokens,
    Audit,
    /// Not in the navigation.
    Other,
}

impl Section {
    const SIDEBAR: [Self; 12] = [
        Self::Jobs,
        Self::Triggers,
        Self::DeadLetters,
        Self::Queues,
        Self::Workers,
        Self::Overview,
        Self::Retention,
        Self::Definitions,
        Self::Tenants,
        Self::Members,
        Self::Tokens,
        Self::Audit,
    ];

    const fn look(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Jobs => ("/ui/jobs", "jobs", "Jobs"),
            Self::Triggers => ("/ui/triggers", "triggers", "Triggers"),
            Self::DeadLetters => ("/ui/dead-letters", "dead", "Dead letters"),
            Self::Queues => ("/ui/queues", "queues", "Queues"),
            Self::Workers => ("/ui/workers", "workers", "Workers"),
            Self::Overview => ("/ui/overview", "overview", "Overview"),
            Self::Retention => ("/ui/retention", "retention", "Retention"),
            Self::Definitions => ("/ui/definitions", "definitions", "Definitions"),
            Self::Tenants => ("/ui/tenants", "tenants", "Tenants"),
            Self::Members => ("/ui/members", "members", "Members"),
            Self::Tokens => ("/ui/tokens", "tokens", "Tokens"),
            Self::Audit => ("/ui/audit", "audit", "Audit trail"),
            Self::Other => ("/ui/jobs", "jobs", ""),
        }
    }

    /// Whether the page shows the whole installation, and is refreshed when a job of any tenant changes.
    pub(crate) const fn is_global(self) -> bool {
        matches!(self, Self::Queues | Self::Workers | Self::Overview | Self::Tenants)
    }
}

/// One item of the navigation.
pub(crate) struct SidebarItem {
    pub(crate) href: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) word: &'static str,
    pub(crate) is_current: bool,
    pub(crate) starts_group: bool,
    /// On a phone it is in the menu "More".
    pub(crate) is_second: bool,
    pub(crate) count: i64,
}

/// The id and the name of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TenantName {
    pub(crate) id: Uuid,
    pub(crate) name: String,
}

/// The message about the last action, shown once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flash {
    pub(crate) role: &'static str,
    pub(crate) text: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) section: Section,
    pub(crate) theme: Option<&'static str>,
    pub(crate) is_live: bool,
    pub(crate) now: Timestamp,
    pub(crate) who: String,
    pub(crate) role: &'static str,
    /// The tenant of the caller, which the forms of the page name.
    pub(crate) acting_for: Uuid,
    pub(crate) tenant: Option<TenantName>,
    pub(crate) tenants: Vec<TenantName>,
    pub(crate) may_switch: bool,
    /// Tenants other than `tenants` can be searched for: a super-admin has too many of them for a list.
    pub(crate) may_find: bool,
    /// The sections that this viewer can open.
    pub(crate) sections: Vec<Section>,
    pub(crate) dead_letters: i64,
    pub(crate) search: String,
    pub(crate) flash: Option<Flash>,
}

impl Frame {
    pub(crate) fn css(&self) -> String {
        assets::css_address()
    }

    pub(crate) fn js(&self) -> String {
        assets::js_address()
    }

    pub(crate) fn has_more(&self) -> bool {
        self.sidebar().iter().any(|item| item.is_second)
    }

    pub(crate) fn is_in_more(&self) -> bool {
        self.sidebar().iter().any(|item| item.is_second && item.is_current)
    }

    pub(crate) fn sidebar(&self) -> Vec<SidebarItem> {
        let shown = Section::SIDEBAR.into_iter().filter(|section| self.sections.contains(section));
        let mut has_group = false;
        let item = |section: Section| {
            let (href, icon, word) = section.look();
            let is_second = !matches!(
                section,
                Section::Jobs | Section::Triggers | Section::DeadLetters | Section::Queues | Section::Workers
            );
            let starts_group = is_second && !has_group;
            has_group |= is_second;
            SidebarItem {
                href,
                icon,
                word,
                is_current: section == self.section,
                starts_group,
                is_second,
                count: if section == Section::DeadLetters { self.dead_letters } else { 0 },
            }
        };
        shown.map(item).collect()
    }
}

#[cfg(test)]
impl Frame {
    pub(crate) fn for_tests() -> Self {
        Self {
            section: Section::Jobs,
            theme: None,
            is_live: false,
            now: Timestamp::UNIX_EPOCH,
            who: "ada@example.test".to_owned(),
            role: "Tenant admin",
            acting_for: Uuid::nil(),
            tenant: Some(TenantName { id: Uuid::nil(), name: "Acme".to_owned() }),
            tenants: Vec::new(),
            may_switch: false,
            may_find: false,
            sections: Section::SIDEBAR.to_vec(),
            dead_letters: 3,
            search: String::new(),
            flash: None,
        }
    }
}
