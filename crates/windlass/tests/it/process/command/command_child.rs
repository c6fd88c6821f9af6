//! A program that the tests run as a command: its first argument selects what it does.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let mut out = io::stdout().lock();
    match arguments.get(1).map(String::as_str) {
        // Every argument, with NUL after each, which cannot be part of one.
        Some("echo") => {
            write!(out, "{}\0", arguments.len())?;
            for argument in &arguments {
                write!(out, "{argument}\0")?;
            }
        }
        // The arguments of many runs in one, each after its number of arguments; every run's are counted and returned.
        Some("echo-many") => {
            let mut rest = &arguments[2..];
            while let Some((count, more)) = rest.split_first() {
                let (own, others) = more.split_at_checked(count.parse()?).ok_or("too few")?;
                write!(out, "{}\0", own.len())?;
                for argument in own {
                    write!(out, "{argument}\0")?;
                }
                rest = others;
            }
        }
        // The environment, the descriptors and the directory.
        Some("dump") => {
            let mut variables: Vec<String> =
                env::vars().map(|(name, value)| format!("{name}={value}")).collect();
            variables.sort();
            let mut descriptors: Vec<i32> = Vec::new();
            for entry in fs::read_dir("/proc/self/fd")? {
                let name = entry?.file_name().to_string_lossy().parse()?;
                // The directory that is being read is one too.
                if fs::read_link(format!("/proc/self/fd/{name}")).is_ok_and(|to| !to.starts_with("/proc/")) {
                    descriptors.push(name);
                }
            }
            descriptors.sort_unstable();
            let status = fs::read_to_string("/proc/self/status")?;
            let privileges = status.lines().find(|line| line.starts_with("NoNewPrivs")).unwrap_or_default();
            let dump = serde_json::json!({
                "env": variables, "fds": descriptors, "cwd": env::current_dir()?, "no_new_privs": privileges,
                "stat": fs::read_to_string("/proc/self/stat")?,
            });
            writeln!(out, "{dump}")?;
        }
        Some("allocate") => {
            let bytes: usize = arguments.get(2).ok_or("how much?")?.parse()?;
            let mut memory: Vec<u8> = Vec::new();
            if memory.try_reserve_exact(bytes).is_err() {
                writeln!(io::stderr(), "no memory")?;
                std::process::exit(12);
            }
            memory.resize(bytes, 1);
            writeln!(out, "{}", memory.iter().step_by(4096).map(|byte| usize::from(*byte)).sum::<usize>())?;
        }
        // This many bytes, in lines.
        Some("print") => {
            let mut left: usize = arguments.get(2).ok_or("how much?")?.parse()?;
            let block: Vec<u8> = (0..64 * 1024)
                .map(|n| if n % 64 == 63 { b'\n' } else { b'a' + (n / 64 % 26) as u8 })
                .collect();
            while left > 0 {
                let count = left.min(block.len());
                out.write_all(&block[..count])?;
                left -= count;
            }
            writeln!(out, "the end")?;
        }
        _ => return Err("nothing to do".into()),
    }
    Ok(())
}
