//! Memory of processes, and this program as a child process.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::Result;

/// The last line that a child driver printed, and its peak memory.
pub(crate) struct Ran {
    pub(crate) last_line: Value,
    pub(crate) peak_rss_kb: u64,
}

/// Runs `windlass-bench driver ARGS…` on a database, in a separate process, so that its memory can be measured.
pub(crate) async fn run_driver(url: &str, words: &[String], limit: Duration) -> Result<Ran> {
    let ran = tokio::time::timeout(limit, run_unlimited(url, words)).await;
    ran.map_err(|_| format!("driver {} was still running after {} s", words.join(" "), limit.as_secs()))?
}

async fn run_unlimited(url: &str, words: &[String]) -> Result<Ran> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("driver")
        .args(words)
        .env("DATABASE_URL", url)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let status_file = format!("/proc/{}/status", child.id().unwrap_or_default());
    let mut output = child.stdout.take().ok_or("the child process has no output")?;
    let mut text = String::new();
    let mut peak_rss_kb = 0;
    let mut reading = Box::pin(output.read_to_string(&mut text));
    // The kernel keeps the peak, so sampling misses only the last moment.
    loop {
        tokio::select! {
            read = &mut reading => {
                read?;
                break;
            }
            () = tokio::time::sleep(Duration::from_millis(50)) => {
                peak_rss_kb = memory_kb(&status_file, "VmHWM:").unwrap_or(0).max(peak_rss_kb);
            }
        }
    }
    drop(reading);
    let status = child.wait().await?;
    if !status.success() {
        return Err(format!("driver {} failed: {status}", words.join(" ")).into());
    }
    let last_line =
        text.lines().last().ok_or_else(|| format!("driver {} printed nothing", words.join(" ")))?;
    Ok(Ran { last_line: serde_json::from_str(last_line)?, peak_rss_kb })
}

/// The CPU time of a process with all its threads: fields 14 and 15 of its `stat`, in hundredths of a second.
pub(crate) fn cpu_seconds(process: u32) -> Option<f64> {
    cpu_fields(process).map(|(own, _)| own)
}

/// The CPU time of a process, and of the children that it has waited for.
fn cpu_fields(process: u32) -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program name in parentheses, and can contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let ticks: Vec<f64> = rest.split(' ').skip(11).take(4).filter_map(|ticks| ticks.parse().ok()).collect();
    let [user, system, children_user, children_system] = ticks[..] else { return None };
    Some(((user + system) / 100.0, (children_user + children_system) / 100.0))
}

/// The CPU time of a Postgres server, given one of its sessions: of the main process, of the processes that it has waited for, and of
/// those that run. Only on the machine of the server.
///
/// A process that the server waits for between the two readings would be in neither, so they are repeated until none was.
pub(crate) fn server_cpu_seconds(backend: u32) -> Option<f64> {
    let server = parent_of(backend)?;
    loop {
        let (_, ended_before) = cpu_fields(server)?;
        let running = running_children(server)?;
        let (own, ended) = cpu_fields(server)?;
        if ended == ended_before {
            return Some(own + ended + running);
        }
    }
}

fn running_children(server: u32) -> Option<f64> {
    let mut seconds = 0.0;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if parent_of(process) == Some(server) {
            seconds += cpu_seconds(process).unwrap_or_default();
        }
    }
    Some(seconds)
}

/// The name of the program that a process runs.
pub(crate) fn program_of(process: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{process}/comm")).ok()
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// The current resident memory of this process.
pub(crate) fn own_rss_kb() -> u64 {
    memory_kb("/proc/self/status", "VmRSS:").unwrap_or(0)
}

/// A figure of a process's memory, from its status file in /proc.
pub(crate) fn memory_kb(status_file: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status_file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(field))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{cpu_seconds, own_rss_kb, program_of, server_cpu_seconds};

    #[test]
    fn a_process_reports_its_memory() {
        assert!(own_rss_kb() > 100);
    }

    #[test]
    fn a_process_reports_its_cpu_time() {
        let own = std::process::id();
        assert!(cpu_seconds(own).unwrap() >= 0.0);
        assert!(server_cpu_seconds(own).unwrap() >= cpu_seconds(own).unwrap());
        assert!(program_of(own).is_some_and(|name| name.starts_with("windlass")));
    }
}
