//! Reads the bodies of requests, and limits their total size in memory.
//!
//! Two rules divide the budget. No holder may have more than what is still free: a single one can have half of it, two a third
//! each. And a quarter is reserved for holders with small bodies, because holders that come one after the other would otherwise
//! each take half of the rest until nothing is left. A holder is a tenant, a credential without a tenant, or the network of an
//! anonymous client. All anonymous clients share a quarter of the budget, which is divided by the same rules.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{Extensions, header};
use futures_util::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

use super::app::App;
use super::continued_access;
use super::problem::{Problem, ProblemKind};
use crate::auth::Caller;
use crate::server::{client_of, network_of};

/// A holder with no more bytes than this may use the reserved part of the budget.
const SMALL: usize = 64 * 1024;

/// The memory budget of the request bodies of this process.
#[derive(Debug, Clone)]
pub(crate) struct Bodies {
    most: usize,
    shares: Arc<Mutex<Shares>>,
}

#[derive(Debug, Default)]
struct Shares {
    of_all: usize,
    of_anonymous: usize,
    by_holder: HashMap<Holder, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    Tenant(Uuid),
    Credential(String),
    /// The messages of a network, which are signed by unknown senders. Without an address: a request within this process.
    Messages(Option<IpAddr>),
    /// The forms of a network, which are small. They are counted apart, so that messages do not keep anyone from signing in.
    Forms(Option<IpAddr>),
}

/// Bytes of the budget, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    bodies: Bodies,
    holder: Holder,
    bytes: usize,
}

impl Bodies {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, shares: Arc::default() }
    }

    fn hold(&self, holder: Holder) -> Held {
        Held { bodies: self.clone(), holder, bytes: 0 }
    }

    /// The share of a known caller, of which nothing is held yet.
    pub(super) fn hold_for(&self, caller: &Caller) -> Held {
        self.hold(Holder::of_caller(caller))
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock()
    }

    #[cfg(test)]
    fn of_all(&self) -> usize {
        self.shares().of_all
    }
}

impl Held {
    /// Takes more of the budget, or fails.
    fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let shares = self.bodies.shares();
        let is_anonymous = self.holder.is_anonymous();
        let own = shares.by_holder.get(&self.holder).copied().unwrap_or(0) + bytes;
        let most = self.bodies.most;
        if !fits(own, shares.of_all + bytes, most)
            || is_anonymous && !fits(own, shares.of_anonymous + bytes, most / 4)
        {
            drop(shares);
            let detail = "too many request bodies are in progress; try again later";
            return Err(Problem::of(ProblemKind::Unavailable, detail).retry_after(1));
        }
        drop(shares);
        self.add(bytes);
        Ok(())
    }

    /// Whether the holder has no more than its share.
    pub(super) fn has_room(&self) -> bool {
        let shares = self.bodies.shares();
        let own = shares.by_holder.get(&self.holder).copied().unwrap_or(0);
        fits(own, shares.of_all, self.bodies.most)
    }

    /// Takes more of the budget, whatever is left of it.
    pub(super) fn add(&mut self, bytes: usize) {
        let mut shares = self.bodies.shares();
        shares.of_all += bytes;
        shares.of_anonymous += if self.holder.is_anonymous() { bytes } else { 0 };
        *shares.by_holder.entry(self.holder.clone()).or_default() += bytes;
        drop(shares);
        self.bytes += bytes;
    }
}

/// Whether a holder can have `own` bytes if the holders of this budget then have `total` together.
fn fits(own: usize, total: usize, budget: usize) -> bool {
    let is_within_reserve = own <= SMALL || total <= budget - budget / 4;
    own <= budget.saturating_sub(total) && is_within_reserve
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut shares = self.bodies.shares();
        shares.of_all -= self.bytes;
        if self.holder.is_anonymous() {
            shares.of_anonymous -= self.bytes;
        }
        if let Some(own) = shares.by_holder.get_mut(&self.holder) {
            *own -= self.bytes;
            if *own == 0 {
                shares.by_holder.remove(&self.holder);
            }
        }
    }
}

impl Holder {
    /// The holder of a body of at most `most` bytes.
    fn of(request: &Extensions, most: usize) -> Self {
        let network = || client_of(request).map(network_of);
        match request.get::<Caller>() {
            Some(caller) => Self::of_caller(caller),
            None if most <= SMALL => Self::Forms(network()),
            None => Self::Messages(network()),
        }
    }

    fn of_caller(caller: &Caller) -> Self {
        caller.tenant.map_or_else(|| Self::Credential(caller.name()), Self::Tenant)
    }

    fn is_anonymous(&self) -> bool {
        match self {
            Self::Tenant(_) | Self::Credential(_) => false,
            Self::Messages(_) | Self::Forms(_) => true,
        }
    }
}

/// The same request with its whole body, which is read once and counted until the second value is dropped.
pub(super) async fn whole(request: Request, app: &App) -> Result<(Request, Held), Problem> {
    let (mut head, body) = request.into_parts();
    let known = Request::from_parts(head.clone(), body);
    let (bytes, held) = read(known, app, app.options().max_body_bytes).await?;
    head.extensions.insert(MeasuredBody);
    Ok((Request::from_parts(head, bytes.into()), held))
}

/// Marks a request whose body has been read and counted.
#[derive(Debug, Clone, Copy)]
struct MeasuredBody;

/// Whether the body of a request is being read. If the timeout of the whole request ends then, the client is slow, not the server.
#[derive(Debug, Clone, Default)]
pub(super) struct BodyProgress(Arc<AtomicBool>);

impl BodyProgress {
    pub(super) fn is_reading(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) fn too_slow() -> Problem {
    Problem::of(ProblemKind::RequestTimeout, "the body did not arrive in time")
}

/// A whole body of at most `most` bytes, within the body timeout, of a caller that still has access when it is complete. The second
/// value holds its share of the budget.
pub(crate) async fn read(request: Request, app: &App, most: usize) -> Result<(Bytes, Held), Problem> {
    let too_large =
        || Problem::of(ProblemKind::BodyTooLarge, format!("the body must have at most {most} bytes"));
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse::<usize>().ok()).is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let is_counted = request.extensions().get::<MeasuredBody>().is_some();
    let mut held = app.bodies().hold(Holder::of(request.extensions(), most));
    let (mut head, body) = request.into_parts();
    let mut chunks = body.into_data_stream();
    let reading = async {
        let (mut parts, mut length) = (Vec::new(), 0);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| Problem::of(ProblemKind::BadRequest, "the body is incomplete"))?;
            length += chunk.len();
            if length > most {
                return Err(too_large());
            }
            if !is_counted {
                held.grow(chunk.len())?;
            }
            parts.push(chunk);
        }
        // A body in one chunk, or one that was read before, is not copied.
        Ok(if let [only] = parts.as_slice() { only.clone() } else { parts.concat().into() })
    };
    let progress = head.extensions.get::<BodyProgress>().cloned().unwrap_or_default();
    progress.0.store(true, Ordering::Relaxed);
    let bytes = tokio::time::timeout(app.options().body_timeout, reading).await;
    progress.0.store(false, Ordering::Relaxed);
    let bytes = bytes.map_err(|_| too_slow())??;
    continued_access::check_again(&mut head, app).await?;
    Ok((bytes, held))
}

#[cfg(test)]
mod tests {
    use super::{Bodies, Holder};
    use uuid::Uuid;

    const KIB: usize = 1024;

    fn messages(last: u8) -> Holder {
        Holder::Messages(Some([192, 0, 2, last].into()))
    }

    #[test]
    fn a_holder_gets_at_most_what_is_free_and_anonymous_clients_a_quarter() {
        let bodies = Bodies::new(12_000 * KIB);
        let tenant = |number| bodies.hold(Holder::Tenant(Uuid::from_u128(number)));
        let (mut one, mut again) = (tenant(1), tenant(1));
        one.grow(4000 * KIB).unwrap();
        again.grow(2000 * KIB).unwrap();
        assert!(again.grow(1).is_err(), "half of it, for any number of requests");
        let mut other = tenant(2);
        other.grow(3000 * KIB).unwrap();
        assert!(other.grow(1).is_err(), "half of the rest");
        drop((one, again, other));
        let mut unknown = bodies.hold(messages(1));
        unknown.grow(1500 * KIB).unwrap();
        assert!(unknown.grow(1).is_err(), "half of the quarter of anonymous clients");
        tenant(3).grow(4000 * KIB).unwrap();
        drop(unknown);
        assert_eq!(bodies.of_all(), 0);
        assert!(bodies.shares().by_holder.is_empty(), "holders without bytes are removed");
    }

    /// each of them takes as much as it gets.
    #[test]
    fn holders_that_come_one_after_the_other_leave_room_for_small_bodies() {
        let bodies = Bodies::new(128 * 1024 * KIB);
        let greedy = |holder: Holder| {
            let mut held = bodies.hold(holder);
            while held.grow(16 * KIB).is_ok() {}
            held
        };
        let strangers: Vec<_> = (0..40).map(|network| greedy(messages(network))).collect();
        let mut same_network = bodies.hold(Holder::Forms(Some([192, 0, 2, 0].into())));
        same_network.grow(16 * KIB).unwrap();
        bodies.hold(messages(200)).grow(64 * KIB).unwrap();

        let tenants: Vec<_> = (0..40).map(|number| greedy(Holder::Tenant(Uuid::from_u128(number)))).collect();
        bodies.hold(Holder::Tenant(Uuid::max())).grow(64 * KIB).unwrap();
        bodies.hold(Holder::Forms(None)).grow(16 * KIB).unwrap();
        drop((strangers, tenants, same_network));
        assert_eq!(bodies.of_all(), 0);
    }
}
