//! Searches by name, words and globs: as a user types them, and as hostile indexers answer them.

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    common::*,
    program::{Ended, Home, Indexers, fields, has_keys, two_homes},
};

fn names(ended: &Ended) -> Vec<&str> {
    assert!(ended.out[0].starts_with("NAME"), "{ended:?}");
    ended.out[1..].iter().map(|line| line.split_whitespace().next().unwrap()).collect()
}

fn hits(answer: &Value) -> Vec<&str> {
    answer["hits"].as_array().unwrap().iter().map(|hit| hit["name"].as_str().unwrap()).collect()
}

#[test]
fn words_and_patterns_are_for_the_network_and_for_the_own_indexer_alone_if_asked() {
    let indexers = Indexers::line(3, Security::Tls);
    let (origin, near, reader) = (Home::at(&indexers, 2), Home::at(&indexers, 0), Home::at(&indexers, 0));
    for name in ["models/a.bin", "models/b.bin", "notes.txt"] {
        origin.write(name, bytes(1, 2000));
    }
    near.write_all([("cuda/CUDA 12.txt", "x"), ("models/a.bin.md5", "x")]);
    let _sharing = [origin.share(&["models", "notes.txt"]), near.share(&["cuda", "models"])];

    let here = reader.done(&["search", "models/a.bin", "--here"]);
    assert_eq!(names(&here), ["models/a.bin.md5"], "at the own");
    assert_eq!(names(&reader.done(&["search", "models/a.bin"])), ["models/a.bin", "models/a.bin.md5"]);
    assert_eq!(names(&reader.done(&["search", "notes.txt"])), ["notes.txt"]);
    reader.run(&["search", "notes.txt", "--here"]).failed_with(1, &["only the own indexer was asked"]);
    let found = reader.done(&["search", "models/*.bin"]);
    assert_eq!(names(&found), ["models/a.bin", "models/b.bin"], "two hops away");
    for (heading, cell) in ["NAME", "VERSION", "SIZE", "AGE", "HOLDERS", "FRESHNESS"].iter().zip([
        "models/a.bin",
        "1",
        "2.0",
        "",
        "",
        "-",
    ]) {
        assert!(found.out[0].contains(heading) && found.out[1].contains(cell), "{heading}: {found:?}");
    }
    assert_eq!(names(&reader.done(&["search", "cuda", "12"])), ["cuda/CUDA"], "both words, in any case");
    assert_eq!(names(&reader.done(&["search", "cuda"])), ["cuda/CUDA"], "no file has this name");
    reader.run(&["search", "*.bin", "--ttl", "1"]).failed_with(1, &["nothing matches *.bin"]);
    reader.run(&["search", "cuda", "13"]).failed_with(1, &["nothing matches cuda 13"]);
}

#[test]
fn filters_pages_and_freshness_are_shown_to_programs_and_people() {
    let (_indexers, origin, reader) = two_homes();
    for n in 0..9usize {
        origin.write(&format!("f/{n}.bin"), bytes(2, 1000 * (n + 1)));
    }
    let _sharing = origin.share(&["f"]);
    reader.done(&["get", "f/2.bin"]);

    let all = reader.done(&["search", "f/*.bin", "--json"]).json();
    assert_eq!(fields(&all, &["complete", "next", "name"]), json!([true, null, "f/*.bin"]));
    let hit = &all["hits"][2];
    let keys = ["name", "origin", "version", "size", "content", "holders", "shared_ms", "held"];
    assert!(has_keys(hit, &keys), "{hit}");
    let held = [&hit["held"]["freshness"], &all["hits"][1]["held"]];
    assert_eq!(json!(held), json!(["unverified", null]), "{hit}");
    assert!(hit["shared_ms"].as_u64().is_some(), "{hit}");
    assert_eq!(hits(&all).len(), 9);

    let json = |words: &[&str]| reader.done(&[&["search", "--json"], words].concat()).json();
    assert_eq!(hits(&json(&["*.bin", "--min-size", "8kB"])), ["f/7.bin", "f/8.bin"]);
    assert_eq!(hits(&json(&["--newer-than", "1h", "--min-size", "9000"])), ["f/8.bin"]);
    assert_eq!(reader.run(&["search", "*", "--newer-than", "2099-01-01"]).code, Some(1));
    let id = hit["origin"].as_str().unwrap();
    assert_eq!(hits(&json(&["8.bin", "--origin", &id[..8].to_uppercase()])), ["f/8.bin"]);
    let other = if id.starts_with('0') { "1" } else { "0" };
    assert_eq!(reader.run(&["search", "8.bin", "--origin", other]).code, Some(1));

    let (mut shown, mut after) = (Vec::new(), None);
    loop {
        let mut words = vec!["f/*.bin".to_owned(), "--limit".to_owned(), "4".to_owned()];
        words.extend(after.iter().flat_map(|after: &String| ["--after".to_owned(), after.clone()]));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let page = json(&words);
        shown.extend(hits(&page).into_iter().map(str::to_owned));
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
        let text = reader.done(&[&["search"], &words[..]].concat());
        assert!(text.err.join("\n").contains(&format!("--after {}", after.as_deref().unwrap())), "{text:?}");
    }
    assert_eq!(shown, (0..9).map(|n| format!("f/{n}.bin")).collect::<Vec<_>>());

    let own = origin.done(&["search", "f/1.bin"]);
    assert!(own.out[1].ends_with("shared"), "{own:?}");
    origin.share_anew("f/2.bin", "second");
    let found = reader.done(&["search", "f/2.bin"]);
    assert!(found.out[1].ends_with("stale"), "{found:?}");
}

#[test]
fn search_says_how_many_indexers_answered() {
    let indexers = Indexers::line(3, Security::Tls);
    let (_kept, nobody) = kept_port();
    let both = format!("{},{nobody}", indexers.addr(0));
    let home = Home::with(&["--indexer", &both]);
    let _sharing = home.share_file("a.bin", "a\n");
    for (words, code, said) in [
        (&["search", "*.bin"][..], 0, "note: 3 of 4 indexers answered"),
        (&["search", "zz"], 1, "nothing matches zz (3 of 4 indexers answered)"),
        (&["search", "*.bin", "--ttl", "1"], 0, "note: 2 of 3 indexers answered"),
    ] {
        let found = home.run(words);
        assert_eq!((found.code, found.err.last().map(String::as_str)), (Some(code), Some(said)), "{found:?}");
    }
    let found = home.done(&["search", "*.bin", "--json"]).json();
    assert_eq!(found["indexers"], serde_json::json!({ "asked": 4, "answered": 3 }));
    let near = Home::at(&indexers, 1);
    near.run(&["search", "zz"]).failed_with(1, &["nothing matches zz (3 of 3 indexers answered)"]);
}

fn globs(text: &str) -> Search {
    Search { terms: Terms::first_of([Term::new(text).unwrap()]), ..Search::default() }
}

#[testkit::test]
async fn page_of_a_hostile_indexer_does_not_count_and_says_so() {
    let record = |text: &str| Goods::new(1, text, 1, vec![1]).record.to_signed();
    let hit = |record: SignedRecord| Hit { record, holders: List::new() };
    let pages = [
        vec![record("b.bin"), record("a.bin")], // not in order
        vec![record("b.txt")],                  // foreign
        vec![forged(99, 1, "b.bin", 2)],
    ];
    let honest = indexer(&[]).await;
    let (folder, origin) = peer(&[honest.local_addr()]).await;
    origin.publish(&folder.write("own.bin", b"x")).await;
    for page in pages {
        let fake = Fake::of_peers(Habit::says(page.into_iter().map(hit)));
        let (_folder, reader) = peer(&[honest.local_addr(), fake.addr]).await;
        let found = reader.peer.find(&globs("*.bin"), None, 50, 1).await.unwrap();
        let names: Vec<&FileName> = found.matches.iter().map(|found| &found.record.name).collect();
        assert_eq!((names.len(), names[0].as_str()), (1, "own.bin"));
        assert!(!found.complete && found.next.is_none());
        assert_eq!((found.answered, found.asked), (1, 2));
        let (_folder, alone) = peer(&[fake.addr]).await;
        let found = alone.peer.find(&globs("*.bin"), None, 50, 1).await.unwrap();
        assert!(found.matches.is_empty() && !found.complete);
    }
}

/// As over a link that was down for a moment.
#[testkit::test]
async fn page_of_a_folder_that_did_not_come_is_asked_for_once_more() {
    let record = Goods::new(1, "d/a", 1, vec![1]).record.to_signed();
    let hits = List::first_of([hit(record, 9, ([127, 0, 0, 1], 9).into())]);
    let reply = FindReply { hits, complete: true, ..FindReply::default() };
    let fake = Fake::of_peers(Habit::ShowsAgain(reply, Arc::default()));
    let home = Home::with(&["--indexer", &fake.addr.to_string()]);
    let found = blocking(move || home.done(&["query", "d/", "--json"]).json()).await;
    assert_eq!(found["answers"][0]["name"], "d/a");
}

/// Goal: an older, larger version is no match where the newest is too small for the filter. Method: one indexer lists the
/// newest, and leaves it out; another one still shows the older one.
#[testkit::test]
async fn versions_are_compared_before_sizes_are() {
    let honest = indexer(&[]).await;
    let (folder, origin) = peer(&[honest.local_addr()]).await;
    origin.publish(&folder.write("a.bin", &bytes(1, 1000))).await;
    let older = origin.peer.query(&name("a.bin"), 0).await.unwrap().candidates.remove(0).record;
    let fake = Fake::of_peers(Habit::says([hit(older.to_signed(), 9, honest.local_addr())]));
    let (_folder, reader) = peer(&[honest.local_addr(), fake.addr]).await;
    let found = async |min_size| {
        let search = Search { min_size, ..globs("*.bin") };
        let found = reader.peer.find(&search, None, 9, 0).await.unwrap();
        found.matches.iter().map(|found| found.record.size).collect::<Vec<_>>()
    };
    assert_eq!(found(100).await, [1000]);
    origin.publish(&folder.write("a.bin", &bytes(2, 99))).await;
    assert_eq!((found(100).await, found(99).await), (vec![], vec![99]));
}

/// Whatever is asked: one of two indexers that takes connections and says nothing is given up long before the deadline.
#[testkit::test]
async fn silent_indexer_is_waited_for_by_nothing_that_others_answer() {
    let (silent, indexer) = (Fake::of_peers(Habit::NeverAnswers), indexer(&[]).await);
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    origin.publish(&from.write("a", b"content")).await;
    let query_deadline = Duration::from_secs(3600);
    let config = Folder::new().config(&[silent.addr, indexer.local_addr()]);
    let reader = Node::start(Config { query_deadline, listen: None, ..config }).await;
    let answer = reader.peer.query(&name("a"), 0).await.unwrap();
    assert_eq!((answer.candidates.len(), answer.complete), (1, false));
    let found = reader.peer.find(&Search::default(), None, 9, 0).await.unwrap();
    assert_eq!((found.matches.len(), found.complete), (1, false));
    assert_eq!((found.answered, found.asked), (1, 2));
    let trees = reader.peer.trace(&name("a"), 0).await.unwrap();
    assert_eq!(trees[0].hops[0].answer.clone().err(), Some(NoAnswer::Late));
    assert!(trees[1].hops[0].answer.is_ok());
}

/// Longer than one is waited for that is silent where another has answered.
#[testkit::test]
async fn indexers_that_all_are_far_are_waited_for() {
    let (_delay, seen) = watch::channel(Some(Duration::from_millis(1500)));
    let far = [(); 2].map(|()| Fake::of_peers(Habit::Far(seen.clone())));
    let config = Folder::new().config(&[far[0].addr, far[1].addr]);
    let query_deadline = Duration::from_secs(3600);
    let reader = Node::start(Config { query_deadline, listen: None, ..config }).await;
    reader.peer.query(&name("a"), 0).await.unwrap();
}

/// Its round trip is longer than a near one may be silent that was so before.
#[testkit::test]
async fn far_indexer_that_stalled_once_is_waited_for_again() {
    let (delay, seen) = watch::channel(None);
    let (far, near) = (Fake::of_peers(Habit::Far(seen)), indexer(&[]).await);
    let config = Folder::new().config(&[far.addr, near.local_addr()]);
    let reader = Node::start(Config { listen: None, ..config }).await;
    let is_complete = async || reader.peer.query(&name("a"), 0).await.unwrap().complete;
    assert!(!is_complete().await, "it answers nothing");
    delay.send_replace(Some(Duration::from_millis(300)));
    eventually(async || is_complete().await.then_some(())).await;
}

/// This indexer answers a few names of each list, and no name that is asked for alone.
#[testkit::test]
async fn names_that_have_no_room_in_an_answer_are_asked_for_again_together() {
    let (_delay, seen) = watch::channel(None);
    let few = Fake::of_peers(Habit::Far(seen));
    let reader = Node::start(Config { listen: None, ..Folder::new().config(&[few.addr]) }).await;
    let names: Vec<FileName> = (0..10).map(|n| name(&n.to_string())).collect();
    let answers = reader.peer.query_all(&names, 0).await.unwrap();
    assert_eq!(answers.iter().filter(|answer| answer.complete).count(), names.len());
}
