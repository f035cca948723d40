//! A program that runs: its output line by line, signals, and how it ends.
#![allow(clippy::expect_used, reason = "a helper of tests fails by panicking")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
};

use serde_json::Value;

use crate::prelude::*;

/// Time limit of a program's run; one that exceeds it hangs, and fails the test.
pub const LIMIT: Duration = crate::TEST_LIMIT;

pub fn until(running: &mut Running, what: &str, is_so: impl FnMut() -> bool) {
    until_within(LIMIT, running, what, is_so);
}

/// Waits until `is_so`, while `running` runs, for at most this long.
#[track_caller]
pub fn until_within(limit: Duration, running: &mut Running, what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(running.is_running(), "it ended before {what}: {:?}", running.said());
        assert!(began.elapsed() < limit, "{what} did not come within {limit:?}: {}", running.said());
        thread::yield_now();
    }
}

/// A running program; dropping it kills it.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    out: Lines,
    err: Lines,
}

#[derive(Debug)]
pub struct Ended {
    /// `None`: it was ended by a signal.
    pub code: Option<i32>,
    pub out: Vec<String>,
    pub err: Vec<String>,
}

struct Lines {
    coming: Receiver<String>,
    seen: Vec<String>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::start_with(command)
    }

    pub fn start_with(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        drop(command); // it holds our ends of the pipes
        let stdin = child.stdin.take();
        let out = Lines::of(child.stdout.take());
        let err = Lines::of(child.stderr.take());
        Self { child, stdin, out, err }
    }

    pub fn out_line(&mut self, text: &str) -> String {
        self.out.wait_for(text).unwrap_or_else(|| panic!("no {text:?} on stdout: {}", self.said()))
    }

    /// The same; `None` if it ends without.
    pub fn out_line_if_any(&mut self, text: &str) -> Option<String> {
        self.out.wait_for(text)
    }

    pub fn err_line(&mut self, text: &str) -> String {
        self.err.wait_for(text).unwrap_or_else(|| panic!("no {text:?} on stderr: {}", self.said()))
    }

    pub fn err_was(&mut self, text: &str) -> bool {
        self.err.seen.extend(self.err.coming.try_iter());
        self.err.seen.iter().any(|line| line.contains(text))
    }

    pub fn type_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    }

    pub fn answers(&mut self, line: &str, text: &str) -> String {
        self.type_line(line);
        self.out_line(text)
    }

    pub fn id(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Sends it this signal; returns once all of its threads have stopped if that is STOP.
    pub fn signal(&self, name: &str) {
        let line = format!("kill -s {name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
        let tasks = format!("/proc/{}/task", self.child.id());
        let has_stopped = |task: fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
        };
        while name == "STOP" && !fs::read_dir(&tasks).unwrap().flatten().all(has_stopped) {
            thread::yield_now();
        }
    }

    /// Dropping it does.
    pub fn kill(self) {}

    pub fn interrupt(self) -> Ended {
        self.signal("INT");
        self.wait()
    }

    pub fn serves_at(&mut self) -> SocketAddr {
        let line = self.err_line("serving on ");
        let addr = line.split_whitespace().find_map(|word| word.trim_end_matches(',').parse().ok());
        addr.unwrap_or_else(|| panic!("{line}"))
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn close_input(&mut self) {
        drop(self.stdin.take());
    }

    /// Closes its stdin and waits for its end.
    pub fn wait(mut self) -> Ended {
        self.close_input();
        self.wait_with_input_open()
    }

    /// Waits for its end; `None` if that takes longer than `limit`, and it is killed.
    pub fn wait_within(mut self, limit: Duration) -> Option<Ended> {
        let until = Instant::now() + limit;
        while self.is_running() {
            if Instant::now() > until {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
        Some(self.wait())
    }

    pub fn wait_with_input_open(mut self) -> Ended {
        let ended = self.out.wait_for_end() && self.err.wait_for_end();
        assert!(ended, "hangs: {}", self.said());
        let code = self.child.wait().unwrap().code();
        Ended { code, out: std::mem::take(&mut self.out.seen), err: std::mem::take(&mut self.err.seen) }
    }

    pub fn said(&mut self) -> String {
        self.err_was("");
        self.out.seen.extend(self.out.coming.try_iter());
        format!("stdout {:#?}, stderr {:#?}", self.out.seen, self.err.seen)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

impl Ended {
    pub fn json(&self) -> Value {
        assert_eq!(self.out.len(), 1, "one object: {self:?}");
        serde_json::from_str(&self.out[0]).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn ended_with(&self, code: i32, text: &str) {
        assert!(self.code == Some(code) && self.err.join("\n").contains(text), "{code} {text:?}: {self:?}");
    }

    /// Asserts this exit code, and one line on stderr that contains these texts.
    pub fn failed_with(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.err.len(), 1, "one line: {self:?}");
        assert!(texts.iter().all(|text| self.err[0].contains(text)), "{texts:?} in {self:?}");
    }
}

impl Lines {
    fn of(stream: Option<impl Read + Send + 'static>) -> Self {
        let (sender, coming) = channel();
        if let Some(stream) = stream {
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Self { coming, seen: Vec::new() }
    }

    fn wait_for(&mut self, text: &str) -> Option<String> {
        if let Some(line) = self.seen.iter().find(|line| line.contains(text)) {
            return Some(line.clone());
        }
        let until = Instant::now() + LIMIT;
        while let Ok(line) = self.coming.recv_timeout(until.saturating_duration_since(Instant::now())) {
            self.seen.push(line.clone());
            if line.contains(text) {
                return Some(line);
            }
        }
        None
    }

    fn wait_for_end(&mut self) -> bool {
        let until = Instant::now() + LIMIT;
        loop {
            match self.coming.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}
