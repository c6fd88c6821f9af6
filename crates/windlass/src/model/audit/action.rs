//! Every action that the audit trail records, in one place.

use std::fmt;

/// Declares the actions with their names.
macro_rules! actions {
    ($($variant:ident => $name:literal,)*) => {
        /// An action that was done, or requested and denied. Its name is `noun.verb`.
        ///
        /// ```
        /// use windlass::admin::Action;
        ///
        /// assert_eq!(Action::JobCancel.as_str(), "job.cancel");
        /// assert!(!Action::JobCancel.is_only_denied());
        /// assert!(Action::ALL.contains(&Action::JobCancel));
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Action {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Action {
            /// Every action, sorted by name.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in the audit trail.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

actions! {
    DefinitionChange => "definition.change",
    DefinitionCreate => "definition.create",
    EventEmit => "event.emit",
    EventRetry => "event.retry",
    HoldPlace => "hold.place",
    HoldRelease => "hold.release",
    HookReceive => "hook.receive",
    InvitationAccept => "invitation.accept",
    InvitationCreate => "invitation.create",
    InvitationRevoke => "invitation.revoke",
    JobCancel => "job.cancel",
    JobCancelMany => "job.cancel_many",
    JobDeleteMany => "job.delete_many",
    JobEnqueue => "job.enqueue",
    JobEnqueueMany => "job.enqueue_many",
    JobRetry => "job.retry",
    JobRetryMany => "job.retry_many",
    MemberRemove => "member.remove",
    MemberRole => "member.role",
    PasswordChange => "password.change",
    PasswordReset => "password.reset",
    PasswordResetLink => "password.reset_link",
    PasswordResetRevoke => "password.reset_revoke",
    QueuePause => "queue.pause",
    QueueResume => "queue.resume",
    Request => "request",
    RetentionClear => "retention.clear",
    RetentionSet => "retention.set",
    SessionBegin => "session.begin",
    SessionEnd => "session.end",
    SessionTenant => "session.tenant",
    TenantChange => "tenant.change",
    TenantCreate => "tenant.create",
    TenantDelete => "tenant.delete",
    TenantLimits => "tenant.limits",
    TokenCreate => "token.create",
    TokenRevoke => "token.revoke",
    TokenRotate => "token.rotate",
    TriggerBackfill => "trigger.backfill",
    TriggerCreate => "trigger.create",
    TriggerDelete => "trigger.delete",
    TriggerRun => "trigger.run",
    TriggerUpdate => "trigger.update",
    WorkerDrain => "worker.drain",
    WorkerResume => "worker.resume",
}

impl Action {
    /// Whether only denied calls are recorded with this action.
    pub const fn is_only_denied(self) -> bool {
        matches!(self, Self::Request | Self::HookReceive)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Action;

    #[test]
    fn every_action_has_a_unique_name() {
        let names: BTreeSet<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
        assert_eq!(names.len(), Action::ALL.len());
    }
}
