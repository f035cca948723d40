//! Processes on a data folder in which one entry of the catalogue is damaged: it would stop whoever loads all.

use redb::ReadableTable;

use crate::program::*;

fn damage(home: &Home, text: &str) {
    let path = home.path(".neko/catalogue.redb");
    let mut bytes = fs::read(&path).unwrap();
    let places: Vec<usize> = bytes
        .windows(text.len())
        .enumerate()
        .filter(|(_, at)| *at == text.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "{text} is stored");
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_entry_is_named_and_stops_nothing_else() {
    let (indexers, home) = one_home();
    (0..300).for_each(|n| drop(home.write(&format!("many/f{n}"), n.to_string())));
    home.publish(&["many"]);
    // The path occurs in the row alone; the key is the name.
    damage(&home, &home.path("many/f299").to_string_lossy());
    let listed = home.run(&["ls"]);
    let about = |lines: &[String], word: &str| lines.iter().filter(|line| line.contains(word)).count();
    assert_eq!((listed.code, about(&listed.out, "many/")), (Some(3), 299), "{listed:?}");
    assert_eq!(about(&listed.err, "the entry of many/f299 in the catalogue"), 1, "{listed:?}");
    let sharer = home.share_file("one", "more");
    let reader = Home::at(&indexers, 0);
    reader.done(&["get", "one"]);
    reader.done(&["get", "many/f8"]);
    sharer.interrupt();
    let refused = home.start_err(&["share", "many/f299"], "damaged: unshare many/f299, then share");
    refused.interrupt();
    home.done(&["deregister", "many/f299"]);
    home.publish(&["many/f299"]);
    assert_eq!(about(&home.done(&["ls"]).out, "many/"), 300);
}

/// A home that has shared `a`, `b` and `c` and holds a copy of `theirs`, and somebody who serves copies of the three.
fn shared_and_held() -> (Indexers, Home, Home, [Running; 2]) {
    let (indexers, home, reader) = two_homes();
    let other = reader.write("theirs", "of another");
    for (name, content) in [("a", "of a"), ("b", "of b"), ("c", "of c")] {
        home.write(name, content);
    }
    let sharer = home.share(&["a", "b", "c"]);
    home.share_anew("b", "of b, again");
    let serving = reader.share(&[other.to_str().unwrap()]);
    reader.done(&["get", "a", "b", "c"]);
    home.done(&["get", "theirs"]);
    (indexers, home, reader, [sharer, serving])
}

#[test]
fn lost_catalogue_is_told_and_repaired_from_files_and_indexers_with_no_number_given_twice() {
    let (_indexers, home, reader, [sharer, _serving]) = shared_and_held();
    sharer.kill();
    home.write("b", "of b, changed since");
    fs::remove_file(home.path("c")).unwrap();
    let catalogue = home.path(".neko/catalogue.redb");
    let whole = fs::read(&catalogue).unwrap();
    for way in ["cut to nothing", "cut", "removed"] {
        match way {
            "removed" => fs::remove_file(&catalogue).unwrap(),
            way => fs::write(&catalogue, &whole[..if way == "cut" { 6000 } else { 0 }]).unwrap(),
        }
        let listed = home.run(&["ls"]);
        let said = listed.err.join("\n");
        assert!(said.contains("is damaged") && said.contains("nekopeer repair"), "{way}: {listed:?}");
        assert_eq!(listed.code, Some(if way == "removed" { 0 } else { 3 }), "{way}: {listed:?}");
        let repaired = home.done(&["repair", "--json"]);
        let tells = |line: &String| line.contains("nekopeer repair") || line.contains("is damaged");
        assert!(!repaired.err.iter().any(tells), "{way}: who repairs is not told to repair: {repaired:?}");
        let report = repaired.json();
        let state = if way == "removed" { "missing" } else { "damaged" };
        assert_eq!(report["state"], state, "{way}: {report}");
        let names = |key: &str| {
            report[key].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!((names("shared"), names("copies")), (vec!["a"], vec!["theirs"]), "{way}: {report}");
        assert_eq!((names("changed"), names("missing")), (vec!["b"], vec!["c"]), "{way}: {report}");
        assert_eq!((&report["unknown"], &report["complete"]), (&0.into(), &true.into()), "{way}: {report}");
        let listed = home.done(&["ls"]);
        assert!(listed.err.is_empty() && listed.out.len() == 3, "{way}: {listed:?}");
    }
    assert!(home.path(".neko/catalogue.redb.damaged-2").exists());
    assert_eq!(home.done(&["repair"]).out, ["the catalogue is intact"]);
    let _sharer = home.share(&["a", "b"]);
    let version = |name| reader.done(&["get", name, "--json"]).json()["version"].as_u64();
    assert_eq!(version("a"), Some(1));
    assert!(version("b") > Some(3), "later ones may have been published");
    assert_eq!(reader.read("b"), b"of b, changed since");
}

/// The indexers forgot what was withdrawn, and who has the later version is away: nobody remembers the name, or one with
/// an older version does.
#[test]
fn number_that_nobody_remembers_is_not_given_again_after_a_repair() {
    for is_behind_there in [false, true] {
        let (_port, addr) = kept_port();
        let indexers = Indexers::at(addr);
        let [home, ahead, behind] = [(); 3].map(|()| Home::at(&indexers, 0));
        for (content, reader) in [("first", &behind), ("second", &ahead)] {
            let sharer = home.share_file("a", content);
            reader.done(&["get", "a"]);
            sharer.interrupt();
        }
        drop(indexers);
        let _indexers = Indexers::at(addr);
        let _serving = is_behind_there.then(|| behind.start_err(&["serve"], "registered 1 file"));
        fs::write(home.path(".neko/catalogue.redb"), []).unwrap();
        home.done(&["repair"]);
        let _sharer = home.share_file("a", "third");
        let got = ahead.done(&["get", "a", "--json"]).json();
        assert!(got["version"].as_u64() > Some(2), "{got}");
        assert_eq!(ahead.read("a"), b"third");
    }
}

#[test]
fn damaged_catalogue_keeps_what_can_be_read_and_its_numbers_when_nobody_else_knows_them() {
    let (_indexers, home) = one_home();
    for content in ["first", "second"] {
        (0..300).for_each(|n| drop(home.write(&format!("many/f{n}"), format!("{content} {n}"))));
        home.publish(&["many"]);
    }
    damage(&home, &home.path("many/f299").to_string_lossy());
    let report = home.done(&["repair", "--json"]).json();
    let published = report["shared"].as_array().unwrap();
    assert!(published.len() == 299 && report["unknown"] == 1, "{report}");
    assert!(report["why"].as_str().unwrap().contains("many/f299"), "{report}");
    let sharer = home.share(&["many"]);
    let mut versions: Vec<_> = home.listed().iter().map(|file| file["version"].as_u64().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!((versions[298], versions[299]), (2, 3), "f299 has a new number, above all it had");
    sharer.interrupt();
}

#[test]
fn what_is_in_the_way_or_exposed_is_refused_and_named_and_nothing_is_repaired_where_nothing_was() {
    let (_indexers, home) = one_home();
    home.run(&["repair"]).failed_with(3, &["no peer was here"]);
    home.run(&["get", "nothing"]).failed_with(1, &[]);
    let (data, catalogue) = (home.path(".neko"), home.path(".neko/catalogue.redb"));
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    for (path, mode) in [(&catalogue, 0o666), (&data.join("peer.key"), 0o604)] {
        let before = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for words in [["ls"], ["repair"]] {
            home.run(&words).failed_with(3, &["others may", "run: chmod "]);
        }
        fs::set_permissions(path, before).unwrap();
    }
    fs::set_permissions(&data, fs::Permissions::from_mode(0o2775)).unwrap(); // as a volume for a group has it
    home.done(&["ls"]);
    // A pipe there would keep a repair waiting.
    fs::remove_file(&catalogue).unwrap();
    testkit::pipe(&catalogue);
    home.run(&["repair"]).failed_with(3, &["it is no file"]);
}

#[test]
fn key_that_is_gone_is_said_and_no_other_one_is_made() {
    let (_indexers, home) = one_home();
    home.run(&["get", "nothing"]).failed_with(1, &[]);
    fs::remove_file(home.path(".neko/peer.key")).unwrap();
    for words in [&["ls"][..], &["get", "nothing"], &["repair"], &["id"]] {
        home.run(words).failed_with(3, &["peer.key is missing: put it back", "catalogue.redb"]);
    }
    assert!(!home.path(".neko/peer.key").exists());
}

/// Number of the format that the home's catalogue is stored in; sets it to `to`.
fn format_of(home: &Home, to: Option<u64>) -> u64 {
    let meta = redb::TableDefinition::<&str, &[u8]>::new("meta");
    let database = redb::Database::open(home.path(".neko/catalogue.redb")).unwrap();
    let write = database.begin_write().unwrap();
    let mut table = write.open_table(meta).unwrap();
    let found = table.get("schema").unwrap().unwrap().value().try_into().map(u64::from_le_bytes).unwrap();
    if let Some(to) = to {
        table.insert("schema", to.to_le_bytes().as_slice()).unwrap();
    }
    drop(table);
    write.commit().unwrap();
    found
}

#[test]
fn catalogue_of_another_format_is_refused_with_both_numbers_and_rebuilt_once_it_is_moved_away() {
    let (_indexers, home) = one_home();
    let sharer = home.share_file("a", "of a");
    sharer.kill();
    let known = format_of(&home, Some(99));
    for other in [99, known - 2] {
        format_of(&home, Some(other));
        let says = [
            &format!("has format {other}, and this nekopeer reads format {known}")[..],
            "--data-dir",
            "move it away and run nekopeer repair",
        ];
        home.run(&["ls"]).failed_with(3, &says);
        home.run(&["repair"]).failed_with(3, &says);
        assert_eq!(format_of(&home, None), other, "it is left as it is");
    }
    std::fs::rename(home.path(".neko/catalogue.redb"), home.path("away")).unwrap();
    let report = home.done(&["repair", "--json"]).json();
    assert_eq!(report["shared"], serde_json::json!(["a"]), "{report}");
}

#[test]
fn name_that_was_withdrawn_stays_withdrawn_when_its_catalogue_is_repaired() {
    let (_indexers, home, reader, [sharer, _serving]) = shared_and_held();
    home.done(&["deregister", "a"]);
    sharer.kill();
    let catalogue = home.path(".neko/catalogue.redb");
    fs::write(&catalogue, &fs::read(&catalogue).unwrap()[..6000]).unwrap();
    let report = home.done(&["repair", "--json"]).json();
    let has_a = |key: &str| report[key].as_array().unwrap().iter().any(|name| name == "a");
    assert!(!["shared", "copies", "changed", "missing"].into_iter().any(has_a), "{report}");
    let mut serving = home.serve(&[]);
    until(&mut serving, "the withdrawal", || {
        reader.run(&["get", "a"]).err.iter().any(|line| line.contains("unshared by its origin"))
    });
    home.share_anew("a", "of a, later");
    let a = home.status("a");
    assert!(a["version"].as_u64().unwrap() > 2, "{a}");
}
