//! [`Throttle`]: how fast the running peer sends and fetches, and whether it fetches at all; changed while it runs.

use std::num::NonZeroU64;

use tokio::sync::watch;

use super::rate::Rate;

#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// Of what is sent to all readers together.
    pub(crate) up: Rate,
    /// Of what is fetched from all sources together.
    pub(crate) down: Rate,
    /// Nothing is fetched.
    paused: watch::Sender<bool>,
}

impl Throttle {
    pub(crate) fn new(up: Option<NonZeroU64>, down: Option<NonZeroU64>) -> Self {
        Self { up: Rate::new(up), down: Rate::new(down), paused: watch::Sender::default() }
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    pub(crate) fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// Waits until downloads are paused, or not paused, which they may be now.
    pub(crate) async fn until_paused(&self, paused: bool) {
        // The sender is here.
        drop(self.paused.subscribe().wait_for(|now| *now == paused).await);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pause_lasts_until_it_is_ended_however_long_and_whoever_came_when() {
        let throttle = Throttle::default();
        throttle.until_paused(false).await;
        let day = Duration::from_secs(86_400);
        for _ in 0..2 {
            throttle.set_paused(true);
            throttle.set_paused(true);
            assert!(throttle.is_paused());
            throttle.until_paused(true).await;
            let mut two = [0, 1].map(|_| Box::pin(throttle.until_paused(false)));
            for waiting in &mut two {
                assert!(timeout(day, waiting).await.is_err());
            }
            throttle.set_paused(false);
            for waiting in two {
                waiting.await;
            }
            assert!(!throttle.is_paused());
            assert!(timeout(day, throttle.until_paused(true)).await.is_err());
        }
    }
}
