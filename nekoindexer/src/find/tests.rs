//! Tests of scans: how long they go on, and for how long their places are taken.

use std::{cell::Cell, sync::mpsc, time::Duration};

use futures::poll;
use nekoproto::{Role, transport::Security};
use testkit::peer::endpoint;

use super::*;
use crate::{
    config::Config,
    scans::SCANS_MAX,
    state::{
        caller::CallerRole,
        testing::{find, named, record, session},
    },
};

/// An indexer where a peer has registered `names`, none of which it has signed but the last one.
fn shared(names: impl IntoIterator<Item = String>, last: &str) -> Arc<Shared> {
    let signed = record(1, last, 1);
    let shared = Shared::new(&Config::default(), false, &endpoint(1, Role::Indexer, Security::Tls));
    let session = session(&shared.state.index, 1, Duration::from_secs(99), Instant::now());
    for record in names.into_iter().map(|name| named(&name, &signed)).chain([signed.clone()]) {
        shared.state.index.register(&session, &record);
    }
    Arc::new(shared)
}

fn request(term: &str, limit: u16) -> FindRequest {
    FindRequest { ttl_hops: 0, ..find(term, None, limit) }
}

fn scanned(shared: &Shared, request: &FindRequest, is_over: impl Fn() -> bool) -> (Vec<String>, bool, bool) {
    let Part { page, complete, .. } = scan(shared, request, &Matcher::new(&request.search).unwrap(), is_over);
    (page.found.iter().map(|found| found.record.name.to_string()).collect(), page.more, complete)
}

#[test]
fn unsigned_records_do_not_hide_what_is_behind_them() {
    let shared = shared((0..5000).map(|n| format!("a{n}")), "b");
    assert_eq!(scanned(&shared, &request("*", 1), || false), (vec!["b".to_owned()], false, true));
}

#[test]
fn scan_ends_in_time_and_says_that_it_is_incomplete() {
    let shared = shared((0..5000).map(|n| format!("{}{n}", "a".repeat(200))), "b");
    let looks = Cell::new(0);
    let is_over = || {
        looks.set(looks.get() + 1);
        looks.get() > 3
    };
    let (found, more, complete) = scanned(&shared, &request(&"*a".repeat(100), 9), is_over);
    assert_eq!((found.len(), more, complete), (0, false, false));
    assert!(looks.get() < 9, "it ended after some names: {}", looks.get());
}

/// Goal: whoever asks and goes away starts no more scans than others.
/// Method: the only thread for blocking work is taken, so that no scan ends before it is to.
#[test]
fn scans_keep_their_places_when_their_callers_go_away() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let shared = shared([], "b");
        let (end, ended) = mpsc::channel::<()>();
        let busy = spawn_blocking(move || ended.recv().is_err());
        let callers =
            [1, 2, 3].map(|n| Caller::new((testkit::values::identity(n).id(), CallerRole::Peer), None));
        for n in 0..9 {
            let deadline = Instant::now() + Duration::from_secs(60);
            let mut asking = Box::pin(answer(&shared, &callers[n % 3], deadline, request("*", 9)));
            assert!(poll!(&mut asking).is_pending());
        }
        assert_eq!(shared.scans.taken(), *SCANS_MAX, "and those who waited for a turn are gone");
        drop(end);
        assert!(busy.await.unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        let reply = answer(&shared, &shared.own, deadline, request("*", 9)).await.unwrap();
        assert_eq!((reply.hits.len(), reply.complete), (1, true));
    });
}
