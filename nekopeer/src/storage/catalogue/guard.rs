//! A panic inside the database library is an error: a damaged file makes it fail its own checks.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Once,
};

use redb::Error;
use scopeguard::ScopeGuard;

thread_local! {
    /// Calls of [`guarded`] that this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A part of the database whose end is [`guarded`], too.
pub(super) type Guarded<T> = ScopeGuard<T, fn(T)>;

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

/// What `begin` returns, which ends guarded. What it cannot write then is damaged, and is found to be when the file is
/// opened.
pub(super) fn guarded_part<T, E: Into<Error>>(
    begin: impl FnOnce() -> Result<T, E>,
) -> Result<Guarded<T>, Error> {
    let end: fn(T) = |part| {
        drop(guarded(|| {
            drop(part);
            Ok::<(), Error>(())
        }));
    };
    Ok(scopeguard::guard(guarded(begin)?, end))
}
