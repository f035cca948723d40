//! [`HookRun`]: what the command of a follower prints, and what it started in the background, as lines for whoever follows
//! and for nobody else.

use std::{
    mem::take,
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Command, Stdio},
    time::Duration,
};

use nekoproto::FileName;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStderr, ChildStdout},
    sync::mpsc,
    time::sleep,
};

use super::FOLLOWED_MAX;
use crate::library::events::Event;

pub(crate) const PRINTED_LINE_MAX: usize = 1024;
/// Lines of one run that are shown, of both its outputs together; the rest is counted.
pub(crate) const PRINTED_LINES_MAX: usize = 200;
/// Lines that wait to be shown, and a count for each name. What finds no room is counted too: no command waits for a terminal.
pub(crate) const PRINTED_WAITING_MAX: usize = 2 * PRINTED_LINES_MAX + FOLLOWED_MAX;
const READ_BYTES: usize = 4096;

/// Reads what stands in a pipe to its end, in a process of its own that needs nobody.
const READ_ON: &str = "exec 3<&0; cat <&3 >/dev/null 2>&1 &";

/// One output of a run, cut into lines for a terminal.
#[derive(Debug, Default)]
struct HookOutput {
    line: Vec<u8>,
    /// The line is longer than what is shown of it.
    is_cut: bool,
    /// The cursor is back at the begin of the line.
    is_returned: bool,
    last: String,
}

impl HookOutput {
    /// Reads to the end, which is noted: there is no pipe then.
    async fn read(&mut self, pipe: &mut Option<impl AsyncRead + Unpin>, lines: &PrintedLines) {
        let Some(from) = pipe else { return };
        let mut piece = [0; READ_BYTES];
        while let Ok(len @ 1..) = from.read(&mut piece).await {
            self.add(&piece[..len], |line| lines.show(line));
        }
        *pipe = None;
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
    fn end(&mut self, mut each: impl FnMut(String)) {
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

/// The lines of one run, of which some are shown.
#[derive(Debug)]
struct PrintedLines {
    name: FileName,
    to: mpsc::Sender<Event>,
    /// Those that were shown, and others.
    counts: Mutex<(usize, u64)>,
}

impl PrintedLines {
    fn show(&self, line: String) {
        let mut counts = self.counts.lock();
        let is_shown = counts.0 < PRINTED_LINES_MAX
            && self.to.capacity() > FOLLOWED_MAX
            && self.to.try_send(Event::Printed { name: self.name.clone(), line }).is_ok();
        match is_shown {
            true => counts.0 += 1,
            false => counts.1 += 1,
        }
    }
}

/// One run of a command: its pipes, and what came from them. Dropped, it says how many lines were not shown, if any.
#[derive(Debug)]
pub(super) struct HookRun {
    lines: PrintedLines,
    pipes: (Option<ChildStdout>, Option<ChildStderr>),
    outputs: (HookOutput, HookOutput),
    /// Whoever writes to the pipes goes on when this is dropped.
    is_kept: bool,
}

impl HookRun {
    pub(super) fn new(
        name: &FileName,
        to: &mpsc::Sender<Event>,
        stdout: Option<ChildStdout>,
        stderr: Option<ChildStderr>,
    ) -> Self {
        let counts = parking_lot::const_mutex((0, 0));
        let lines = PrintedLines { name: name.clone(), to: to.clone(), counts };
        Self { lines, pipes: (stdout, stderr), outputs: Default::default(), is_kept: false }
    }

    /// Reads until nobody can write any more.
    ///
    /// # Cancel safety
    /// Safe: the next call goes on.
    pub(super) async fn read(&mut self) {
        let Self { lines, pipes, outputs, .. } = self;
        tokio::join!(outputs.0.read(&mut pipes.0, lines), outputs.1.read(&mut pipes.1, lines));
    }

    /// Whether somebody may still write.
    pub(super) const fn is_open(&self) -> bool {
        self.pipes.0.is_some() || self.pipes.1.is_some()
    }

    /// The last line with text, of stderr if there is one. Lines end here.
    pub(super) fn last(&mut self) -> &str {
        let Self { lines, outputs: (out, err), .. } = self;
        out.end(|line| lines.show(line));
        err.end(|line| lines.show(line));
        if err.last.is_empty() { &out.last } else { &err.last }
    }

    /// The command has ended. Shows what comes later, until nobody can write any more, for `time` at most, and while somebody
    /// follows.
    pub(super) async fn keep(mut self, time: Duration) {
        self.is_kept = true;
        let to = self.lines.to.clone();
        tokio::select! {
            () = self.read() => {}
            () = sleep(time) => {}
            () = to.closed() => {}
        }
        self.last();
    }
}

impl Drop for HookRun {
    fn drop(&mut self) {
        let lines = self.lines.counts.get_mut().1;
        if lines > 0 {
            // There is room left for it, unless nobody takes anything.
            drop(self.lines.to.try_send(Event::NotShown { name: self.lines.name.clone(), lines }));
        }
        if self.is_kept {
            let (stdout, stderr) = (self.pipes.0.take(), self.pipes.1.take());
            let stdout = stdout.and_then(|pipe| pipe.into_owned_fd().ok());
            let stderr = stderr.and_then(|pipe| pipe.into_owned_fd().ok());
            stdout.into_iter().chain(stderr).for_each(read_on);
        }
    }
}

/// Without a reader the next print would end whoever writes there.
fn read_on(pipe: OwnedFd) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", READ_ON]).current_dir("/").process_group(0);
    let begun = shell.stdin(pipe).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if let Err(error) = begun {
        tracing::debug!(%error, "what a command started in the background has no reader any more");
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
            let run = HookRun::new(&name, &to, None, None);
            (0..PRINTED_LINES_MAX + 7).for_each(|n| run.lines.show(n.to_string()));
            drop(run);
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
