//! Deadlines of calls: a context on each side, milliseconds on the wire.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use tarpc::context;

use crate::limits::DEADLINE_MAX;

/// The time left until `deadline`, in milliseconds, for the wire.
pub(super) fn millis_left(deadline: Instant) -> u32 {
    let left = deadline.saturating_duration_since(Instant::now()).min(DEADLINE_MAX);
    u32::try_from(left.as_millis()).unwrap_or(u32::MAX)
}

/// The context of a call that may take until `deadline`. Cheaper than tarpc's own, which looks for a trace to
/// continue; this protocol has none.
#[must_use]
pub fn call_until(deadline: Instant) -> context::Context {
    static PLAIN: LazyLock<context::Context> = LazyLock::new(context::current);
    let mut context = *PLAIN;
    context.deadline = deadline;
    context
}

/// The context of a call that may take `time` from now; see [`call_until`].
#[must_use]
pub fn call_within(time: Duration) -> context::Context {
    call_until(Instant::now() + time)
}

/// The context of a request whose caller waits `deadline_ms`, cut to [`DEADLINE_MAX`].
pub(super) fn context_of(deadline_ms: u32) -> context::Context {
    call_within(Duration::from_millis(deadline_ms.into()).min(DEADLINE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_deadline_is_cut_to_the_limit() {
        assert!(context_of(u32::MAX).deadline <= Instant::now() + DEADLINE_MAX);
        assert!(u128::from(millis_left(Instant::now() + 2 * DEADLINE_MAX)) <= DEADLINE_MAX.as_millis());
        assert_eq!(millis_left(Instant::now()), 0);
    }
}
