//! [`Slice`]: the time that a connection works in a row.

use std::{
    pin::pin,
    task::Context,
    time::{Duration, Instant},
};

use tokio::task::yield_now;

/// The longest time that one connection works in a row, once it has done [`UNTIMED`] pieces.
const SLICE: Duration = Duration::from_micros(100);
/// Pieces of work before the clock is read: most connections have fewer at a time.
const UNTIMED: u32 = 4;

/// The time that a connection may work now.
#[derive(Debug, Default)]
pub(super) struct Slice {
    began: Option<Instant>,
    looks: u32,
    is_over: bool,
}

impl Slice {
    /// Whether it is over. Asked for where there is more to do: that is then left, and done in the next slice.
    pub(super) fn is_over(&mut self) -> bool {
        self.looks += 1;
        if self.looks > UNTIMED && !self.is_over {
            self.is_over = self.began.get_or_insert_with(Instant::now).elapsed() >= SLICE;
        }
        self.is_over
    }

    /// If it is over, the task is woken for the next: after all that are ready, and those for whom something has arrived.
    pub(super) fn end(self, cx: &mut Context<'_>) {
        if self.is_over {
            let _: std::task::Poll<()> = pin!(yield_now()).poll(cx); // leaves the waker with the runtime
        }
    }
}
