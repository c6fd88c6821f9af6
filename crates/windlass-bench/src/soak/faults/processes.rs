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

pub(super) async fn kill_command(installation: &Installation, random: &mut StdRng) -> Result<String> {
    let pid = descendant(installation, random).await?;
    if send(pid, Signal::KILL) { Ok(format!("process {pid}")) } else { Err("it has ended".into()) }
}

/// Past the lease. Its worker must end it and everything that it started.
pub(super) async fn freeze_command(installation: &Installation, random: &mut StdRng) -> Result<String> {
    let pid = descendant(installation, random).await?;
    if !send(pid, Signal::STOP) {
        return Err("it has ended".into());
    }
    tokio::time::sleep(Duration::from_secs(LEASE_SECONDS + 2)).await;
    // Not if another process has its number now: only ours are stopped.
    if state_of(pid) == Some('T') {
        send(pid, Signal::CONT);
    }
    Ok(format!("process {pid}"))
}

/// A process that the worker of commands has started, or one that such a process has started. Waits for one for a moment.
async fn descendant(installation: &Installation, random: &mut StdRng) -> Result<u32> {
    let worker = choose(installation, Victim::CommandWorker, random)?;
    for _ in 0..200 {
        let mut found = worker.pid().map(children).unwrap_or_default();
        found.extend(found.clone().into_iter().flat_map(children));
        if let Some(pid) = found.choose(random) {
            return Ok(*pid);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err("no command is running".into())
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let texts =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
