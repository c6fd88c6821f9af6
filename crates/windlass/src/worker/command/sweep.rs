//! Finds and kills the descendants of a process and the processes of its session.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

#[derive(Debug, Clone, Copy)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    rss_pages: u64,
    is_dead: bool,
}

/// Returns how many processes descend from this one, and their total memory.
pub(crate) fn census(ancestor: i32) -> (u64, u64) {
    let processes = living();
    let found = descendants(&processes, ancestor);
    let page = rustix::param::page_size() as u64;
    let memory =
        processes.iter().filter(|one| found.contains(&one.pid)).map(|one| one.rss_pages * page).sum();
    (found.len() as u64, memory)
}

/// Kills every descendant of this process.
pub(crate) fn kill_descendants(ancestor: i32) {
    for pid in descendants(&living(), ancestor) {
        kill(pid);
    }
}

/// Kills a supervisor that has exited or does not respond, its descendants, and the processes of its session or of the
/// group of its command, until none are left. A process that left the session before the supervisor died has no parent
/// any more and cannot be distinguished from others.
pub(crate) fn kill_session(leader: i32, group: Option<i32>) {
    let give_up = Instant::now() + Duration::from_secs(5);
    loop {
        let processes = living();
        let below = descendants(&processes, leader);
        let ours = processes.iter().filter(|one| {
            one.pid == leader || one.session == leader || Some(one.group) == group || below.contains(&one.pid)
        });
        let ours: Vec<i32> = ours.map(|one| one.pid).collect();
        if ours.is_empty() || Instant::now() > give_up {
            return;
        }
        ours.into_iter().for_each(kill);
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended by itself meanwhile.
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn descendants(processes: &[Process], ancestor: i32) -> HashSet<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = HashSet::new();
    let mut open = vec![ancestor];
    while let Some(parent) = open.pop() {
        for &child in children.get(&parent).into_iter().flatten() {
            if found.insert(child) {
                open.push(child);
            }
        }
    }
    found
}

/// Returns every process except those that have ended and wait to be reaped.
fn living() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let read = |pid| parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    pids.filter_map(read).filter(|process| !process.is_dead).collect()
}

/// The name may contain any character, so the fields are counted from the last parenthesis.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
    Some(Process {
        pid,
        is_dead: matches!(*fields.first()?, "Z" | "X"),
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        rss_pages: fields.get(21)?.parse().ok()?,
    })
}

/// Returns how many tasks the machine has: far cheaper to read than a census.
pub(crate) fn tasks() -> u64 {
    let read = || fs::read_to_string("/proc/loadavg").ok()?.split(['/', ' ']).nth(4)?.parse().ok();
    read().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_skipped() {
        let line =
            "12 (a) b (c)) S 1 12 10 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 100 5000 42 18446744073709551615";
        let process = parse(12, line).unwrap();
        assert_eq!((process.parent, process.group, process.session, process.rss_pages), (1, 12, 10, 42));
    }

    #[test]
    fn the_machine_has_tasks_and_this_process_is_counted_under_its_parent() {
        assert!((1..10_000_000).contains(&tasks()));
        let parent =
            living().iter().find(|one| one.pid == i32::try_from(std::process::id()).unwrap()).unwrap().parent;
        assert!(census(parent).0 >= 1);
    }
}
