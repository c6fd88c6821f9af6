//! Processes that are killed, frozen past their lease, upgraded, or whose clock is wrong.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rustix::process::Signal;

use super::plan::Victim;
use crate::Result;
use crate::soak::Site;
use crate::soak::installation::Installation;
use crate::soak::installation::slot::{Slot, send};
use crate::soak::ledger::Fact;
use crate::soak::work::LEASE_SECONDS;

fn choose<'a>(installation: &'a Installation, victim: Victim, random: &mut StdRng) -> Result<&'a Arc<Slot>> {
    let slots: Vec<_> = installation.slots.iter().filter(|slot| slot.role == victim.role()).collect();
    slots.choose(random).copied().ok_or_else(|| format!("there is no {victim:?}").into())
}

pub(super) fn kill(installation: &Installation, victim: Victim, random: &mut StdRng) -> Result<String> {
    let slot = choose(installation, victim, random)?;
    if slot.signal(Signal::KILL) {
        return Ok(slot.name.clone());
    }
    Err(format!("{} is not running", slot.name).into())
}

pub(super) async fn freeze(
    site: &Site,
    installation: &Installation,
    victim: Victim,
    random: &mut StdRng,
) -> Result<String> {
    let slot = choose(installation, victim, random)?;
    let pid = slot.pid().ok_or_else(|| format!("{} is not running", slot.name))?;
    site.ledger.note(Fact::Frozen { pid });
    if !send(pid, Signal::STOP) {
        return Err(format!("{} has ended", slot.name).into());
    }
    let lasts = Duration::from_secs(LEASE_SECONDS) + Duration::from_millis(random.random_range(1000..5000));
    tokio::time::sleep(lasts).await;
    // It may have been killed in the meantime.
    if slot.pid() == Some(pid) {
        send(pid, Signal::CONT);
    }
    site.ledger.note(Fact::Thawed { pid });
    Ok(format!("{} for {lasts:?}", slot.name))
}

/// An hour forward or back, or less.
pub(super) fn step_clock(installation: &Installation, random: &mut StdRng) -> Result<String> {
    let slot = installation.slots.iter().find(|slot| slot.clock.is_some());
    let slot = slot.ok_or("libfaketime is not installed")?;
    let clock = slot.clock.as_ref().ok_or("no clock")?;
    let seconds = random.random_range(-3600..=3600);
    // Written to another file and renamed, so that no process reads a part of it.
    let fresh = clock.with_extension("new");
    fs::write(&fresh, format!("{seconds:+}\n"))?;
    fs::rename(fresh, clock)?;
    Ok(format!("{} {seconds:+} s", slot.name))
}

/// One process after the other is replaced by the other program.
pub(super) fn roll_upgrade(installation: &Installation, random: &mut StdRng) -> Result<String> {
    let slots: Vec<_> = installation.slots.iter().filter(|slot| slot.programs.len() > 1).collect();
    let slot = slots.choose(random).ok_or("no previous program was given")?;
    let turn = slot.turn.fetch_add(1, Ordering::SeqCst) + 1;
    if !slot.signal(Signal::TERM) {
        return Err(format!("{} is not running", slot.name).into());
    }
    Ok(format!("{} to program {}", slot.name, turn % 2))
}
