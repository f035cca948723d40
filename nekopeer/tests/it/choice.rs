//! Names that two origins publish: which file is meant.

use crate::program::*;

/// Two origins that publish files as `a.txt`, with the first ten digits of their ids; and a reader.
struct Two {
    _indexers: Indexers,
    homes: [Home; 2],
    ids: [String; 2],
    sharing: Vec<Running>,
    reader: Home,
}

impl Two {
    fn publish() -> Self {
        Self::publish_as(["of origin 0\n", "of origin 1\n"])
    }

    fn publish_as(texts: [&str; 2]) -> Self {
        let indexers = Indexers::one();
        let homes = [Home::at(&indexers, 0), Home::at(&indexers, 0)];
        let (mut sharing, mut ids) = (Vec::new(), Vec::new());
        for (home, text) in homes.iter().zip(texts) {
            home.write("a.txt", text);
            sharing.push(home.share(&["a.txt"]));
            ids.push(home.status("a.txt")["origin"].as_str().unwrap()[..10].to_owned());
        }
        let reader = Home::at(&indexers, 0);
        Self { _indexers: indexers, homes, ids: ids.try_into().unwrap(), sharing, reader }
    }

    fn refuses(&self, words: &[&str], text: &str) {
        let ended = self.reader.run(words);
        let said = ended.err.last().unwrap();
        let is_named = self.ids.iter().all(|id| said.contains(&format!("a.txt@{id}")));
        assert!(ended.code == Some(3) && is_named && said.contains(text), "{ended:?}");
    }

    fn forget(&self) {
        self.reader.done(&["deregister", "a.txt"]);
        std::fs::remove_file(self.reader.path("a.txt")).unwrap();
    }
}

#[test]
fn without_an_origin_all_are_listed_and_none_is_remembered_but_a_copy_stays_that_of_its_own_if_gone_too() {
    let mut two = Two::publish();
    let reader = &two.reader;
    let each = two.ids.each_ref().map(|id| format!("a.txt@{id}"));
    let is_refused = |words: &[&str]| two.refuses(words, "different files");
    for (n, of_origin) in each.iter().enumerate() {
        is_refused(&["get", "a.txt"]);
        is_refused(&["get", "a.txt", "-o", "-"]);
        two.refuses(&["follow", "a.txt"], "2 origins share different files as a.txt: say which, a.txt@");
        reader.done(&["get", of_origin]);
        let text = format!("of origin {n}, again\n");
        two.homes[n].share_anew("a.txt", &text);
        reader.gets("a.txt", text.as_bytes());
        let following = reader.start_out(&["follow", "a.txt"], "a.txt is at version 2");
        assert_eq!(following.interrupt().code, Some(0));
        assert_eq!(reader.done(&["get", "a.txt", "-o", "-"]).out, [text.trim()]);
        two.forget();
    }
    is_refused(&["get", "a.txt"]);
    reader.done(&["get", "a.txt", "--origin", &two.ids[1]]);
    two.homes[1].done(&["deregister", "a.txt"]);
    drop(two.sharing.pop());
    reader.run(&["get", "a.txt"]).failed_with(1, &[&two.ids[1], "no longer", &each[0]]);
    assert_eq!(reader.read("a.txt"), b"of origin 1, again\n");
    reader.done(&["get", "a.txt", "--origin", &two.ids[0]]);
    assert_eq!(reader.read("a.txt"), b"of origin 0, again\n");
}

/// Whoever shares the same bytes under several keys may publish the next version.
#[test]
fn of_the_same_bytes_get_says_whose_it_takes_and_what_goes_on_by_itself_wants_one_named() {
    let two = Two::publish_as(["same"; 2]);
    let reader = &two.reader;
    two.refuses(&["follow", "a.txt", "--exec", "touch ran"], "2 origins share the same bytes");
    two.refuses(&["get", "a.txt", "--when-stale", "refetch"], "2 origins share the same bytes");
    let said = reader.done(&["get", "a.txt"]).err.join("\n"); // what was refused left no preference
    assert!(two.ids.iter().all(|id| said.contains(id)), "{said}");
    two.forget();
    let done = reader.done(&["get", "a.*", "--json"]).json()["files"][0].clone();
    let is_taken = |id: &String| done["origin"].as_str().unwrap().starts_with(id);
    let (taken, left) = if is_taken(&two.ids[0]) { (0, 1) } else { (1, 0) };
    assert!(done["other_origins"][0].as_str().unwrap().starts_with(&two.ids[left]), "{done}");
    // What is held stays with its origin.
    let mut following = reader.start(&["follow", "a.txt", "--exec", "cat a.txt >> ran"]);
    following.out_line("a.txt is at version 1");
    for (n, text) in [(left, "of the other"), (taken, " again")] {
        two.homes[n].share_anew("a.txt", text);
    }
    following.out_line("a.txt is at version 2");
    assert_eq!(reader.read("ran"), b"same again");
}

/// A stranger waits until the copy is dropped and its origin is off.
#[test]
fn what_goes_on_by_itself_stays_with_the_origin_of_a_copy_that_was_dropped() {
    let (indexers, origin, reader, sharing) = sharing("a.txt", "one");
    reader.done(&["get", "a.txt", "--when-stale", "drop"]);
    let mut serving = reader.serve(&[]);
    origin.share_anew("a.txt", "two");
    serving.err_line("dropped the outdated copy");
    serving.interrupt();
    sharing.interrupt();
    let stranger = Home::at(&indexers, 0);
    let _theirs = stranger.share_file("a.txt", "theirs");
    let mut following = reader.start(&["follow", "a.txt", "--exec", "touch ran"]);
    following.err_line("whose a.txt is or was here, no longer shares it");
    assert!(!reader.path("a.txt").exists() && !reader.path("ran").exists());
}

#[test]
fn an_origin_after_a_name_is_taken_wherever_a_name_is_and_nothing_is_asked_on_a_terminal() {
    let two = Two::publish();
    let shown = |words: &[&str]| at_terminal(two.reader.command(words), false).exp_eof().unwrap();
    let said = shown(&["get", "a.txt"]);
    assert!(two.ids.iter().all(|id| said.contains(&format!("a.txt@{id}"))), "{said}");
    let said = shown(&["get", "a.txt", "b.txt", "--json"]);
    assert!(said.contains("\"failed\":["), "{said}");
    for (n, id) in two.ids.iter().enumerate() {
        for verb in ["query", "search"] {
            let found = two.reader.done(&[verb, &format!("a.txt@{id}"), "--json"]).json();
            let hits = found["hits"].as_array().unwrap();
            assert_eq!(hits.len(), 1, "{verb} {n}: {found}");
            assert!(hits[0]["origin"].as_str().unwrap().starts_with(id));
        }
        let mut repl = two.reader.start(&[]);
        repl.type_line(&format!(
            "get a.txt@{id} -o {}",
            two.reader.text(&format!("copy {n}")).replace(' ', "\\ ")
        ));
        repl.type_line("exit");
        assert_eq!(repl.wait().code, Some(0));
        assert_eq!(two.reader.read(&format!("copy {n}")), format!("of origin {n}\n").as_bytes());
    }
    let told = [two.ids[0].as_str(), &two.ids[1], "no origin 0123456"];
    two.reader.run(&["get", "a.txt@0123456789abcdef"]).failed_with(1, &told);
    two.reader.run(&["get", "a.txt", "--origin", "0123456"]).failed_with(1, &told);
    let listed = two.reader.done(&["search", "a.txt"]).out;
    for id in &two.ids {
        assert!(listed.iter().any(|line| line.starts_with(&format!("a.txt@{id} "))), "{listed:?}");
    }
    let both = two.ids.each_ref().map(|id| format!("a.txt@{id}"));
    two.reader.run(&["get", &both[0], &both[1]]).failed_with(2, &["one place"]);
}

#[test]
fn a_name_with_an_at_sign_is_a_name_unless_it_ends_like_one_with_its_origin() {
    let two = Two::publish();
    let names = ["icon@2x.png", "dump@20261122", &format!("a.txt@{}", two.ids[0])];
    let other = Home::at(&two._indexers, 0);
    other.write_each(&names);
    let _sharing = other.share(&names);
    for name in &names[..2] {
        two.reader.gets(name, name.as_bytes());
        assert_eq!(two.reader.done(&["query", name, "--json"]).json()["hits"].as_array().unwrap().len(), 1);
    }
    // Nobody stands in for an origin by a file that is called like that.
    two.reader.done(&["get", names[2]]);
    assert_eq!(two.reader.read("a.txt"), b"of origin 0\n");
    two.forget();
    let listed = other.listed();
    let id = &listed[0]["origin"].as_str().unwrap()[..10];
    let with_origin = format!("{}@{id}", names[2]);
    let found = two.reader.done(&["query", &with_origin, "--json"]).json();
    assert_eq!(found["hits"][0]["name"], names[2], "{found}");
    for words in [&["get", &with_origin][..], &["get", names[2], "--origin", id]] {
        two.reader.done(words);
        assert_eq!(two.reader.read(names[2]), names[2].as_bytes());
        two.reader.done(&["deregister", names[2]]);
        std::fs::remove_file(two.reader.path(names[2])).unwrap();
    }
    let hint = ["nobody shares no.txt of origin 0123456789", "no.txt@0123456789@ID"];
    two.reader.run(&["get", "no.txt@0123456789"]).failed_with(1, &hint);
}
