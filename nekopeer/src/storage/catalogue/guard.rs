//! A panic inside the database library is an error: a damaged file makes it fail its own checks.

use std::{
    cell::Cell,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Once,
};

use redb::Error;

thread_local! {
    /// Calls of [`guarded`] that this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Does `work`, which calls the database library and may panic there.
pub(super) fn guarded<T, E: Into<Error>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, Error> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if DEPTH.get() == 0 {
                before(panic);
            }
        }));
    });
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    match done {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(Error::Corrupted("it contradicts itself".to_owned())),
    }
}

/// A part of the database whose end is [`guarded`], too.
#[derive(Debug)]
pub(super) struct Guarded<T>(Option<T>);

impl<T> Guarded<T> {
    pub(super) const fn new(part: T) -> Self {
        Self(Some(part))
    }

    #[expect(clippy::expect_used, reason = "it is taken once")]
    pub(super) fn into_inner(mut self) -> T {
        self.0.take().expect("it was not taken before")
    }
}

impl<T> Deref for Guarded<T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "it is taken when this ends")]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until the end")
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let part = self.0.take();
        // What it could not write is damaged, and is found to be when the file is opened.
        let _ = guarded(|| {
            drop(part);
            Ok::<(), Error>(())
        });
    }
}
