//! [`HangUp`]: ends a data stream from another thread.

use std::{
    net::{Shutdown, TcpStream},
    sync::Arc,
};

/// Ends a data stream from another thread.
#[derive(Clone, Debug)]
pub struct HangUp(pub(super) Arc<TcpStream>);

impl HangUp {
    /// Closes the connection: reads and writes of the stream end at once.
    pub fn now(&self) {
        drop(self.0.shutdown(Shutdown::Both)); // fails only if it is closed already
    }

    /// Closes the connection when the guard is dropped: a thread that blocks in the stream does not outlive
    /// the task that waits for the thread.
    #[must_use]
    pub const fn on_drop(self) -> HangUpOnDrop {
        HangUpOnDrop(Some(self))
    }
}

/// Ends a data stream when it is dropped.
#[derive(Debug)]
pub struct HangUpOnDrop(Option<HangUp>);

impl HangUpOnDrop {
    /// The stream stays open.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for HangUpOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(HangUp::now);
    }
}
