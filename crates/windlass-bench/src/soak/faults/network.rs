//! The network between one process and Postgres, or between the callers and Postgres.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::plan::Kind;
use crate::Result;
use crate::soak::installation::Installation;
use crate::soak::installation::proxy::{Direction, Network, Proxy};
use crate::soak::work::LEASE_SECONDS;

pub(super) async fn disturb(installation: &Installation, kind: Kind, random: &mut StdRng) -> Result<String> {
    let mut networks: Vec<(&str, &Proxy)> =
        vec![("library", &installation.library), ("sql", &installation.sql)];
    networks.extend(
        installation.slots.iter().filter_map(|slot| Some((slot.name.as_str(), slot.proxy.as_ref()?))),
    );
    let (name, proxy) = *networks.choose(random).ok_or("there is no network")?;
    let by = Duration::from_millis(random.random_range(50..1500));
    let network = match kind {
        Kind::DelayToServer => Network::Delay(Direction::ToServer, by),
        Kind::DelayToClient => Network::Delay(Direction::ToClient, by),
        Kind::BlackHoleToServer => Network::BlackHole(Direction::ToServer),
        Kind::BlackHoleToClient => Network::BlackHole(Direction::ToClient),
        Kind::HalfOpenToServer => Network::HalfOpen(Direction::ToServer),
        Kind::HalfOpenToClient => Network::HalfOpen(Direction::ToClient),
        _ => Network::Cut,
    };
    // Half of them past the lease of a worker.
    let milliseconds = if random.random_bool(0.5) {
        LEASE_SECONDS * 1000 + random.random_range(1000..4000)
    } else {
        random.random_range(200..3000)
    };
    proxy.set(network);
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    proxy.set(Network::Healthy);
    Ok(format!("{name}: {network:?} for {milliseconds} ms"))
}
