//! What is registered, under which names and policies, and with whom: also where an indexer hangs, was away, or a
//! file changes without being published.

use crate::common::*;

async fn publish_with(origin: &Node, from: &Folder, content: &str, policy: PolicyChange) -> PublishOutcome {
    let paths = vec![from.write("a", content.as_bytes())];
    let options = PublishOptions { policy, ..PublishOptions::default() };
    origin.peer.publish(paths, options, &Arc::default()).await.unwrap()
}

#[testkit::test]
async fn indexer_that_hangs_delays_neither_a_publish_nor_a_withdrawal_nor_the_other_indexers() {
    let indexer = indexer(&[]).await;
    let unanswered = Arc::<AtomicUsize>::default();
    let hanging = Fake::of_peers(Habit::Hangs(Arc::clone(&unanswered)));
    let from = Folder::new();
    let mut origin = Node::start(from.config(&[indexer.local_addr(), hanging.addr])).await;
    let both = [indexer.local_addr(), hanging.addr];
    for _ in both {
        origin.event(|event| matches!(event, Event::Connected(_)).then_some(())).await;
    }
    let outcome = origin.publish_all(&[&from.write("a", b"content")]).await;
    assert_eq!(unanswered.load(Ordering::Relaxed), 1, "its call is still open");
    assert_eq!((outcome.indexers_told, outcome.is_confirmed, indexer.names()), (1, true, 1));
    let again = origin.publish_all(&[&from.write("a", b"changed")]).await;
    assert_eq!((again.indexers_told, unanswered.load(Ordering::Relaxed)), (1, 1));
    origin.peer.deregister(&name("a")).await.unwrap();
    assert_eq!(unanswered.load(Ordering::Relaxed), 1);
    let (_to, reader) = peer(&[indexer.local_addr()]).await;
    let found = reader.peer.query(&name("a"), 0).await.unwrap();
    assert_eq!((found.candidates.len(), found.withdrawn.len()), (0, 1));
    let from = Folder::new();
    let mut alone = Node::start(from.config(&[hanging.addr])).await;
    alone.event(|event| matches!(event, Event::Connected(_)).then_some(())).await;
    let outcome = alone.publish_all(&[&from.write("a", b"content")]).await;
    assert_eq!(unanswered.load(Ordering::Relaxed), 2, "its call is still open");
    assert_eq!((outcome.indexers_told, outcome.is_confirmed), (0, false));
}

#[testkit::test]
async fn file_has_one_name_whether_it_or_its_folder_is_published_and_folders_do_not_collide() {
    let (from, origin) = peer(&[]).await;
    let elsewhere = Folder::new();
    let file = from.write("many/f1", b"one");
    from.write("more/f1", b"another");
    elsewhere.write("other/f1", b"a third");
    let names = |outcome: &PublishOutcome| {
        outcome.published.iter().map(|record| record.name.to_string()).collect::<Vec<_>>()
    };
    let first = origin.publish_all(&[&file]).await;
    assert_eq!(names(&first), ["many/f1"]);
    let all =
        origin.publish_all(&[&from.path("many"), &from.path("more"), &elsewhere.path("other"), &file]).await;
    assert_eq!(names(&all), ["more/f1", "other/f1"]);
    assert_eq!(all.unchanged, first.published);
    assert_eq!(origin.publish_all(&[&from.path("")]).await.unchanged.len(), 2);
}

#[testkit::test]
async fn policy_is_kept_but_for_what_is_said() {
    let from = Folder::new();
    let default = policy(Mode::Pull, 60);
    let origin = Node::start(Config { policy: default, ..from.config(&[]) }).await;
    let nothing = PolicyChange::default();
    let publish = async |content: &str, policy| publish_with(&origin, &from, content, policy).await;
    assert_eq!(publish("1", nothing).await.published[0].policy, default);
    let push = Policy::new(Mode::Push, 5, 7, Staleness::Bounded).unwrap();
    assert_eq!(publish("2", push.into()).await.published[0].policy, push);
    assert_eq!(publish("3", nothing).await.published[0].policy, push, "kept");
    assert_eq!(publish("3", nothing).await.unchanged.len(), 1);
    let lease = PolicyChange { lease_secs: Some(9), ..nothing };
    let changed = publish("3", lease).await.published.remove(0);
    assert_eq!(changed.policy, Policy::new(Mode::Push, 9, 7, Staleness::Bounded).unwrap());
    assert_eq!(changed.version.get(), 4, "a policy of its own is a version of its own");
    let bad = PolicyChange { ttr_secs: Some(0), ..nothing };
    assert_eq!(publish("4", bad).await.failed.len(), 1);
}

/// Goal: nobody gets bytes of a file that changed, and its origin can still be asked which version is the newest.
#[testkit::test]
async fn file_that_changes_has_no_bytes_for_others_until_it_is_published_again() {
    let (indexer, [(from, mut origin)]) = network().await;
    origin.publish_all(&[&from.write("a", b"content"), &from.write("b", b"content")]).await;
    assert_eq!(indexer.names(), 2);
    from.write("a", b"changed");
    origin.sees(&Event::Changed(name("a"))).await;
    let lists_part = async |text: &str, partial: bool| {
        let answer = origin.peer.query(&name(text), 0).await.unwrap();
        (answer.candidates.first()?.holders.first()?.partial == partial).then_some(())
    };
    eventually(async || lists_part("a", true).await).await;
    std::fs::remove_file(from.path("b")).unwrap();
    assert_eq!(origin.peer.files().await.len(), 2, "`ls` notices too");
    eventually(async || lists_part("b", true).await).await;
    let (_to, reader) = peer(&[indexer.local_addr()]).await;
    let refused = reader.get("a").await.unwrap_err().to_string();
    assert!(refused.contains("the file changed on the holder's disk"), "{refused}");
    assert_eq!(origin.publish(&from.path("a")).await.version.get(), 2);
    eventually(async || lists_part("a", false).await).await;
    assert_eq!(indexer.names(), 2);
    let changed = |event: &Event| matches!(event, Event::Changed(changed) if *changed == name("a"));
    assert!(!origin.unseen().iter().any(changed), "it is told once");
}

/// Waits until its bytes were compared, and are those that were published.
async fn is_good(node: &Node, text: &str) {
    let is_so =
        async || matches!(node.status(text).await.unwrap().condition, Condition::Good(_)).then_some(());
    eventually(is_so).await;
}

/// As after `touch`, `chmod` or a restored backup.
#[testkit::test]
async fn file_with_another_stamp_and_the_same_bytes_is_offered_again_and_nobody_is_told() {
    let (indexer, [(from, mut origin), (to, mut reader)]) = network().await;
    let record = origin.publish(&from.write("a", b"content")).await;
    reader.get("a").await.unwrap();
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o640);
    std::fs::set_permissions(from.path("a"), readable).unwrap();
    to.write("a", b"content"); // the copy is written anew
    let shared = reader.publish_all(&[&to.path("a")]).await;
    assert!(shared.failed.is_empty() && shared.copies == [name("a")], "{shared:?}");
    for node in [&mut origin, &mut reader] {
        is_good(node, "a").await;
        assert!(!node.unseen().iter().any(|event| matches!(event, Event::Changed(_))));
    }
    let (there, late) = peer(&[indexer.local_addr()]).await;
    eventually(async || late.get("a").await.ok()).await;
    assert_eq!(there.read("a"), b"content");
    let again = async || origin.publish_all(&[&from.path("a")]).await.unchanged;
    assert_eq!(again().await, std::slice::from_ref(&record), "no new version");

    from.write("a", b"changed");
    origin.sees(&Event::Changed(name("a"))).await;
    from.write("a", b"content");
    is_good(&origin, "a").await;
    assert_eq!(origin.publish_all(&[&from.path("a")]).await.unchanged, [record]);
}

/// As after `mv` of a folder, with all that is in it.
#[testkit::test]
async fn folder_that_was_moved_is_offered_from_where_it_is() {
    let (indexer, [(from, origin), (before, reader)]) = network().await;
    let at = [indexer.local_addr()];
    origin.publish(&from.write("d/a", b"content")).await;
    reader.get("d/a").await.unwrap();
    reader.peer.shutdown().await;
    let after = Folder::new();
    for entry in ["d", ".neko"] {
        std::fs::rename(before.path(entry), after.path(entry)).unwrap();
    }
    let mut reader = after.peer(&at).await;
    is_good(&reader, "d/a").await;
    assert!(!reader.unseen().iter().any(|event| matches!(event, Event::Changed(_))));
    origin.peer.shutdown().await;
    let (there, late) = peer(&at).await;
    eventually(async || late.get("d/a").await.ok()).await;
    assert_eq!(there.read("d/a"), b"content");
}

#[testkit::test]
async fn policy_is_kept_where_the_catalogue_was_lost() {
    let indexer = indexer(&[]).await;
    let at = [indexer.local_addr()];
    let (from, origin) = peer(&at).await;
    let (_to, reader) = peer(&at).await;
    let said = Policy::new(Mode::Push, 33, 60, Staleness::ServeStale).unwrap();
    publish_with(&origin, &from, "first", said.into()).await;
    reader.get("a").await.unwrap();
    origin.peer.abort().await;
    std::fs::remove_file(from.path(".neko/catalogue.redb")).unwrap();
    let origin = from.peer(&at).await;
    let unchanged = publish_with(&origin, &from, "first", PolicyChange::default()).await.unchanged;
    assert_eq!((unchanged[0].version.get(), unchanged[0].policy), (1, said));
    let published = publish_with(&origin, &from, "second", PolicyChange::default()).await.published;
    assert_eq!((published[0].version.get(), published[0].policy), (2, said));
}

#[testkit::test]
async fn indexer_that_cannot_list_a_peer_is_named_and_holds_nothing_up() {
    let (indexer, from) = (indexer(&[]).await, Folder::new());
    // It does not listen on the address from which it connects.
    let listen = Some(([127, 0, 0, 2], 0).into());
    let mut origin = Node::start(Config { listen, ..from.config(&[indexer.local_addr()]) }).await;
    let named = origin.event(|event| match event {
        Event::NotListed(indexer) => Some(*indexer),
        _ => None,
    });
    assert_eq!(named.await, indexer.local_addr());
    let outcome = origin.publish_all(&[&from.write("a", b"bytes")]).await;
    assert_eq!((outcome.published.len(), outcome.indexers_told), (1, 0));
    assert_eq!(indexer.names(), 0);
}

#[testkit::test]
async fn file_whose_withdrawal_is_interrupted_is_withdrawn_everywhere() {
    let (indexer, [(from, origin)]) = network().await;
    origin.publish(&from.write("a", b"content")).await;
    assert_eq!(indexer.names(), 1);
    {
        let name = name("a");
        let mut withdrawing = Box::pin(origin.peer.deregister(&name));
        assert!(futures::poll!(&mut withdrawing).is_pending());
    }
    let (_to, reader) = peer(&[indexer.local_addr()]).await;
    eventually(async || {
        let found = reader.peer.query(&name("a"), 0).await.unwrap();
        (found.candidates.is_empty() && found.withdrawn[0].version.get() == 2).then_some(())
    })
    .await;
}
