//! The verbs that the command line and the REPL share, and the commands that they mean.

mod follow;

use std::{
    borrow::Cow,
    io,
    num::NonZeroU64,
    path::{Path, PathBuf, absolute},
};

use anyhow::Context;
use nekoproto::{
    FileName, Position, Version,
    limits::{TTL_DEFAULT, TTL_MAX},
};

use self::follow::FollowArgs;
use super::{args::seconds, names, output::Output, units};
use crate::{
    commands::{
        Command, Failure, FailureKind, Filters, Finding, LocalPath, MATCHES_DEFAULT, MATCHES_MAX, Part,
        Wanted, Word, id_digits, own_places,
    },
    publish::{PolicyChange, PublishOptions},
    rules::{Rules, check_glob},
    state::freshness::OnStale,
    storage::catalogue::{Preference, PreferenceChange},
};

/// The path that stands for stdin or stdout.
const STDIO: &str = "-";

/// What a peer can be asked to do.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Verb {
    /// Publish files or folders, and keep serving them until Ctrl-C; a peer that runs already takes them over
    Share(Files),
    /// The same as share; a second word that is no file is the name: register PATH NAME
    #[command(hide = true)]
    Register(Files),
    /// Share files no longer; they stay on disk
    #[command(alias = "deregister")]
    Unshare {
        /// Their names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<FileName>,
    },
    /// Download files, verified
    #[command(alias = "download")]
    Get {
        /// Their names; FOLDER/ or a glob for all that match; or tickets that `share` printed elsewhere. NAME@ID, with 10
        /// to 64 digits of an id, is the file of that origin
        #[arg(required_unless_present = "names_from", value_name = "NAME", value_parser = Word::said)]
        names: Vec<Word>,
        /// A file with further names, one in a line; `-` is stdin
        #[arg(long, value_name = "FILE")]
        names_from: Option<PathBuf>,
        /// Where a single file is to stand, or a folder that is there to put all into, without the folders of their names
        /// [default: DIR/NAME]; `-` is stdout, in order, each part verified before it is written, and no copy is kept
        #[arg(short, long, value_name = "PATH")]
        output: Option<PathBuf>,
        #[command(flatten)]
        reach: Reach,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        preference: PreferenceArgs,
        /// This version of a single file, from whoever holds or keeps it; it takes its place as with rollback
        #[arg(long, value_name = "N")]
        version: Option<NonZeroU64>,
        /// Return at once, and have the running peer go on; see jobs and cancel
        #[arg(long)]
        background: bool,
    },
    /// Keep the newest version of names in place, and keep serving, until Ctrl-C
    Follow(FollowArgs),
    /// Put an earlier version that follow kept back in its place; newer ones up to the newest known stay out of it
    Rollback {
        /// The name
        #[arg(value_name = "NAME")]
        name: FileName,
        /// The version [default: the last one that was replaced]
        #[arg(value_name = "VERSION")]
        version: Option<NonZeroU64>,
    },
    /// Find files in the network by words or globs
    Search(SearchArgs),
    /// Ask the network who has an exact name
    Query {
        /// What to look for
        #[arg(required = true, value_name = "NAME")]
        names: Vec<FileName>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show which indexers a query reaches, which it leaves out and why, and how long each takes
    Trace {
        /// What to look for
        #[arg(value_name = "NAME")]
        name: FileName,
        #[command(flatten)]
        reach: Reach,
    },
    /// List what is published and held here
    Ls,
    /// List what is held here after asking the origins whether it is still the newest; with names, all that is known
    /// of these: who reads them and who is behind, which earlier versions are kept
    Status {
        /// Only these
        #[arg(value_name = "NAME")]
        names: Vec<FileName>,
    },
    /// Wait until the newest version of a name is here, or at all that read it
    Wait {
        /// The name
        #[arg(value_name = "NAME")]
        name: FileName,
        /// This version or a later one, instead of the newest
        #[arg(long, value_name = "N")]
        version: Option<NonZeroU64>,
        /// Where the name is published: until all peers that have a lease on it have the version
        #[arg(long)]
        all: bool,
        /// Give up after so many seconds
        #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u32).range(1..))]
        timeout: Option<u32>,
    },
    /// Print tickets of files that are published or held here: what to type elsewhere to get them
    Ticket {
        /// Their names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<FileName>,
        /// Draw each as a QR code too
        #[arg(long)]
        qr: bool,
    },
    /// End the peer that runs on this folder
    Stop,
    /// List the long commands that the running peer carries out, and those that ended lately
    Jobs,
    /// Limit how fast the running peer sends and fetches, until it ends; without a flag, say how fast
    Limit {
        /// Bytes a second that are sent at most, such as 4MB; 0: no limit
        #[arg(long, value_name = "RATE", value_parser = units::new_rate)]
        up: Option<u64>,
        /// Bytes a second that are fetched at most; 0: no limit
        #[arg(long, value_name = "RATE", value_parser = units::new_rate)]
        down: Option<u64>,
    },
    /// Pause all downloads of the running peer; what came is kept
    Pause,
    /// Have paused downloads go on
    Resume,
    /// Interrupt one of them, whoever began it; what came so far is kept
    Cancel {
        /// Its id, or the name it is about
        #[arg(value_name = "NAME|ID")]
        what: String,
    },
}

/// What to search for.
#[derive(Clone, Debug, clap::Args)]
pub struct SearchArgs {
    /// A name; words that must all occur in a name, in upper or lower case; or globs: `*.bin` is about the last part
    /// of a name, `models/*.bin` about all of it, and `**` stands for any folders
    #[arg(value_name = "TERM")]
    terms: Vec<String>,
    /// Only files of at least this size, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    min_size: Option<u64>,
    /// Only files published since then: 2h, 3d or a date such as 2026-11-01
    #[arg(long, value_name = "AGE", value_parser = units::since)]
    newer_than: Option<u64>,
    /// Only files of this origin: the first digits of its id
    #[arg(long, value_name = "ID", value_parser = id_digits)]
    origin: Option<String>,
    /// Hops the search may travel beyond the own indexer [default: 3]
    #[arg(long, value_name = "N", conflicts_with = "here", value_parser = clap::value_parser!(u8).range(0..=i64::from(TTL_MAX)))]
    ttl: Option<u8>,
    /// Ask the own indexer only
    #[arg(long)]
    here: bool,
    /// At most this many files
    #[arg(long, value_name = "N", default_value_t = MATCHES_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MATCHES_MAX)))]
    limit: u32,
    /// Go on where the search before ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<Position>,
}

/// What to publish.
#[derive(Clone, Debug, clap::Args)]
pub struct Files {
    /// Files and folders; a path is tried from the current folder, then from DIR. The files of a folder are named
    /// by their paths below DIR, or below the folder's own name if it is elsewhere. `-` is what comes on stdin:
    /// it is stored as DIR/NAME, see --name
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The name of a single file, of a set, or of what comes on stdin
    #[arg(long, value_name = "NAME")]
    name: Option<FileName>,
    /// Replace a file that stands in the place of what comes on stdin
    #[arg(long)]
    force: bool,
    /// Go on watching the paths: what is created or changed there is published by itself once it is complete, and what is
    /// removed is withdrawn. If a peer runs on the folder already, that peer does it as long as this command lives
    #[arg(long)]
    watch: bool,
    /// The path is a folder: all of it becomes one version of one name, which changes at once where it is held. A second
    /// word is the name: share --set DIR NAME. Sharing it again makes the next version
    #[arg(long)]
    set: bool,
    /// Publish hidden files and folders too; a hidden path that is named is published anyway
    #[arg(long)]
    hidden: bool,
    /// Publish nothing that this glob matches, in the syntax of gitignore: `*.tmp`, `build/`; a .nekoignore file in a folder
    /// has such lines. May be given several times
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    exclude: Vec<String>,
    /// Name all that is skipped
    #[arg(short, long)]
    verbose: bool,
}

/// How far a query travels.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Reach {
    /// Hops the query may travel beyond the own indexer
    #[arg(long, value_name = "N", default_value_t = TTL_DEFAULT,
          value_parser = clap::value_parser!(u8).range(0..=i64::from(TTL_MAX)))]
    ttl: u8,
}

/// Which of several files under one name, and over which file.
#[derive(Clone, Debug, clap::Args)]
pub struct Which {
    /// Whose file, where several origins publish different ones: the first digits of its id; `@` is then part of each name
    #[arg(long, value_name = "ID", value_parser = id_digits)]
    origin: Option<String>,
    /// Replace a file that stands there and is no copy from here; fetch a file larger than the free disk
    #[arg(long)]
    force: bool,
}

/// How copies are kept coherent, each under its name from now on.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct PreferenceArgs {
    /// Seconds that the copies count as fresh at most, from now on; their origins may be stricter
    #[arg(long, value_name = "SECS", value_parser = seconds())]
    bound: Option<u32>,
    /// What happens to the copies when a newer version is out, from now on and whatever --on-stale says of all
    #[arg(long, value_name = "WHAT")]
    when_stale: Option<OnStale>,
    /// Take back what --bound and --when-stale said of these names before
    #[arg(long)]
    no_preference: bool,
}

impl PreferenceArgs {
    const fn change(self) -> PreferenceChange {
        let said = Preference { bound_secs: self.bound, on_stale: self.when_stale };
        PreferenceChange { anew: self.no_preference, said }
    }
}

/// Why a verb means no command.
#[derive(Debug)]
enum NoCommand {
    /// Its words contradict each other.
    Usage(Cow<'static, str>),
    /// A file that it names cannot be read.
    Failed(anyhow::Error),
}

/// Where a verb was said.
#[derive(Clone, Copy)]
pub(super) struct Saying<'a> {
    /// The share folder, where paths are tried that the current folder does not have.
    pub(super) dir: &'a Path,
    /// What was said about the policy at the start of the program.
    pub(super) policy: PolicyChange,
    /// The same in this line of the REPL; `None` if no lines are read, and stdin is free to be read by the command.
    pub(super) line: Option<PolicyChange>,
}

impl Verb {
    /// The command that this means; `None` if it is wrong usage, which was said. Reads the files of names that it
    /// mentions.
    pub(super) fn command(self, saying: Saying, output: Output) -> anyhow::Result<Option<Command>> {
        let has_policy = saying.line.is_some_and(|said| said != PolicyChange::default());
        let why = match self.meaning(saying) {
            Ok(Command::Read { .. }) if output.is_json() => {
                "--json and -o - would both write to stdout".into()
            }
            Ok(command)
                if has_policy && !matches!(command, Command::Publish { .. } | Command::Store { .. }) =>
            {
                "only what is shared has a policy".into()
            }
            Ok(command) => return Ok(Some(command)),
            Err(NoCommand::Usage(why)) => why,
            Err(NoCommand::Failed(error)) => return Err(error),
        };
        output.failure(&Failure::with(FailureKind::Invalid, why));
        Ok(None)
    }

    fn meaning(self, saying: Saying) -> Result<Command, NoCommand> {
        Ok(match self {
            Self::Share(files) if files.set => files.with_name_as_second_word(saying).command(saying)?,
            Self::Share(files) => files.command(saying)?,
            Self::Register(files) => files.with_name_as_second_word(saying).command(saying)?,
            Self::Unshare { names } => Command::Withdraw { names },
            Self::Get { names, names_from, output, reach, which, preference, version, background } => {
                let names = all_names(names, names_from.as_deref(), saying)?;
                let version = version.and_then(|version| Version::new(version.get()));
                get(&names, output, reach, (which, version), (preference.change(), background))?
            }
            Self::Follow(follow) => follow.command()?,
            Self::Rollback { name, version } => {
                Command::Rollback { name, version: version.and_then(|version| Version::new(version.get())) }
            }
            Self::Search(search) => search.command()?,
            Self::Query { names, reach } => Command::Query { names, ttl_hops: reach.ttl },
            Self::Trace { name, reach } => Command::Trace { name, ttl_hops: reach.ttl },
            Self::Ls => Command::List { first: None, after: None },
            Self::Status { names } => Command::Check { names, first: None, after: None },
            Self::Wait { name, version, all, timeout } => Command::Wait {
                name,
                version: version.and_then(|version| Version::new(version.get())),
                by_all: all,
                within_secs: timeout,
            },
            Self::Ticket { names, qr } => Command::Ticket { names, as_qr: qr },
            Self::Jobs => Command::Jobs,
            Self::Cancel { what } => Command::Cancel { what },
            Self::Limit { up, down } => Command::Throttle { up, down, pauses: None },
            Self::Pause => Command::Throttle { up: None, down: None, pauses: Some(true) },
            Self::Resume => Command::Throttle { up: None, down: None, pauses: Some(false) },
            Self::Stop => Command::Stop,
        })
    }

    /// Whether the files that it publishes are to be watched then.
    pub(super) const fn watches(&self) -> bool {
        matches!(self, Self::Share(files) | Self::Register(files) if files.watch)
    }

    /// The names that this mentions, to be completed later.
    pub(super) fn names(&self) -> Vec<&FileName> {
        match self {
            Self::Get { names, .. } => names.iter().filter_map(Word::name).collect(),
            Self::Query { names, .. }
            | Self::Ticket { names, .. }
            | Self::Unshare { names }
            | Self::Status { names } => names.iter().collect(),
            Self::Follow(FollowArgs { names, .. }) => names.iter().filter_map(Word::name).collect(),
            Self::Trace { name, .. } | Self::Rollback { name, .. } | Self::Wait { name, .. } => vec![name],
            Self::Share(_)
            | Self::Register(_)
            | Self::Search(_)
            | Self::Ls
            | Self::Stop
            | Self::Jobs
            | Self::Limit { .. }
            | Self::Pause
            | Self::Resume
            | Self::Cancel { .. } => Vec::new(),
        }
    }
}

impl SearchArgs {
    fn command(self) -> Result<Command, NoCommand> {
        let filters = Filters {
            min_size: self.min_size.unwrap_or_default(),
            published_from_ms: self.newer_than.unwrap_or_default(),
            origin: self.origin,
        };
        let ttl_hops = if self.here { Some(0) } else { self.ttl };
        let part = Part { ttl_hops, limit: Some(self.limit), after: self.after };
        let finding = Finding::new(&self.terms, filters, part);
        finding.map(Command::Find).map_err(|why| NoCommand::Usage(why.into()))
    }
}

impl Files {
    /// `PATH NAME` instead of two paths, if the second is no file.
    fn with_name_as_second_word(mut self, saying: Saying) -> Self {
        let [_, second] = self.paths.as_slice() else { return self };
        let exists = second == Path::new(STDIO) || !self.set && find(second, saying.dir).exists();
        let name = second.to_str().and_then(|text| FileName::new(text).ok());
        if let (false, None, Some(name)) = (exists, &self.name, name) {
            self.paths.pop();
            self.name = Some(name);
        }
        self
    }

    fn command(self, saying: Saying) -> Result<Command, NoCommand> {
        let Self { paths, name, force, watch, set: is_set, hidden, exclude, verbose } = self;
        let policy = saying.line.unwrap_or_default().or(saying.policy);
        let from_stdin = paths.iter().any(|path| path == Path::new(STDIO));
        match name {
            Some(_) if paths.len() > 1 => Err(NoCommand::Usage(NAME_USAGE.into())),
            None if from_stdin => Err(NoCommand::Usage(NAME_USAGE.into())),
            _ if is_set && (from_stdin || paths.len() > 1) => Err(NoCommand::Usage(not_a_set(&paths))),
            _ if watch && from_stdin => Err(NoCommand::Usage(WATCH_STDIN.into())),
            _ if watch && saying.line.is_some() => Err(NoCommand::Usage(WATCH_LINE.into())),
            Some(_) if from_stdin && saying.line.is_some() => Err(NoCommand::Usage(NO_STDIN.into())),
            Some(name) if from_stdin => Ok(Command::Store { name, force, policy }),
            _ if force => Err(NoCommand::Usage("--force is about what comes on stdin (`-`)".into())),
            name => {
                let paths = paths.iter().map(|path| find(path, saying.dir).into()).collect();
                let (rules, names_skipped) = (Rules { hidden, exclude }, verbose);
                let options = PublishOptions { name, is_set, policy, rules, names_skipped };
                Ok(Command::Publish { paths, options })
            }
        }
    }
}

/// Why `--set` with these paths means nothing: the second may be meant as a name.
fn not_a_set(paths: &[PathBuf]) -> Cow<'static, str> {
    let second = paths.get(1).filter(|_| paths.len() == 2).and_then(|path| path.to_str());
    match second.and_then(|text| Some((text, FileName::new(text).err()?))) {
        Some((text, why)) => format!("{text:?} cannot be the name of a set: {why}").into(),
        None => SET_USAGE.into(),
    }
}

const NAME_USAGE: &str = "--name names a single file, and what comes on stdin (`-`) needs it";
const VERSION_USAGE: &str =
    "--version is of a single file, and puts it in its place; -o - writes it to stdout instead";
const OUTPUT_USAGE: &str = "-o names the place of a single file; of several, a folder that is there";
const PREFERENCE_USAGE: &str = "--bound, --when-stale and --no-preference are of a copy, and -o - keeps none";
const SET_USAGE: &str = "--set takes one folder, and its name if it is to have another: share --set DIR [NAME]; \
                         stdin (`-`) is for files";
const WATCH_STDIN: &str = "--watch watches files and folders, not stdin (`-`)";
const WATCH_LINE: &str =
    "--watch goes on until Ctrl-C: run `nekopeer share PATH... --watch` in a shell of its own";
const NO_STDIN: &str = "stdin has the commands, it cannot be read by one of them";

/// A glob that may be excluded.
fn glob(text: &str) -> Result<String, String> {
    check_glob(text).map(|()| text.to_owned())
}

/// The absolute path of what `path` names: in the current folder, or else in `dir`.
fn find(path: &Path, dir: &Path) -> PathBuf {
    let here = absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = absolute(dir.join(path)).unwrap_or_else(|_| here.clone());
    if here.symlink_metadata().is_err() && there.symlink_metadata().is_ok() { there } else { here }
}

fn all_names(mut names: Vec<Word>, from: Option<&Path>, saying: Saying) -> Result<Vec<Word>, NoCommand> {
    let Some(from) = from else { return Ok(names) };
    let read = if from != Path::new(STDIO) {
        let file = std::fs::File::open(find(from, saying.dir));
        let opened = file.with_context(|| format!("cannot read {}", from.display()));
        opened.and_then(|file| names::read(io::BufReader::new(file), from))
    } else if saying.line.is_none() {
        names::read(io::stdin().lock(), from)
    } else {
        return Err(NoCommand::Usage(NO_STDIN.into()));
    };
    names.extend(read.map_err(NoCommand::Failed)?);
    Ok(names)
}

fn get(
    words: &[Word],
    output: Option<PathBuf>,
    reach: Reach,
    (which, version): (Which, Option<Version>),
    (preference, background): (PreferenceChange, bool),
) -> Result<Command, NoCommand> {
    let wanted = Wanted::of_words(words, which.origin, reach.ttl);
    let (mut names, mut wanted) = wanted.map_err(|why| NoCommand::Usage(why.into()))?;
    wanted.version = version;
    let is_of_one = version.is_some() || output.as_ref().is_some_and(|path| !path.is_dir());
    if let (true, [], [pattern]) = (is_of_one, names.as_slice(), wanted.patterns.as_slice())
        && let Ok(name) = FileName::new(&pattern.text)
    {
        names.push(name); // it looks like a glob
        wanted.patterns.clear();
    }
    if version.is_some()
        && (wanted.are_many(&names) || output.as_deref().is_some_and(|path| path != Path::new(STDIO)))
    {
        return Err(NoCommand::Usage(VERSION_USAGE.into()));
    }
    let is_many = wanted.are_many(&names);
    let output = match (names.as_slice(), output) {
        ([_], Some(path)) if !is_many && path == Path::new(STDIO) && background => {
            return Err(NoCommand::Usage("-o - writes to stdout, which --background leaves".into()));
        }
        ([_], Some(path))
            if !is_many && path == Path::new(STDIO) && preference != PreferenceChange::default() =>
        {
            return Err(NoCommand::Usage(PREFERENCE_USAGE.into()));
        }
        ([name], Some(path)) if !is_many && path == Path::new(STDIO) => {
            return Ok(Command::Read { name: name.clone(), wanted });
        }
        (_, None) => None,
        (_, Some(path)) if is_many && !path.is_dir() => {
            return Err(NoCommand::Usage(OUTPUT_USAGE.into()));
        }
        (several, Some(path)) if is_many => {
            own_places(several).map_err(|why| NoCommand::Usage(why.message.into()))?;
            Some(LocalPath(absolute(&path).unwrap_or(path)))
        }
        (_, Some(path)) => Some(LocalPath(absolute(&path).unwrap_or(path))),
    };
    Ok(Command::Download { names, output, force: which.force, wanted, preference, background })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_tried_from_the_current_folder_then_from_the_share_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("only-there.txt"), "").unwrap();
        assert_eq!(find(Path::new("only-there.txt"), dir.path()), dir.path().join("only-there.txt"));
        std::fs::write(dir.path().join("Cargo.toml"), "").unwrap();
        let here = std::env::current_dir().unwrap();
        assert_eq!(find(Path::new("Cargo.toml"), dir.path()), here.join("Cargo.toml"));
        assert_eq!(find(Path::new("nowhere"), dir.path()), here.join("nowhere"));
    }

    #[test]
    fn second_word_of_register_is_a_name_unless_it_is_a_file() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["a", "b"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let saying = Saying { dir: dir.path(), policy: PolicyChange::default(), line: None };
        let said = |words: &[&str]| {
            let files = Files {
                paths: words.iter().map(PathBuf::from).collect(),
                name: None,
                force: false,
                watch: false,
                set: false,
                hidden: false,
                exclude: Vec::new(),
                verbose: false,
            };
            match Verb::Register(files).meaning(saying) {
                Ok(Command::Publish { paths, options }) => (paths.len(), options.name),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(said(&["a", "x/y"]), (1, Some(FileName::new("x/y").unwrap())));
        assert_eq!(said(&["a", "b"]), (2, None));
        assert_eq!(said(&["a", "b", "c"]), (3, None));
    }
}
