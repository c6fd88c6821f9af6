//! The trace of a job, from its enqueue to its end, as W3C Trace Context ids. Nothing is stored for it: a job with a
//! traceparent belongs to that trace, any other job to a trace with its own id, and the ids of its spans are derived
//! from the job id and the attempt number. So every process that runs an attempt computes the same ids.

use uuid::Uuid;

/// The trace of a job, and the parent span.
///
/// ```
/// use windlass::job::Trace;
///
/// let job = uuid::Uuid::from_u128(7);
/// let trace = Trace::of(job, Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
/// assert_eq!(trace.id(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert_eq!(trace.parent_span().as_deref(), Some("00f067aa0ba902b7"));
/// assert_ne!(trace.attempt_span(1), trace.job_span());
/// assert_eq!(trace.traceparent(1), format!("00-{}-{}-01", trace.id(), trace.attempt_span(1)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    job: Uuid,
    id: u128,
    parent: Option<u64>,
    /// The caller decides whether the trace is sampled; passed on unchanged.
    flags: u8,
}

impl Trace {
    /// `given` is the traceparent of the enqueue, if any; an invalid one is ignored.
    #[must_use]
    pub fn of(job: Uuid, given: Option<&str>) -> Self {
        match given.and_then(read) {
            Some((id, parent, flags)) => Self { job, id, parent: Some(parent), flags },
            None => Self { job, id: job.as_u128(), parent: None, flags: 1 },
        }
    }

    /// Returns the trace id, as 32 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{:032x}", self.id)
    }

    /// Returns the span of the enqueue, as 16 hexadecimal digits.
    #[must_use]
    pub fn parent_span(&self) -> Option<String> {
        self.parent.map(|parent| format!("{parent:016x}"))
    }

    /// Returns the span of the whole job.
    #[must_use]
    pub fn job_span(&self) -> String {
        format!("{:016x}", mix(self.job, 0))
    }

    /// Returns the span of one attempt, a child of the job's span.
    #[must_use]
    pub fn attempt_span(&self, attempt: i32) -> String {
        format!("{:016x}", mix(self.job, u64::from(attempt.unsigned_abs())))
    }

    /// Returns the traceparent that the attempt passes to the services that it calls.
    #[must_use]
    pub fn traceparent(&self, attempt: i32) -> String {
        format!("00-{}-{}-{:02x}", self.id(), self.attempt_span(attempt), self.flags)
    }
}

/// Whether a new job or event may have this traceparent. The SQL function `is_traceparent` checks the same.
pub(crate) fn is_traceparent(text: &str) -> bool {
    text.trim() == text && read(text).is_some()
}

/// `00-<32 hex>-<16 hex>-<2 hex>`; a zero id is invalid.
fn read(text: &str) -> Option<(u128, u64, u8)> {
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex =
        |part: &str, length: usize| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_hex(version, 2) || version == "ff" || !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2)
    {
        return None;
    }
    let trace = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
    let span = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
    Some((trace, span, u8::from_str_radix(flags, 16).ok()?))
}

/// Mixes the halves of an id and a number, so that similar numbers have very different ids; never zero.
fn mix(job: Uuid, number: u64) -> u64 {
    let (high, low) = job.as_u64_pair();
    let mut value = high ^ low.rotate_left(32) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (value ^ value >> 31).max(1)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::Trace;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_job_joins_the_given_trace_or_starts_its_own() {
        let job = Uuid::from_u128(7);
        let joined = Trace::of(job, Some(GIVEN));
        assert_eq!(joined.id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(joined.parent_span().as_deref(), Some("00f067aa0ba902b7"));
        let own = Trace::of(job, None);
        assert_eq!((own.id(), own.parent_span()), (format!("{:032x}", 7), None));
        for bad in ["", "x", "00-0-0-01", &GIVEN.replace("4bf9", "zzzz"), &GIVEN.replace("00-", "ff-")] {
            assert_eq!(Trace::of(job, Some(bad)), own, "{bad}");
        }
    }

    #[test]
    fn spans_differ_by_attempt_and_are_the_same_everywhere() {
        let trace = Trace::of(Uuid::from_u128(7), Some(GIVEN));
        let again = Trace::of(Uuid::from_u128(7), None);
        let spans: std::collections::HashSet<String> =
            (1..100).map(|n| trace.attempt_span(n)).chain([trace.job_span()]).collect();
        assert_eq!(spans.len(), 100);
        assert_eq!(trace.attempt_span(3), again.attempt_span(3));
        assert_eq!(trace.traceparent(1).len(), GIVEN.len());
        let unsampled = Trace::of(Uuid::from_u128(7), Some(&GIVEN.replace("-01", "-00")));
        assert!(unsampled.traceparent(1).ends_with("-00"), "the caller decided not to sample");
        assert!(
            Trace::of(Uuid::nil(), Some(&trace.traceparent(1))).parent_span() == Some(trace.attempt_span(1))
        );
    }
}
