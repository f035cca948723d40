//! Names that two origins publish: who chooses, and that the choice is kept.

use rexpect::{reader::Options, session::spawn_with_options};

use crate::program::{Home, Indexers, LIMIT, Running};

/// Two origins that publish different files as `a.txt`, with the first ten digits of their ids; and a reader.
struct Two {
    _indexers: Indexers,
    homes: [Home; 2],
    ids: [String; 2],
    sharing: Vec<Running>,
    reader: Home,
}

impl Two {
    fn publish() -> Self {
        let indexers = Indexers::one();
        let homes = [Home::at(&indexers, 0), Home::at(&indexers, 0)];
        let (mut sharing, mut ids) = (Vec::new(), Vec::new());
        for (n, home) in homes.iter().enumerate() {
            home.write("a.txt", format!("of origin {n}\n"));
            sharing.push(home.share(&["a.txt"]));
            let listed = home.done(&["ls", "--json"]).json();
            ids.push(listed["files"][0]["origin"].as_str().unwrap()[..10].to_owned());
        }
        let reader = Home::at(&indexers, 0);
        Self { _indexers: indexers, homes, ids: ids.try_into().unwrap(), sharing, reader }
    }

    fn is_of(&self, n: usize) {
        assert_eq!(self.reader.read("a.txt"), format!("of origin {n}\n").as_bytes());
        self.reader.done(&["deregister", "a.txt"]);
        std::fs::remove_file(self.reader.path("a.txt")).unwrap();
    }
}

#[test]
fn in_a_script_the_choice_is_said_once_and_kept_until_another_is() {
    let two = Two::publish();
    let reader = &two.reader;
    reader.run(&["get", "a.txt"]).failed_with(3, &[&two.ids[0], &two.ids[1], "--origin"]);
    for n in [0, 1, 0] {
        reader.done(&["get", &format!("a.txt@{}", two.ids[n])]);
        two.is_of(n);
        reader.done(&["get", "a.txt"]);
        two.is_of(n);
    }
    reader.done(&["get", "a.txt", "--origin", &two.ids[1]]);
    two.is_of(1);
    let read = reader.done(&["get", "a.txt", "-o", "-"]);
    assert_eq!(read.out, ["of origin 1"]);
    reader.run(&["get", "a.txt", "--origin", "any"]).failed_with(3, &["--origin"]);
}

#[test]
fn an_origin_after_a_name_is_taken_wherever_a_name_is() {
    let two = Two::publish();
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
    let told = [two.ids[0].as_str(), &two.ids[1], "no origin 012345"];
    two.reader.run(&["get", "a.txt@0123456789abcdef"]).failed_with(1, &told);
    two.reader.run(&["get", "a.txt", "--origin", "012345"]).failed_with(1, &told);
    let listed = two.reader.done(&["search", "a.txt"]).out;
    for id in &two.ids {
        assert!(listed.iter().any(|line| line.starts_with(&format!("a.txt@{id} "))), "{listed:?}");
    }
    let both = two.ids.each_ref().map(|id| format!("a.txt@{id}"));
    two.reader.run(&["get", &both[0], &both[1]]).failed_with(3, &["one place"]);
}

#[test]
fn a_name_with_an_at_sign_is_a_name_unless_such_an_origin_offers_the_name_before_it() {
    let two = Two::publish();
    let names = ["icon@2x.png", "dump@20261122", &format!("a.txt@{}", two.ids[0])];
    let other = Home::at(&two._indexers, 0);
    for name in names {
        other.write(name, name);
    }
    let _sharing = other.share(&names);
    for name in &names[..2] {
        two.reader.done(&["get", name]);
        assert_eq!(two.reader.read(name), name.as_bytes());
        assert_eq!(two.reader.done(&["query", name, "--json"]).json()["hits"].as_array().unwrap().len(), 1);
    }
    // Nobody stands in for an origin by a file that is called like that.
    two.reader.done(&["get", names[2]]);
    two.is_of(0);
}

#[test]
fn an_origin_that_was_chosen_and_is_gone_is_said_plainly() {
    let mut two = Two::publish();
    two.reader.done(&["get", &format!("a.txt@{}", two.ids[0])]);
    two.is_of(0);
    two.homes[0].done(&["deregister", "a.txt"]);
    drop(two.sharing.remove(0));
    let ended = two.reader.run(&["get", "a.txt"]);
    ended.failed_with(1, &[&two.ids[0], "no longer", "--origin", &two.ids[1]]);
    two.reader.done(&["get", "a.txt", "--origin", &two.ids[1]]);
    two.is_of(1);
}

#[test]
fn on_a_terminal_the_user_is_asked_and_the_answer_is_remembered() {
    let two = Two::publish();
    let command = two.reader.command(["get", "a.txt"]);
    let options = Options::new().timeout_ms(u64::try_from(LIMIT.as_millis()).ok());
    let mut terminal = spawn_with_options(command, options).unwrap();
    terminal.exp_string("2 origins publish different files as a.txt").unwrap();
    terminal.exp_string("  1  ").unwrap();
    let first = terminal.exp_string("  version 1").unwrap();
    terminal.exp_string(" B, published ").unwrap();
    terminal.exp_string("which one? ").unwrap();
    terminal.send_line("7").unwrap();
    terminal.exp_string("type 1 to 2").unwrap();
    terminal.send_line("1").unwrap();
    terminal.exp_eof().unwrap();
    let chosen = two.ids.iter().position(|id| first.contains(id.as_str())).unwrap();
    two.is_of(chosen);
    two.reader.done(&["get", "a.txt"]); // a script, later
    two.is_of(chosen);
}

#[test]
fn a_program_at_a_terminal_gets_one_object_and_no_question() {
    let two = Two::publish();
    let command = two.reader.command(["get", "a.txt", "b.txt", "--json"]);
    let options = Options::new().timeout_ms(u64::try_from(LIMIT.as_millis()).ok());
    let said = spawn_with_options(command, options).unwrap().exp_eof().unwrap();
    assert!(said.contains("\"failed\":[") && !said.contains("which one"), "{said}");
}

#[test]
fn after_a_question_that_is_left_the_repl_takes_the_next_line() {
    let two = Two::publish();
    let options = Options::new().timeout_ms(u64::try_from(LIMIT.as_millis()).ok());
    let options = options.strip_ansi_escape_codes(true);
    let mut terminal = spawn_with_options(two.reader.command::<&str>([]), options).unwrap();
    terminal.exp_string("neko> ").unwrap();
    terminal.send("get a.txt\r").unwrap();
    terminal.flush().unwrap();
    terminal.exp_string("which one? ").unwrap();
    terminal.send_control('c').unwrap();
    terminal.exp_string("neko> ").unwrap();
    terminal.send("search nothing\r").unwrap();
    terminal.flush().unwrap();
    terminal.exp_string("nobody offers nothing").unwrap();
}
