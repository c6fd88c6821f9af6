//! Which connections are open: how many, and how many of one network. If there are as many as allowed, a new one replaces the one that
//! has been idle for the longest time, so that clients which only keep connections open do not keep others out, such as health checks.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use windlass::internals::{SlotGuard, Slots};

use super::idle::Activity;

/// How often to search for an idle connection while all of them are in use.
const AGAIN: Duration = Duration::from_millis(100);

/// The open connections.
#[derive(Debug)]
pub(super) struct Admission {
    slots: Arc<Semaphore>,
    /// Of an IPv4 address or an IPv6 /64, of a /56, and of a /48.
    of_networks: [Slots<IpAddr>; 3],
    open: Arc<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: AtomicU64,
    connections: Mutex<HashMap<u64, (Activity, CancellationToken)>>,
}

/// One of them, until this is dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    /// Canceled when another connection takes its place.
    pub(super) replaced: CancellationToken,
    number: u64,
    open: Arc<Open>,
    _of_networks: Vec<SlotGuard<IpAddr>>,
    _slot: OwnedSemaphorePermit,
}

impl Admission {
    pub(super) fn new(of_all: usize, of_network: usize) -> Self {
        let of = |times: usize| Slots::new(of_network.saturating_mul(times));
        Self {
            slots: Arc::new(Semaphore::new(of_all)),
            of_networks: [of(1), of(2), of(4)],
            open: Arc::default(),
        }
    }

    /// Admits a connection, which counts for this address; none if its network has too many. Waits while all connections are in use.
    pub(super) async fn admit(&self, counted: Option<IpAddr>, activity: &Activity) -> Option<Admitted> {
        let networks = counted.map(networks).unwrap_or_default();
        let of_networks =
            self.of_networks.iter().zip(networks).map(|(slots, network)| slots.take(network, 1));
        let of_networks: Vec<_> = of_networks.collect::<Option<_>>()?;
        let slot = loop {
            if let Ok(slot) = self.slots.clone().try_acquire_owned() {
                break slot;
            }
            self.open.replace_idle();
            let freed = tokio::time::timeout(AGAIN, self.slots.clone().acquire_owned()).await;
            if let Ok(slot) = freed {
                break slot.ok()?;
            }
        };
        let replaced = CancellationToken::new();
        let number = self.open.next.fetch_add(1, Ordering::Relaxed);
        self.open.connections().insert(number, (activity.clone(), replaced.clone()));
        Some(Admitted { replaced, number, open: self.open.clone(), _of_networks: of_networks, _slot: slot })
    }
}

impl Open {
    fn replace_idle(&self) {
        let connections = self.connections();
        let idle = connections.values().filter(|(_, replaced)| !replaced.is_cancelled());
        let idle = idle.filter_map(|(activity, replaced)| Some((activity.idle_since()?, replaced)));
        if let Some((_, replaced)) = idle.min_by_key(|(since, _)| *since) {
            replaced.cancel();
        }
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<u64, (Activity, CancellationToken)>> {
        self.connections.lock()
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.open.connections().remove(&self.number);
    }
}

/// One IPv6 client usually has a whole /64.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => first_bits(six, 64),
        four @ IpAddr::V4(_) => four,
    }
}

/// The networks of an address, from the narrowest to the widest.
fn networks(address: IpAddr) -> Vec<IpAddr> {
    match address.to_canonical() {
        IpAddr::V6(six) => [64, 56, 48].map(|bits| first_bits(six, bits)).to_vec(),
        four @ IpAddr::V4(_) => vec![four],
    }
}

fn first_bits(address: Ipv6Addr, bits: u32) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (!0 << (128 - bits))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Version;

    #[test]
    fn an_ipv6_network_of_64_bits_is_one_client() {
        let of = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    /// an organization has 65,536 networks of 64 bits.
    #[tokio::test]
    async fn wider_networks_have_limits_of_their_own() {
        let admission = Admission::new(100, 2);
        let admit = async |text: &str| admission.admit(text.parse().ok(), &Activity::default()).await;
        let mut held = Vec::new();
        for host in ["2001:db8::1", "2001:db8::2"] {
            held.push(admit(host).await.unwrap());
        }
        assert!(admit("2001:db8::3").await.is_none(), "two of a /64");
        for host in ["2001:db8:0:1::1", "2001:db8:0:2::1"] {
            held.push(admit(host).await.unwrap());
        }
        assert!(admit("2001:db8:0:3::1").await.is_none(), "four of a /56");
        for network in 1..=4 {
            held.push(admit(&format!("2001:db8:0:{network}00::1")).await.unwrap());
        }
        assert!(admit("2001:db8:0:500::1").await.is_none(), "eight of a /48");
        held.push(admit("2001:db8:1::1").await.unwrap());
        held.clear();
        assert!(admit("2001:db8::3").await.is_some());
        assert!(admission.open.connections().is_empty());
    }

    #[tokio::test]
    async fn a_new_connection_replaces_the_one_that_has_been_idle_the_longest() {
        let admission = Admission::new(3, 10);
        let activities = [(); 3].map(|()| Activity::default());
        let mut open = Vec::new();
        for activity in &activities {
            open.push(Some(admission.admit(None, activity).await.unwrap()));
        }
        let in_progress = activities[0].begin(Version::HTTP_11);
        drop(activities[1].begin(Version::HTTP_11));
        let own = Activity::default();
        let mut waiting = Box::pin(admission.admit(None, &own));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        let replaced: Vec<bool> =
            open.iter().flatten().map(|admitted| admitted.replaced.is_cancelled()).collect();
        assert_eq!(replaced, [false, false, true], "the first is in use, the second was used later");
        open.pop();
        assert!(waiting.await.is_some());
        drop(in_progress);
    }
}
