//! What is transferred, between how many, under which caps; and whether that makes sense.

use nekoproto::{limits::FILE_BYTES_MAX, limits::HOLDERS_MAX};

use crate::plan::query::defaults;
use crate::report::{units::exact, units::percent, units::rate, units::shown};
use crate::run::{files::Bulk, files::Change};
use crate::scenarios::prelude::*;

pub const ROUNDS_DEFAULT: usize = 3;
const READERS_MAX: usize = 64;
const FILES_MAX: usize = 1_000_000;
/// Most bytes of a small file: it is made in memory.
const SMALL_BYTES_MAX: u64 = 64 << 20;
const PLACES_MAX: u64 = 1_000_000;
const ROUNDS_MAX: usize = 1000;

/// One transfer that is measured, as far as the command line says it alike for all.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Case {
    #[arg(skip = What::Whole(Bulk { size: 0, sparse: false }))]
    pub what: What,
    /// Who has the file when the readers begin: the origin and copies, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub sources: usize,
    /// Who fetch it, all beginning at once, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub readers: usize,
    #[arg(skip)]
    pub security: Security,
    /// Bytes a second that each peer sends at most, such as 50MB [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub cap_up: Option<NonZeroU64>,
    /// Bytes a second that each peer fetches at most, such as 50MB [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub cap_down: Option<NonZeroU64>,
    /// One of the sources is hostile and corrupts this share of the chunks, in percent; needs 2 sources
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub corrupt: Option<f64>,
    /// How often each is measured, floors and transfer in turns; medians count
    #[arg(long, value_name = "N", default_value_t = ROUNDS_DEFAULT)]
    pub rounds: usize,
    #[arg(skip = true)]
    pub floors: bool,
    /// The readers keep their copies fresh, and have the change by news of it; time counts from before it is shared
    #[arg(long)]
    pub by_news: bool,
    /// Seed of all bytes, of what changes and of what is corrupted
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    Whole(Bulk),
    /// A file is published, and nobody fetches it.
    Publish(Bulk),
    /// A file is fetched, changes, and is fetched again: this is what counts.
    Change(Bulk, Change),
    /// Small files are published, and fetched.
    Files {
        count: usize,
        /// The least and the most bytes of one.
        bytes: (u64, u64),
    },
}

impl Case {
    /// A file of `size` bytes from one source to one reader over TLS, with floors, once.
    pub fn whole(size: u64) -> Self {
        Self { what: What::Whole(Bulk { size, sparse: false }), ..defaults() }
    }

    /// The first thing that makes no sense is the error.
    pub fn check(&self) -> Result<()> {
        let within = |what: &str, is: u64, most: u64| {
            ensure!((1..=most).contains(&is), "the number of {what} must be 1 to {most}, not {is}");
            Ok(())
        };
        within("sources", self.sources as u64, HOLDERS_MAX as u64)?;
        within("readers", self.readers as u64, READERS_MAX as u64)?;
        within("rounds", self.rounds as u64, ROUNDS_MAX as u64)?;
        if self.corrupt.is_some() {
            ensure!(self.sources >= 2, "with --corrupt one source is hostile: give --sources 2 or more");
        }
        if !matches!(self.what, What::Whole(_)) {
            ensure!(self.sources == 1, "only a whole file is fetched from several sources: give --sources 1");
        }
        let is_change = matches!(self.what, What::Change(..));
        ensure!(is_change || !self.by_news, "there is news of a change only: give --change");
        match self.what {
            What::Whole(bulk) | What::Publish(bulk) => bulk.check(),
            What::Change(bulk, change) => {
                bulk.check()?;
                within("places", change.places, PLACES_MAX)?;
                let each = change.bytes_each(bulk.size);
                let Change { percent, places, .. } = change;
                let (size, has_all) = (shown(bulk.size), each > 0 && each * places <= bulk.size);
                ensure!(has_all, "{percent} % of {size} is less than a byte at each of {places} places");
                Ok(())
            }
            What::Files { count, bytes: (_, most) } => {
                within("files", count as u64, FILES_MAX as u64)?;
                ensure!(most <= SMALL_BYTES_MAX, "a small file has at most {}", shown(SMALL_BYTES_MAX));
                Ok(())
            }
        }
    }

    /// Bytes of all files on disk at once, at most.
    pub fn disk_bytes(&self) -> u64 {
        let readers = self.readers as u64;
        let honest_copies = self.sources as u64 - 1 - u64::from(self.corrupt.is_some());
        match self.what {
            What::Whole(Bulk { size, sparse }) => {
                // A floor writes one file, before the readers do.
                size.saturating_mul(u64::from(!sparse) + honest_copies + readers)
            }
            What::Publish(Bulk { size, sparse }) => size * u64::from(!sparse),
            // The old version stands beside the new one while that is being made.
            What::Change(Bulk { size, .. }, _) => size.saturating_mul(2 * (1 + readers)),
            What::Files { count, bytes: (_, most) } => most.saturating_mul(count as u64 * (1 + readers)),
        }
    }

    /// What it is, in a few words. Tells one row of results from another.
    pub fn name(&self) -> String {
        let mut name = match self.what {
            What::Whole(bulk) => bulk.name(),
            What::Publish(bulk) => format!("share {}", bulk.name()),
            What::Change(bulk, Change { percent, places, how }) => {
                format!("{}, {percent} % changed at {places} places, {}", bulk.name(), option_name(&how))
            }
            What::Files { count, bytes: (least, most) } => {
                format!("{count} files of {} to {}", shown(least), shown(most))
            }
        };
        let several = [("sources", self.sources), ("readers", self.readers)];
        for (what, count) in several.into_iter().filter(|(_, count)| *count > 1) {
            name += &format!(", {count} {what}");
        }
        name.extend(self.by_news.then_some(", by news"));
        name.extend(self.corrupt.map(|percent| format!(", one of them corrupts {percent} %")));
        for (cap, way) in [(self.cap_up, "up"), (self.cap_down, "down")] {
            name.extend(cap.map(|cap| format!(", {}/s {way}", exact(cap.get()))));
        }
        name
    }

    /// The same as part of a file name.
    pub fn slug(&self) -> String {
        let plain = self.name().replace('%', "percent");
        let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-").to_lowercase()
    }

    /// The command that measures it alone.
    pub fn command(&self) -> String {
        let mut command = "profile transfer".to_owned();
        let bulk = |bulk: Bulk| {
            format!(" --size {}{}", exact(bulk.size), if bulk.sparse { " --sparse" } else { "" })
        };
        command += &match self.what {
            What::Whole(whole) => bulk(whole),
            What::Publish(whole) => format!(" --share{}", bulk(whole)),
            What::Change(whole, Change { percent, places, how }) => {
                format!("{} --change {percent} --places {places} --how {}", bulk(whole), option_name(&how))
            }
            What::Files { count, bytes: (least, most) } => {
                format!(" --files {count} --file-bytes {}-{}", exact(least), exact(most))
            }
        };
        let unless = |count: usize, usual| (count != usual).then(|| count.to_string());
        let cap = |cap: Option<NonZeroU64>| cap.map(|cap| exact(cap.get()));
        for (flag, value) in [
            (" --sources ", unless(self.sources, 1)),
            (" --readers ", unless(self.readers, 1)),
            (" --rounds ", unless(self.rounds, ROUNDS_DEFAULT)),
            (" --corrupt ", self.corrupt.map(|percent| percent.to_string())),
            (" --cap-up ", cap(self.cap_up)),
            (" --cap-down ", cap(self.cap_down)),
            (" --insecure", (self.security == Security::Insecure).then(String::new)),
            (" --by-news", self.by_news.then(String::new)),
        ] {
            command.extend(value.map(|value| flag.to_owned() + &value));
        }
        command
    }
}

impl Bulk {
    fn check(self) -> Result<()> {
        ensure!(self.size <= FILE_BYTES_MAX, "a file has at most {}", shown(FILE_BYTES_MAX));
        Ok(())
    }

    fn name(self) -> String {
        format!("{}{}", shown(self.size), if self.sparse { " sparse" } else { "" })
    }
}
