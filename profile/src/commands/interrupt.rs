//! Ctrl-C: ends a run early, with what was measured by then.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::bail;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::sleep,
};

use crate::run::Watch;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What a shell reports of a program ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Stops the run of `watch` at the first Ctrl-C or SIGTERM, and this process at the second.
///
/// # Errors
/// The system does not tell of signals.
pub fn listen(watch: Arc<Watch>) -> std::io::Result<()> {
    let (mut interrupts, mut terminations) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        either(&mut interrupts, &mut terminations).await;
        watch.stop.store(true, Ordering::Relaxed);
        either(&mut interrupts, &mut terminations).await;
        std::process::exit(INTERRUPTED);
    });
    Ok(())
}

async fn either(interrupts: &mut Signal, terminations: &mut Signal) {
    tokio::select! {
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
    }
}

/// What `work` gives, unless the run is stopped before; then `work` is dropped.
///
/// # Errors
/// Those of `work`, or that it was stopped.
pub async fn until_stopped<T>(
    watch: &Watch,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let stopped = async {
        while !watch.stop.load(Ordering::Relaxed) {
            sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        done = work => done,
        () = stopped => bail!("interrupted before anything was measured"),
    }
}
