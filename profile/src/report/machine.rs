//! Where and of what a measurement was made: processor, system, commit, memory.

use super::{bytes, count, mib};
use crate::cluster::layout::cores;
use crate::prelude::*;

/// The commit this program was built from, with `-dirty` if files were changed; empty if unknown.
pub const COMMIT: &str = env!("NEKO_COMMIT");

/// The compiler this program was built with; empty if unknown.
pub const RUSTC: &str = env!("NEKO_RUSTC");

/// The machine, and how this program was built, for the results.
pub fn describe() -> Value {
    json!({
        "cpu": cpu(),
        "cores": cores(),
        "rustc": RUSTC,
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "memory_mib": bytes_of("/proc/meminfo", "MemTotal:").map(|bytes| bytes >> 20),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
    })
}

pub fn in_words() -> String {
    format!("{} core(s) of {}", cores(), cpu())
}

fn cpu() -> String {
    let name = line_of("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned());
    name.trim_start_matches([':', '\t', ' ']).to_owned()
}

/// Seconds of processor time that process `pid` has taken, user and system; `None` where the system does not say.
pub fn cpu_s(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, in parentheses, is any text; ticks of user and system time are the 14th and 15th.
    let mut ticks =
        stat.rsplit_once(')')?.1.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    let ticks = ticks.next()?? + ticks.next()??;
    Some(bytes(ticks) / bytes(rustix::param::clock_ticks_per_second()))
}

/// Resident memory of process `pid` in bytes; `None` where the system does not say.
pub fn rss_bytes(pid: u32) -> Option<u64> {
    bytes_of(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// The most memory of process `pid` that was ever resident at once, in bytes, or since it was told to
/// forget that; `None` where the system does not say.
pub fn peak_bytes(pid: u32) -> Option<u64> {
    bytes_of(&format!("/proc/{pid}/status"), "VmHWM:")
}

/// Makes the system forget the most memory of process `pid` so far.
pub fn forget_peak(pid: u32) {
    // Where this is not allowed the peak is that of the whole life of the process, which is no less.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// What one process takes at a moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Taken {
    /// Seconds since the beginning.
    pub(crate) at_s: f64,
    pub(crate) memory_mib: f64,
    pub(crate) descriptors: f64,
    pub(crate) threads: f64,
}

/// What process `pid` takes; `None` if it is gone.
pub(crate) fn taken(pid: u32, at_s: f64) -> Option<Taken> {
    let entries = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).ok().map(Iterator::count);
    let (descriptors, threads) = (count(entries("fd")?), count(entries("task")?));
    Some(Taken { at_s, memory_mib: mib(rss_bytes(pid)?), descriptors, threads })
}

/// Memory in bytes that programs can still have; `None` where the system does not say.
pub fn available_bytes() -> Option<u64> {
    bytes_of("/proc/meminfo", "MemAvailable:")
}

fn line_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)).map(|rest| rest.trim().to_owned())
}

fn bytes_of(path: &str, key: &str) -> Option<u64> {
    Some(line_of(path, key)?.trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}
