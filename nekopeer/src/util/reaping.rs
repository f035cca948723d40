//! The end of orphans: whoever is process 1 of a container, or a subreaper, is given the processes whose parents end, and has
//! to take note of their end, or they stay as zombies.

use std::{collections::BTreeSet, fs, io};

use parking_lot::Mutex;
use rustix::process::{Pid, WaitOptions, child_subreaper, getpid, waitpid};
use scopeguard::guard;
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
};

/// Children of this process for whose end somebody waits.
static OWN: Mutex<BTreeSet<u32>> = parking_lot::const_mutex(BTreeSet::new());

/// Starts a child, whose end is left to whoever called until the guard is dropped.
pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, impl Drop + use<>)> {
    let mut own = OWN.lock(); // nobody takes it for an orphan before it is noted
    let child = command.spawn()?;
    own.extend(child.id());
    let awaited = guard(child.id(), |id| _ = id.map(|id| OWN.lock().remove(&id)));
    Ok((child, awaited))
}

/// Takes note of the end of orphans, if they come to this process. Never ends then.
pub(crate) async fn reap_orphans() {
    let is_given_orphans = getpid().is_init() || child_subreaper().is_ok_and(|reaper| reaper.is_some());
    match signal(SignalKind::child()) {
        Ok(mut ended) if is_given_orphans => loop {
            reap(|_| true);
            ended.recv().await;
        },
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "orphans stay as zombies"),
    }
}

/// Takes note of the end of those that are wanted and not awaited.
fn reap(is_wanted: impl Fn(&u32) -> bool) {
    let ended = children_that_ended(getpid());
    let own = OWN.lock();
    for id in ended.into_iter().filter(|id| is_wanted(id) && !own.contains(id)) {
        let id = i32::try_from(id).ok().and_then(Pid::from_raw);
        let _ = waitpid(id, WaitOptions::NOHANG); // or somebody else did
    }
}

/// The children of `parent` that have ended and whose end nobody took note of.
fn children_that_ended(parent: Pid) -> Vec<u32> {
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = parent.as_raw_nonzero().to_string();
    let is_one = |id: &u32| {
        let fields = stat(*id).unwrap_or_default();
        matches!(&fields[..], [state, of, ..] if state == "Z" && *of == parent)
    };
    ids.filter(is_one).collect()
}

/// What the kernel says of a process, from its state on; `None` if there is none.
pub(crate) fn stat(process: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in brackets, may contain anything.
    let (_, fields) = text.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// The child that is awaited is left, whenever it is looked for; another one is taken.
    #[tokio::test]
    async fn child_that_somebody_waits_for_keeps_its_exit_status() {
        let other = std::process::Command::new("true").stdin(Stdio::null()).spawn().unwrap().id();
        let (mut child, awaited) = spawn(Command::new("sh").args(["-c", "exit 7"])).unwrap();
        let (id, ended) = (child.id().unwrap(), || children_that_ended(getpid()));
        while !(ended().contains(&other) && ended().contains(&id)) {
            std::thread::yield_now();
        }
        let own = OWN.lock().clone();
        assert!(own.contains(&id) && !own.contains(&other));
        reap(|found| [id, other].contains(found)); // there are children of other tests
        assert_eq!((ended().contains(&id), ended().contains(&other)), (true, false));
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
        drop(awaited);
        assert!(!OWN.lock().contains(&id));
    }
}
