//! Tests of scans: how long they go on, and for how long their places are taken.

use std::{cell::Cell, collections::BTreeSet, sync::mpsc, time::Duration};

use futures::poll;
use nekoproto::{Role, transport::Security};
use testkit::peer::endpoint;

use super::*;
use crate::{
    config::Config,
    scans::SCANS_MAX,
    state::{
        caller::CallerRole,
        find::WHOLE,
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

fn scanned(
    shared: &Shared,
    request: &FindRequest,
    spent: impl Fn() -> u32,
) -> (Vec<String>, Option<Position>, bool) {
    let Part { page, complete, .. } = scan(shared, request, &Matcher::new(&request.search).unwrap(), spent);
    (page.found.iter().map(|found| found.record.name.to_string()).collect(), page.next, complete)
}

#[test]
fn unsigned_records_do_not_hide_what_is_behind_them_and_are_looked_at_once() {
    let shared = shared((0..5000).map(|n| format!("a{n}")), "b");
    for _ in 0..2 {
        assert_eq!(scanned(&shared, &request("*", 1), || 0), (vec!["b".to_owned()], None, true));
        let dropped = shared.counters.drops(Drop::Forged).get();
        assert_eq!((shared.state.index.names(), dropped), (1, 5000));
    }
}

#[test]
fn scan_that_has_no_time_at_all_ends_and_says_that_it_is_incomplete() {
    let shared = shared((0..5000).map(|n| format!("{}{n}", "a".repeat(200))), "b");
    let looks = Cell::new(0);
    let spent = || {
        looks.set(looks.get() + 1);
        if looks.get() > 3 { WHOLE } else { 0 }
    };
    let (found, next, complete) = scanned(&shared, &request(&"*a".repeat(100), 9), spent);
    assert_eq!((found.len(), next, complete), (0, None, false));
    assert!(looks.get() < 9, "it ended after some names: {}", looks.get());
}

/// Goal: a scan that would not end in its time ends its page earlier, and whoever goes on from there sees every name once.
/// Method: an indexer of a thousand names, in no order, and time for a sixth of them.
#[test]
fn scan_that_runs_out_of_time_says_where_to_go_on() {
    let shared = Shared::new(&Config::default(), false, &endpoint(1, Role::Indexer, Security::Tls));
    let session = session(&shared.state.index, 1, Duration::from_secs(99), Instant::now());
    let names: BTreeSet<String> = (0..1000u32).map(|n| format!("{}a", n * 7919 % 1009)).collect();
    for name in &names {
        shared.state.index.register(&session, &record(1, name, 1));
    }
    let pattern = format!("[{}]*a", "0123456789".repeat(20)); // it takes long
    let (mut shown, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let looks = Cell::new(0);
        let spent = || {
            looks.set(looks.get() + 1);
            looks.get() * 125 // 8 looks, and a scan of all takes 50
        };
        let request = FindRequest { after, ..request(&pattern, 128) };
        let (found, next, complete) = scanned(&shared, &request, spent);
        assert!(complete && next != request.after, "{next:?} after {} names", shown.len());
        shown.extend(found);
        (pages, after) = (pages + 1, next);
        if after.is_none() {
            break;
        }
    }
    assert!(pages > 1000 / 128 + 2, "{pages}");
    assert!(shown.iter().eq(&names));
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
