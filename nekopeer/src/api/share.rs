//! `share`: shares files and folders, as new versions.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use axum::http::StatusCode;
use nekoproto::{Version, limits::POLICY_SECS_MAX};

use super::{
    LocalPath, Upload, Watch,
    job::JobKind,
    named::version,
    prelude::*,
    publishing::{publish as publish_all, title},
    said::{NO_STDIN, STDIO, glob},
    watch::SETTLE_SECS_DEFAULT,
};
use crate::{
    api::rest::described::LocalName,
    api::views::published::PublishedView,
    failure::FailureList,
    publish::{PolicyChange, PublishError, PublishOptions},
    rules::Rules,
    util::json::object,
};

/// Share files or folders, and keep serving them until Ctrl-C; a peer that runs already takes them over
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Files and folders; a path is tried from the current folder, then from DIR. The files of a folder are named
    /// by their paths below DIR, or below the folder's own name if it is elsewhere. `-` is what comes on stdin:
    /// it is stored as DIR/NAME, see --name
    #[arg(required = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    #[schema(value_type = Vec<LocalName>, min_items = 1)]
    pub(super) paths: Vec<LocalPath>,
    /// The name of a single file, of a set, or of what comes on stdin
    #[arg(long, value_name = "NAME")]
    #[schema(value_type = Option<Name>)]
    pub(super) name: Option<FileName>,
    /// Replace a file that stands in the place of what comes on stdin, or of an earlier version, and was not shared as it is
    #[arg(long)]
    #[serde(skip)]
    force: bool,
    /// Share this earlier version anew, as the newest, in its place: PATH is the name of a file shared here. Its bytes come
    /// from a reader that holds or keeps it, see follow --keep
    #[arg(long, value_name = "N", value_parser = version, conflicts_with_all = ["watch", "set", "name", "exclude"])]
    #[serde(skip)]
    version: Option<Version>,
    /// Go on watching the paths: what is created or changed there is shared by itself once it is complete, and what is
    /// removed is unshared. If a peer runs on the folder already, that peer does it as long as this command lives
    #[arg(long)]
    #[serde(skip)]
    watch: bool,
    /// With --watch: unshare what is removed once it is gone for so many seconds; a build may be about to make it anew
    #[arg(long, value_name = "SECS", default_value_t = SETTLE_SECS_DEFAULT, requires = "watch",
          value_parser = clap::value_parser!(u32).range(..=i64::from(SETTLE_SECS_MAX)))]
    #[serde(skip)]
    settle: u32,
    /// The path is a folder: all of it becomes one version of one name, which changes at once where it is held. A second
    /// word is the name: share --set DIR NAME. Sharing it again makes the next version
    #[arg(long)]
    #[serde(default)]
    set: bool,
    /// Share hidden files and folders too; a hidden path that is named is shared anyway
    #[arg(long)]
    #[serde(default)]
    hidden: bool,
    /// Share nothing that this glob matches, in the syntax of gitignore: `*.tmp`, `build/`; a .nekoignore file in a folder
    /// has such lines. May be given several times
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    #[serde(default)]
    exclude: Vec<String>,
    /// Share what links in folders lead to, as if it were there, if it is on the folder's file system; a link that is named is
    /// followed anyway
    #[arg(long)]
    #[serde(default)]
    follow_links: bool,
    /// Name all that is skipped
    #[arg(short, long)]
    #[serde(default)]
    #[schema(ignore)]
    verbose: bool,
    /// How copies are kept coherent; what is left out stays as it was
    #[arg(skip)]
    #[serde(default, deserialize_with = "object")]
    policy: PolicyChange,
}

const SETTLE_SECS_MAX: u32 = 24 * 60 * 60;
const NAME_USAGE: &str = "--name names a single file, and what comes on stdin (`-`) needs it";
const SET_USAGE: &str = "--set takes one folder, and its name if it is to have another: share --set DIR [NAME]; \
                         stdin (`-`) is for files";
const RULES_STDIN: &str =
    "--hidden, --exclude and --follow-links are about the files of folders, not stdin (`-`)";
const VERSION_USAGE: &str = "--version shares an earlier version of one file anew: share NAME --version N";
const WATCH_STDIN: &str = "--watch watches files and folders, not stdin (`-`)";
const WATCH_LINKS: &str = "--watch does not see changes of what links in folders lead to: share without --follow-links, or again \
                           after each change";
const WATCH_LINE: &str =
    "--watch goes on until Ctrl-C: run `nekopeer share PATH... --watch` in a shell of its own";

impl Share {
    /// `PATH NAME` instead of two paths, if the second is no file.
    pub(crate) fn with_name_as_second_word(mut self, saying: Saying) -> Self {
        let [_, LocalPath(second)] = self.paths.as_slice() else { return self };
        let exists = second == Path::new(STDIO) || !self.set && saying.find(second).exists();
        let name = second.to_str().and_then(|text| FileName::new(text).ok());
        if let (false, None, Some(name)) = (exists, &self.name, name) {
            self.paths.pop();
            self.name = Some(name);
        }
        self
    }

    pub(super) fn parts(self) -> (Vec<PathBuf>, PublishOptions) {
        let Self {
            paths,
            name,
            set: is_set,
            hidden,
            exclude,
            follow_links,
            verbose: names_skipped,
            policy,
            ..
        } = self;
        let rules = Rules { hidden, exclude, follow_links };
        let options = PublishOptions { name, is_set, policy, rules, names_skipped, keeps_unshared: false };
        (paths.into_iter().map(|path| path.0).collect(), options)
    }
}

impl Api for Share {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let (paths, options) = self.parts();
        let job = host.jobs.begin(JobKind::Publish, options.name.as_slice(), title(&paths), false);
        let publishing = publish_all(&host.peer, paths, options, &job, answer);
        job.unless_cancelled(publishing).await
    }

    fn said(self, saying: Saying) -> Result<Command, NoCommand> {
        let anew = self.version;
        let share = if self.set { self.with_name_as_second_word(saying) } else { self };
        let policy = saying.line.unwrap_or_default().or(saying.policy);
        let Self { paths, name, force, watch, set: is_set, hidden, exclude, follow_links, .. } = &share;
        if let Some(version) = anew {
            let [path] = paths.as_slice() else { return Err(NoCommand::usage(VERSION_USAGE)) };
            let name = path.0.to_str().and_then(|text| FileName::new(text).ok());
            let name = name.ok_or_else(|| NoCommand::usage(VERSION_USAGE))?;
            return Ok(Upload { name, force: *force, version: Some(version), policy }.into());
        }
        let from_stdin = paths.iter().any(|path| path.0 == Path::new(STDIO));
        match name {
            Some(_) if paths.len() > 1 => Err(NoCommand::usage(NAME_USAGE)),
            None if from_stdin => Err(NoCommand::usage(NAME_USAGE)),
            _ if *is_set && (from_stdin || paths.len() > 1) => Err(NoCommand::usage(not_a_set(paths))),
            _ if from_stdin && (*hidden || *follow_links || !exclude.is_empty()) => {
                Err(NoCommand::usage(RULES_STDIN))
            }
            _ if *watch && *follow_links => Err(NoCommand::usage(WATCH_LINKS)),
            _ if *watch && from_stdin => Err(NoCommand::usage(WATCH_STDIN)),
            _ if *watch && saying.line.is_some() => Err(NoCommand::usage(WATCH_LINE)),
            Some(_) if from_stdin && saying.line.is_some() => Err(NoCommand::usage(NO_STDIN)),
            Some(name) if from_stdin => {
                Ok(Upload { name: name.clone(), force: *force, version: None, policy }.into())
            }
            _ if *force => {
                Err(NoCommand::usage("--force is about what comes on stdin (`-`), and about --version"))
            }
            _ => {
                let paths = paths.iter().map(|path| saying.find(&path.0).into()).collect();
                Ok(Self { paths, policy, ..share }.into())
            }
        }
    }

    fn about(&self) -> About<'_> {
        About {
            shape: Shape::List("files"),
            has_policy: true,
            stores_files: true,
            title: "reading".to_owned(),
            paths: self.paths.iter().map(|path| path.0.as_path()).collect(),
            then: self.watch.then(|| Watch { share: self.clone(), settle: self.settle }.into()),
            ..About::needing(Need::Serving)
        }
    }

    fn view(&self) -> Box<dyn View> {
        Box::new(PublishedView::of(self.verbose, self.follow_links))
    }

    fn check_paths(&self) -> Result<(), Failure> {
        let missing = |path: &LocalPath| {
            let (path, source) = (path.0.clone(), path.0.symlink_metadata().err()?);
            Some(Failure::of(&PublishError::Unreadable { path, source }))
        };
        let mut faults = FailureList::default();
        self.paths.iter().filter_map(missing).for_each(|fault| faults.push(fault));
        faults.into_result()
    }
}

/// Why `--set` with these paths means nothing: the second may be meant as a name.
fn not_a_set(paths: &[LocalPath]) -> Cow<'static, str> {
    let second = paths.get(1).filter(|_| paths.len() == 2).and_then(|path| path.0.to_str());
    match second.and_then(|text| Some((text, FileName::new(text).err()?))) {
        Some((text, why)) => format!("{text:?} cannot be the name of a set: {why}").into(),
        None => SET_USAGE.into(),
    }
}

/// What became of files that were to be shared.
#[derive(Serialize, ToSchema)]
#[schema(as = Shared)]
pub(super) struct Shared {
    /// New versions, and those that equal the version shared before.
    files: Vec<PublishedRow>,
    /// Names of copies of other origins' files, which stay copies.
    copies: Vec<String>,
    /// Names of files of folders that were unshared by name, and stay so until they are named.
    withdrawn: Vec<String>,
    /// Names of files of folders that are shared and were removed; they stay shared until they are unshared.
    missing: Vec<String>,
    /// Files that cannot be shared.
    failed: Vec<UnpublishedRow>,
    /// What to type elsewhere to get all of them, if they are the files of one folder.
    ticket: Option<String>,
    /// What in folders was not shared, by cause.
    skipped: SkippedFields,
    /// Names and failures that are not listed here because they are too many.
    more: usize,
    /// Indexers that acknowledged.
    indexers_told: u64,
    /// Whether each version is listed by an indexer; until then its number may change.
    confirmed: bool,
}

route! {
    /// Shares files and folders of this machine.
    post "/api/v1/publish" share(Share checked) -> Shared, "What became of them"
}

fn checked(inside: &Inside, share: Share) -> Result<Share, Problem> {
    let Share { paths, name, set, .. } = &share;
    if paths.is_empty() || paths.iter().any(|path| path.0.as_os_str().is_empty()) {
        return Err(Problem::bad_request("say which files: \"paths\" has at least one, and none is empty"));
    }
    if (name.is_some() || *set) && paths.len() > 1 {
        let detail =
            "\"name\" and \"set\" are of a single path: leave them out, or share the paths one by one";
        return Err(Problem::new(StatusCode::CONFLICT, "conflict", detail));
    }
    if !share.policy.is_valid() {
        return Err(Problem::bad_request(format!("times of a policy are 1 to {POLICY_SECS_MAX} seconds")));
    }
    let paths = paths.iter().map(|path| inside.host.peer.dir().join(&path.0).into()).collect();
    Ok(Share { paths, ..share })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_word_of_register_is_a_name_unless_it_is_a_file() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["a", "b"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let saying = Saying { dir: dir.path(), policy: PolicyChange::default(), line: None };
        let said = |words: &[&str]| {
            let paths = words.iter().map(|word| PathBuf::from(word).into()).collect();
            let share = Share { paths, ..Share::default() }.with_name_as_second_word(saying);
            match share.said(saying) {
                Ok(Command::Share(share)) => (share.paths.len(), share.name),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(said(&["a", "x/y"]), (1, Some(FileName::new("x/y").unwrap())));
        assert_eq!(said(&["a", "b"]), (2, None));
        assert_eq!(said(&["a", "b", "c"]), (3, None));
    }
}
