//! Processes on a data folder in which one entry of the catalogue is damaged: it would stop whoever loads all.

use crate::program::{Home, Indexers};

/// Flips a bit in each stored form of `text`.
fn damage(home: &Home, text: &str) {
    let path = home.path(".neko/catalogue.redb");
    let mut bytes = std::fs::read(&path).unwrap();
    let places: Vec<usize> = bytes
        .windows(text.len())
        .enumerate()
        .filter(|(_, at)| *at == text.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "{text} is stored");
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_entry_is_named_and_stops_nothing_else() {
    let indexers = Indexers::one();
    let home = Home::at(&indexers, 0);
    (0..300).for_each(|n| drop(home.write(&format!("many/f{n}"), n.to_string())));
    let sharer = home.share(&["many"]);
    sharer.signal("INT");
    sharer.wait();
    // The path occurs in the row alone; the key is the name.
    damage(&home, &home.path("many/f299").to_string_lossy());
    let listed = home.run(&["ls"]);
    let about = |lines: &[String], word: &str| lines.iter().filter(|line| line.contains(word)).count();
    assert_eq!((listed.code, about(&listed.out, "many/")), (Some(3), 299), "{listed:?}");
    assert_eq!(about(&listed.err, "the entry of many/f299 in the catalogue"), 1, "{listed:?}");
    home.write("one", "more");
    let sharer = home.share(&["one"]);
    let reader = Home::at(&indexers, 0);
    reader.done(&["get", "one"]);
    reader.done(&["get", "many/f8"]);
    sharer.signal("INT");
    sharer.wait();
    let mut refused = home.start(&["share", "many/f299"]);
    refused.err_line("damaged: deregister many/f299, then share");
    refused.signal("INT");
    refused.wait();
    home.done(&["deregister", "many/f299"]);
    let sharer = home.share(&["many/f299"]);
    sharer.signal("INT");
    sharer.wait();
    assert_eq!(about(&home.done(&["ls"]).out, "many/"), 300);
}
