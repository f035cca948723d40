//! The pacer: tells clients when a request is due, at a fixed rate, whatever becomes of earlier ones.

use tokio::sync::mpsc::UnboundedSender;

use super::Watch;
use crate::cluster::layout::on_any_core;
use crate::prelude::*;

/// The runtime's timers have a grain of a millisecond; a thread that sleeps with this slack, in
/// nanoseconds, wakes within some microseconds.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::MIN;
/// The longest sleep, so that a run at a low rate still ends soon when it is told to.
const LOOK_UP_EVERY: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// Requests per second, of all clients together.
    pub rate: f64,
    /// Number of requests, of all clients together.
    pub requests: usize,
    /// When the first one is due.
    pub began: Instant,
}

impl Pacer {
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^52 requests")]
    pub fn due(&self, n: usize) -> Instant {
        self.began + Duration::from_secs_f64(n as f64 / self.rate)
    }

    /// Starts a thread that tells each of `clients` in turn, and drops them at the end.
    pub fn start(
        self,
        clients: Vec<UnboundedSender<Instant>>,
        watch: Arc<Watch>,
    ) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name("pacer".to_owned()).spawn(move || {
            on_any_core();
            // Where the system refuses, requests are sent later, and the results say by how much.
            let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK));
            for n in 0..self.requests {
                let due = self.due(n);
                if !sleep_until(due, &watch) {
                    return;
                }
                if clients[n % clients.len()].send(due).is_err() {
                    return; // a client is gone: the run has failed, and its task says so
                }
            }
        })
    }
}

/// Sleeps until `due`; false if the run was stopped meanwhile.
fn sleep_until(due: Instant, watch: &Watch) -> bool {
    loop {
        if watch.is_stopped() {
            return false;
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(LOOK_UP_EVERY));
    }
}
