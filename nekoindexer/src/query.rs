//! Answers a query with what is found here and what neighbors answer.

use std::time::Instant;

use nekoproto::{QueryReply, QueryRequest, Refusal};

use crate::{merging::Merging, shared::Shared, state::caller::Caller, trace::Trace, walk::walk};

/// Answers `request` of `from`, who waits until `deadline`.
///
/// # Cancel safety
/// Safe: dropping the future cancels the calls to the neighbors.
pub(crate) async fn answer(
    shared: &Shared,
    from: &Caller,
    deadline: Instant,
    request: QueryRequest,
) -> Result<QueryReply, Refusal> {
    let now = Instant::now();
    let trace = request.trace.then(|| Box::new(Trace::new(shared, from, &request.covered, now)));
    let mut merging = Merging::new(shared, trace);
    match walk(shared, &mut merging, from, (now, deadline), request).await {
        Ok(0) => shared.counters.answered_alone(&shared.counters.queries, now),
        Ok(asked) => {
            merging.merge.count_messages(u32::try_from(asked).unwrap_or(u32::MAX));
            shared.counters.answered_together(asked, now);
        }
        Err(refusal) => {
            shared.counters.queries.inc();
            return Err(refusal);
        }
    }
    Ok(merging.finish())
}
