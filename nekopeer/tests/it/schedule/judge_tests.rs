//! Made-up histories: one that keeps the promises, and for each promise one that breaks it.

use super::*;

const BOUND: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Story(Vec<Entry>);

impl Story {
    fn then(mut self, event: Event) -> Self {
        let at = Duration::from_secs(self.0.len() as u64);
        self.0.push(Entry { at, name: "f".to_owned(), event });
        self
    }

    fn begun(self, content: &str) -> Self {
        self.then(Event::Begun { content: content.to_owned() })
    }

    fn published(self, version: u64, content: &str) -> Self {
        self.begun(content).then(Event::Published { version, content: content.to_owned(), confirmed: true })
    }

    fn unconfirmed(self, version: u64, content: &str) -> Self {
        self.begun(content).then(Event::Published { version, content: content.to_owned(), confirmed: false })
    }

    fn said(self, number: usize, version: u64, content: &str) -> Self {
        let by = Reader { number, drops: false };
        self.then(Event::Said { by, version, content: content.to_owned(), fresh: None })
    }

    fn fresh(self, asked_at: u64, version: u64, content: &str) -> Self {
        let fresh = Some(Fresh { asked_at: Duration::from_secs(asked_at), bound: BOUND });
        let by = Reader { number: 0, drops: false };
        self.then(Event::Said { by, version, content: content.to_owned(), fresh })
    }

    fn in_place(self, content: &str) -> Self {
        let by = Reader { number: 0, drops: false };
        self.then(Event::InPlace { by, content: content.to_owned() })
    }

    fn breaks(self) -> Vec<&'static str> {
        judge(&self.0).into_iter().map(|broken| broken.promise).collect()
    }
}

#[test]
fn history_that_keeps_the_promises_is_not_accused() {
    let story = Story::default()
        .published(1, "one")
        .fresh(2, 1, "one")
        .in_place("one")
        .published(2, "two")
        .fresh(7, 1, "one") // at its bound, not past it
        .begun("killed")
        .said(0, 3, "killed") // out, though its command never ended
        .said(1, 2, "two")
        .in_place("killed");
    assert_eq!(story.breaks(), [""; 0]);
}

#[test]
fn fresh_past_the_bound_breaks_the_first_promise() {
    let replaced = || Story::default().published(1, "one").published(2, "two"); // at 3 s
    assert_eq!(replaced().fresh(6, 1, "one").breaks(), ["P1"]);
    assert_eq!(replaced().fresh(6, 2, "two").breaks(), [""; 0]);
    let forgotten = replaced().then(Event::SetBack { to: Duration::from_secs(2) });
    assert_eq!(forgotten.fresh(6, 1, "one").breaks(), [""; 0]);
    let remembered = replaced().then(Event::SetBack { to: Duration::from_secs(4) });
    assert_eq!(remembered.fresh(6, 1, "one").breaks(), ["P1"]);
    assert_eq!(replaced().then(Event::Lost).fresh(6, 1, "one").breaks(), ["P1"]);
    let unlisted = || Story::default().published(1, "one").unconfirmed(2, "two");
    assert_eq!(unlisted().fresh(6, 1, "one").breaks(), ["P1"]);
    assert_eq!(unlisted().then(Event::Lost).fresh(6, 1, "one").breaks(), [""; 0]);
}

#[test]
fn older_after_newer_breaks_the_second_promise() {
    let both = || Story::default().published(1, "one").published(2, "two");
    assert_eq!(both().said(0, 2, "two").said(0, 1, "one").breaks(), ["P2"]);
    assert_eq!(both().said(0, 2, "two").said(1, 1, "one").breaks(), [""; 0]);
    assert_eq!(both().in_place("two").in_place("one").breaks(), ["P2"]);
    assert_eq!(both().said(0, 2, "two").in_place("one").breaks(), ["P2"]);
    let by = Reader { number: 0, drops: true };
    let said = |version, content: &str| Event::Said {
        by: by.clone(),
        version,
        content: content.to_owned(),
        fresh: None,
    };
    assert_eq!(both().then(said(2, "two")).then(said(1, "one")).breaks(), [""; 0]);
}

#[test]
fn what_was_never_published_breaks_the_third_promise() {
    assert_eq!(Story::default().published(1, "one").said(0, 2, "two").breaks(), ["P3"]);
    assert_eq!(Story::default().said(0, 1, "one").begun("one").breaks(), ["P3"]);
    assert_eq!(Story::default().published(1, "one").said(0, 2, "one").breaks(), ["P3"]);
}

#[test]
fn number_of_two_contents_breaks_the_fourth_promise() {
    assert_eq!(Story::default().published(1, "one").published(1, "two").breaks(), ["P4"]);
    let killed = Story::default().begun("one").begun("two").said(0, 1, "one").said(1, 1, "two");
    assert_eq!(killed.breaks(), ["P4"]);
    let unlisted = || Story::default().unconfirmed(1, "one").published(1, "two");
    assert_eq!(unlisted().said(0, 1, "two").breaks(), [""; 0]);
    assert_eq!(unlisted().said(0, 1, "two").said(1, 1, "one").breaks(), ["P4"]);
}

#[test]
fn bytes_that_are_no_version_are_torn() {
    assert_eq!(Story::default().published(1, "one").in_place("on").breaks(), ["torn"]);
    let by = Reader { number: 0, drops: false };
    let written_into = Event::WasInPlace { by, content: "twe".to_owned() };
    let story = Story::default().published(1, "one").published(2, "two");
    assert_eq!(story.then(written_into).breaks(), ["torn"]);
}
