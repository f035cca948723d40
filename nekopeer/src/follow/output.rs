//! [`HookOutput`]: what the command of a follower prints, as lines for whoever follows and for nobody else.

use std::mem::take;

use nekoproto::FileName;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::mpsc,
};

use super::FOLLOWED_MAX;
use crate::library::events::Event;

pub(crate) const PRINTED_LINE_MAX: usize = 1024;
/// Lines of one run that are shown, of both its outputs together; the rest is counted.
pub(crate) const PRINTED_LINES_MAX: usize = 200;
/// Lines that wait to be shown, and a count for each name. What finds no room is counted too: no command waits for a terminal.
pub(crate) const PRINTED_WAITING_MAX: usize = 2 * PRINTED_LINES_MAX + FOLLOWED_MAX;
const READ_BYTES: usize = 4096;

/// One output of a run, cut into lines for a terminal.
#[derive(Debug, Default)]
pub(super) struct HookOutput {
    line: Vec<u8>,
    /// The line is longer than what is shown of it.
    is_cut: bool,
    /// The cursor is back at the begin of the line.
    is_returned: bool,
    /// The last line with text.
    pub(super) last: String,
}

impl HookOutput {
    pub(super) async fn read(&mut self, from: Option<impl AsyncRead + Unpin>, run: &HookRun<'_>) {
        let Some(mut from) = from else { return };
        let mut piece = [0; READ_BYTES];
        while let Ok(len @ 1..) = from.read(&mut piece).await {
            self.add(&piece[..len], |line| run.show(line));
        }
    }

    fn add(&mut self, bytes: &[u8], mut each: impl FnMut(String)) {
        for byte in bytes {
            match byte {
                b'\n' => self.end(&mut each),
                b'\r' => self.is_returned = true,
                _ if self.line.len() < PRINTED_LINE_MAX || self.is_returned => {
                    if take(&mut self.is_returned) {
                        self.line.clear(); // written over, as the bar of a download is
                        self.is_cut = false;
                    }
                    self.line.push(*byte);
                }
                _ => self.is_cut = true,
            }
        }
    }

    /// Ends the line, if there is text in it.
    pub(super) fn end(&mut self, mut each: impl FnMut(String)) {
        let text = String::from_utf8_lossy(&self.line).replace('\t', " ");
        let mut text: String = text.chars().filter(|letter| !letter.is_control()).collect();
        if self.is_cut {
            text.push_str("...");
        }
        *self = Self { last: take(&mut self.last), ..Self::default() };
        if !text.trim().is_empty() {
            self.last.clone_from(&text);
            each(text);
        }
    }
}

/// One run of a command, and what of its output was shown.
#[derive(Debug)]
pub(super) struct HookRun<'a> {
    name: &'a FileName,
    to: &'a mpsc::Sender<Event>,
    /// Lines that were shown, and others.
    counts: Mutex<(usize, u64)>,
}

impl<'a> HookRun<'a> {
    pub(super) const fn new(name: &'a FileName, to: &'a mpsc::Sender<Event>) -> Self {
        Self { name, to, counts: parking_lot::const_mutex((0, 0)) }
    }

    pub(super) fn show(&self, line: String) {
        let mut counts = self.counts.lock();
        let is_shown = counts.0 < PRINTED_LINES_MAX
            && self.to.capacity() > FOLLOWED_MAX
            && self.to.try_send(Event::Printed { name: self.name.clone(), line }).is_ok();
        match is_shown {
            true => counts.0 += 1,
            false => counts.1 += 1,
        }
    }

    /// Says how many lines were not shown, if any.
    pub(super) fn end(self) {
        let (_, lines) = self.counts.into_inner();
        if lines > 0 {
            // There is room left for it, unless nobody takes anything.
            drop(self.to.try_send(Event::NotShown { name: self.name.clone(), lines }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut all) = (HookOutput::default(), Vec::new());
        for piece in pieces {
            lines.add(piece, |line| all.push(line));
        }
        lines.end(|line| all.push(line));
        all
    }

    #[test]
    fn lines_are_whole_without_control_characters_and_as_a_terminal_shows_them() {
        assert_eq!(lines(&[b"on", b"e\ntw", b"o"]), ["one", "two"]);
        assert_eq!(lines(&[b"\n \n\x1b[31mred\tone\x07\r\n"]), ["[31mred one"]);
        assert_eq!(lines(&[b"10%\r", b"20%\r100%\ndone\r"]), ["100%", "done"]);
        assert_eq!(lines(&[b"\xff\xc3", b"\xa9"]), ["\u{fffd}é"]);
    }

    #[test]
    fn long_line_is_cut_and_the_next_one_is_not() {
        let long = vec![b'x'; 10 * PRINTED_LINE_MAX];
        let shown = lines(&[&long, &long, b"\rshort\n", &long, b"\nnext\n"]);
        assert_eq!(shown.len(), 3);
        assert_eq!((&*shown[0], shown[1].len(), &*shown[2]), ("short", PRINTED_LINE_MAX + 3, "next"));
    }

    #[tokio::test]
    async fn lines_of_a_run_are_bounded_and_the_rest_is_counted_whether_anybody_takes_them_or_not() {
        let name = FileName::new("f").unwrap();
        for (room, shown) in [(PRINTED_WAITING_MAX, PRINTED_LINES_MAX), (FOLLOWED_MAX + 5, 5)] {
            let (to, mut taken) = mpsc::channel(room);
            let run = HookRun::new(&name, &to);
            (0..PRINTED_LINES_MAX + 7).for_each(|n| run.show(n.to_string()));
            run.end();
            for n in 0..shown {
                assert_eq!(
                    taken.recv().await,
                    Some(Event::Printed { name: name.clone(), line: n.to_string() })
                );
            }
            let lines = (PRINTED_LINES_MAX + 7 - shown) as u64;
            assert_eq!(taken.recv().await, Some(Event::NotShown { name: name.clone(), lines }));
        }
    }
}
