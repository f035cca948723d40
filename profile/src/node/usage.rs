//! What a node's process takes: processor time, peak of memory, and memory from moment to moment. To be
//! asked by the process itself.

use rustix::time::{ClockId, clock_gettime};

use super::locked;
use crate::prelude::*;
use crate::report::machine;

/// How often memory, and the bytes of each source, are looked at.
pub const SAMPLED_EVERY: Duration = Duration::from_millis(50);

/// Seconds by a clock that all processes of this machine share.
pub fn now_s() -> f64 {
    seconds(ClockId::Monotonic)
}

/// Seconds of processor time that this process has taken, user and system, all threads.
pub fn cpu_s() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

#[expect(clippy::cast_precision_loss, reason = "seconds since the start of the machine, and nanoseconds")]
fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// What a process took since its meter was reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub cpu_s: f64,
    /// The most memory that was resident at once, in bytes; unknown where the system does not say.
    pub peak_bytes: Option<u64>,
    /// Times (by [`now_s`]) and resident bytes.
    pub memory: Vec<(f64, u64)>,
}

/// Measures what this process takes, from its start on.
#[derive(Debug)]
pub struct Meter {
    cpu_before_s: f64,
    memory: Arc<Mutex<Vec<(f64, u64)>>>,
}

impl Meter {
    pub fn start() -> io::Result<Self> {
        let memory = Arc::<Mutex<Vec<(f64, u64)>>>::default();
        let looked_at = Arc::downgrade(&memory);
        thread::Builder::new().name("memory".to_owned()).spawn(move || {
            while let Some(memory) = looked_at.upgrade() {
                if let Some(bytes) = machine::rss_bytes(std::process::id()) {
                    locked(&memory).push((now_s(), bytes));
                }
                drop(memory);
                thread::sleep(SAMPLED_EVERY);
            }
        })?;
        Ok(Self { cpu_before_s: cpu_s(), memory })
    }

    pub fn reset(&mut self) {
        machine::forget_peak(std::process::id());
        locked(&self.memory).clear();
        self.cpu_before_s = cpu_s();
    }

    pub fn usage(&self) -> Usage {
        Usage {
            cpu_s: cpu_s() - self.cpu_before_s,
            peak_bytes: machine::peak_bytes(std::process::id()),
            memory: locked(&self.memory).clone(),
        }
    }
}
