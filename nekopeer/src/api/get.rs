//! `get`: downloads files.

use std::path::{Path, PathBuf};

use axum::{
    http::{StatusCode, header},
    response::IntoResponse,
};
use nekoproto::{
    Version,
    limits::{POLICY_SECS_MAX, TTL_DEFAULT},
};

use super::{
    JobRow, LocalPath, Wanted, Word,
    downloading::{WantedFiles, get_all, own_places, prefer, prefer_held, read, remember},
    job::{Job, JobKind, in_background},
    jobs::only,
    named::{
        self, Pattern,
        expanding::{expanded, found_first},
        id_digits, tickets,
    },
    no_input,
    prelude::*,
    said::{STDIO, from_root},
};
use crate::{
    api::rest::described,
    api::views::{downloads::DownloadsView, jobs::lines},
    download::DownloadOptions,
    state::freshness::OnStale,
    storage::catalogue::{Preference, PreferenceChange},
    util::json::{self, whole},
};

/// Download files, verified
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Get {
    /// Their names; FOLDER/ or a glob for all that match; or tickets that `share` printed elsewhere. NAME@ID, with 10
    /// to 64 digits of an id, is the file of that origin
    #[arg(required_unless_present = "names_from", value_name = "NAME", value_parser = Word::said)]
    #[schema(value_type = Vec<described::Wanted>, min_items = 1)]
    names: Vec<Word>,
    /// A file with further names, one in a line; `-` is stdin
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    #[serde(skip)]
    names_from: Option<PathBuf>,
    /// Where a single file is to stand, or a folder to put all into, without the folders of their names: one that is
    /// there, or FOLDER/, which is made [default: DIR/NAME]; `-` is stdout, in order, each part verified before it is written, and no copy is kept
    #[arg(short, long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    #[serde(default)]
    #[schema(ignore)]
    output: Option<LocalPath>,
    /// Hops the query may travel beyond the own indexer
    #[arg(long, value_name = "N", default_value_t = TTL_DEFAULT, value_parser = said::ttl())]
    #[serde(default = "json::ttl_default", deserialize_with = "json::ttl")]
    #[schema(maximum = 16)]
    ttl: u8,
    /// Whose file, where several origins share the name: the first digits of its id; `@` is then part of each name
    #[arg(long, value_name = "ID", value_parser = id_digits)]
    #[schema(pattern = "^[0-9a-fA-F]{1,64}$")]
    origin: Option<String>,
    /// Replace a file that stands there and is no copy from here; fetch a file larger than the free disk
    #[arg(long)]
    #[serde(default)]
    force: bool,
    /// Seconds that the copies count as fresh at most, from now on; their origins may be stricter
    #[arg(long, value_name = "SECS", value_parser = said::seconds())]
    #[schema(minimum = 1, maximum = 604_800)]
    #[serde(default, rename = "bound_secs", deserialize_with = "whole")]
    bound: Option<u32>,
    /// What happens to the copies when a newer version is out, from now on and whatever --on-stale says of all
    #[arg(long, value_name = "WHAT")]
    #[serde(rename = "on_stale")]
    when_stale: Option<OnStale>,
    /// Take back what --bound and --when-stale said of these names before
    #[arg(long)]
    #[serde(default, rename = "anew")]
    no_preference: bool,
    /// This version of a single file, from whoever holds or keeps it; it takes its place as with rollback
    #[arg(long, value_name = "N", value_parser = named::version)]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 9007199254740991u64)]
    #[serde(default, deserialize_with = "json::version")]
    version: Option<Version>,
    /// Where no peer runs: seconds at most that a file of 8 MiB or more is served afterwards, while others download it; 0: it
    /// is served to nobody, during the download neither [default: 10]
    #[arg(long, value_name = "SECS")]
    #[serde(skip)]
    seed: Option<u32>,
    /// Return at once, and have the running peer go on; see jobs and cancel
    #[arg(long)]
    #[serde(default)]
    #[schema(ignore)]
    background: bool,
}

/// Seconds that what was downloaded is served on at most: who downloads it too has other sources by then.
const SEED_SECS: u32 = 10;

const VERSION_USAGE: &str =
    "--version is of one name, and puts that in its place; -o - writes a file to stdout instead";
const STDOUT_USAGE: &str = "-o - writes a single file to stdout; of several, -o names a folder";
const PREFERENCE_USAGE: &str = "--bound, --when-stale and --no-preference are of a copy, and -o - keeps none";

impl Get {
    fn wanted(&self) -> Result<(Vec<FileName>, Wanted), String> {
        let (mut names, mut wanted) = Wanted::of_words(&self.names, self.origin.clone(), self.ttl)?;
        wanted.version = self.version;
        let is_of_one = self.version.is_some() || self.output.as_ref().is_some_and(|path| !path.is_folder());
        if let (true, [], [pattern]) = (is_of_one, names.as_slice(), wanted.patterns.as_slice())
            && !pattern.text.contains(['*', '?'])
            && let Ok(name) = FileName::new(&pattern.text)
        {
            names.push(name); // it looks like a glob, as `song [live].mp3` does
            wanted.patterns.clear();
        }
        Ok((names, wanted))
    }

    fn is_to_stdout(&self) -> bool {
        self.output.as_ref().is_some_and(|path| path.0 == Path::new(STDIO))
    }

    /// Why nothing can be put where the user said, if `is_many` several files.
    fn output_fault(&self, is_many: bool) -> Option<String> {
        let said = self.output.as_ref()?;
        let (path, shown) = (said.0.components().as_path(), said.0.display());
        match (is_many, self.is_to_stdout()) {
            _ if path.is_dir() => None,
            (true, true) => Some(STDOUT_USAGE.into()),
            _ if path.exists() && (is_many || said.is_folder()) => Some(format!(
                "{} is a file: -o names the place of a single file, or a folder to put all into",
                path.display()
            )),
            (true, false) if !said.is_folder() => Some(format!(
                "-o names the place of a single file; of several, a folder, and {shown} is none: make it, or write {shown}/"
            )),
            _ => None,
        }
    }

    /// The pattern whose first files are fetched while further ones are listed; none where all have to be known before: for
    /// places that the user chose, preferences, and the names of a job in the background.
    fn while_listed(&self, names: &[FileName], wanted: &Wanted) -> Option<Pattern> {
        let is_of_all =
            self.output.is_some() || self.background || self.preference() != PreferenceChange::default();
        match (names, wanted.patterns.as_slice()) {
            ([], [pattern]) if !is_of_all => Some(pattern.clone()),
            _ => None,
        }
    }

    fn preference(&self) -> PreferenceChange {
        let said = Preference { bound_secs: self.bound, on_stale: self.when_stale };
        PreferenceChange { anew: self.no_preference, said }
    }
}

impl Api for Get {
    /// One name: answers with a row or fails. Several: one row per name. In the background: with the job, at once.
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let peer = &host.peer;
        let (names, mut wanted) = self.wanted().map_err(Failure::conflict)?;
        let via = tickets::connect(peer, &wanted, answer).await?;
        let is_one = !wanted.are_many(&names);
        if let (true, true, [name]) = (is_one, self.is_to_stdout(), names.as_slice()) {
            return read(host, name, (&wanted, &via), answer).await;
        }
        let pattern = self.while_listed(&names, &wanted);
        let (listed, further) = match &pattern {
            Some(pattern) => {
                wanted.origin = pattern.origin.clone().or(wanted.origin);
                Box::pin(found_first(peer, pattern, (wanted.ttl_hops, &via), answer)).await?
            }
            None => (Box::pin(expanded(peer, names, (&mut wanted, &via), answer)).await?, None),
        };
        let names: Vec<FileName> = listed.iter().map(|(name, _)| name.clone()).collect();
        let known = listed.into_iter().filter_map(|(name, found)| Some((name, found?))).collect();
        let (change, goes_on) = (self.preference(), self.when_stale == Some(OnStale::Refetch));
        prefer(peer, &names, PreferenceChange { anew: change.anew, ..PreferenceChange::default() }).await?;
        if self.output.is_some() && !is_one {
            own_places(&names)?;
        }
        let output = self.output.map(|path| path.0);
        let unattended = self.background || goes_on;
        let options = DownloadOptions { output, unattended, ..named::options(&wanted, &via, self.force) };
        let mut files = WantedFiles { names: names.clone(), known, further, is_one, options };
        if self.background {
            let work = |host: Arc<Host>, job: Arc<Job>, answer| async move {
                let got = Box::pin(get_all(&host.peer, &mut files, &job, &answer)).await;
                prefer_held(&host.peer, files.names, change).await?;
                let _: Done = got?;
                remember(&host.peer, &via).await;
                Ok(())
            };
            in_background(host, answer, &names, work).await?;
            return Ok(Done::all());
        }
        let (about, title) = match pattern.filter(|_| files.further.is_some()) {
            Some(pattern) => (&[][..], pattern.text),
            None => (&names[..], String::new()),
        };
        let job = host.jobs.begin(JobKind::Get, about, title, false);
        let getting = Box::pin(get_all(peer, &mut files, &job, answer));
        let got = job.unless_cancelled(getting).await;
        prefer_held(peer, files.names, change).await?;
        let done = got?;
        remember(peer, &via).await;
        Ok(done)
    }

    fn said(mut self, saying: Saying) -> Result<Command, NoCommand> {
        if let Some(from) = self.names_from.take() {
            self.names.extend(saying.names_in(&from)?);
        }
        let (names, wanted) = self.wanted().map_err(NoCommand::usage)?;
        let is_many = wanted.are_many(&names);
        if self.version.is_some() && (is_many || self.output.is_some() && !self.is_to_stdout()) {
            return Err(NoCommand::usage(VERSION_USAGE));
        }
        if let Some(fault) = self.output_fault(is_many) {
            return Err(NoCommand::usage(fault));
        }
        if is_many && self.output.is_some() {
            own_places(&names).map_err(|why| NoCommand::usage(why.message))?;
        } else if self.is_to_stdout() {
            return match self.preference() == PreferenceChange::default() {
                _ if self.background => {
                    Err(NoCommand::usage("-o - writes to stdout, which --background leaves"))
                }
                true => Ok(self.into()),
                false => Err(NoCommand::usage(PREFERENCE_USAGE)),
            };
        }
        Ok(Self { output: self.output.map(from_root), ..self }.into())
    }

    fn about(&self) -> About<'_> {
        let wanted = self.wanted().ok();
        let is_many = wanted.as_ref().is_some_and(|(names, wanted)| wanted.are_many(names));
        About {
            shape: match is_many {
                _ if self.background => Shape::Object,
                true => Shape::List("files"),
                false => Shape::ObjectOr("files"),
            },
            stores_files: self.output.is_none(),
            is_bytes: self.is_to_stdout() && !is_many,
            title: match self.names.as_slice() {
                [word] => word.text(),
                words => format!("{} files", words.len()),
            },
            names: Word::names(&self.names),
            paths: self.output.iter().map(|path| path.0.as_path()).collect(),
            by_ticket: wanted.and_then(|(_, wanted)| wanted.by_ticket()),
            seed_secs: Some(self.seed.unwrap_or(SEED_SECS)).filter(|secs| *secs > 0),
            ..About::needing(match self.names.iter().all(|word| matches!(word, Word::Ticket(_))) {
                _ if self.background => Need::Running,
                true => Need::Ticket,
                false => Need::Indexer,
            })
        }
    }

    fn view(&self) -> Box<dyn View> {
        if self.background {
            return lines(Some("runs in the background"));
        }
        let (names, wanted) = self.wanted().unwrap_or_default();
        let is_many = wanted.are_many(&names);
        Box::new(DownloadsView::of(wanted, is_many, self.is_to_stdout()))
    }

    fn check_paths(&self) -> Result<(), Failure> {
        let place = self.output.as_ref().filter(|path| !self.is_to_stdout() && !path.is_folder());
        match place.and_then(|place| place.0.parent()).filter(|folder| !folder.is_dir()) {
            None => Ok(()),
            Some(folder) => {
                let help = if folder.exists() { "name" } else { "make it, or name" };
                let why = format!("{} is no folder: {help} another place with -o", folder.display());
                Err(Failure::with(FailureKind::NoSuchPath, why))
            }
        }
    }

    fn without_peer(&self, folder: &str) -> Result<String, Failure> {
        Err(Failure::invalid(format!(
            "--background needs a peer that keeps running on {folder}: start one with nekopeer serve, \
                 or leave out --background"
        )))
    }
}

/// Downloads files in the background; its end is an event.
#[utoipa::path(
    post,
    path = "/api/v1/get",
    request_body = Get,
    responses(
        (status = 202, description = "It runs", body = JobRow,
         headers(("location" = String, description = "Where to look at it"))),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn get(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    Json(get): Json<Get>,
) -> Result<Response, Problem> {
    if get.names.is_empty() {
        return Err(Problem::bad_request("say which files: \"names\" has at least one"));
    }
    if get.output.is_some() {
        return Err(Problem::bad_request(
            "\"output\" is of the command line: files come to the share folder",
        ));
    }
    let origin = get.origin.as_deref().map(id_digits).transpose();
    let origin = origin.map_err(|why| Problem::bad_request(format!("\"origin\": {why}")))?;
    if get.version.is_some() && get.names.len() > 1 {
        return Err(Problem::new(StatusCode::CONFLICT, "conflict", "\"version\" is of a single file"));
    }
    if get.bound.is_some_and(|secs| !(1..=POLICY_SECS_MAX).contains(&secs)) {
        return Err(Problem::bad_request(format!("\"bound_secs\" is 1 to {POLICY_SECS_MAX}")));
    }
    let (rows, _) = inside.carry_out(Get { origin, background: true, ..get }, no_input())?.rows().await?;
    let job = only(&rows)?;
    let location = format!("jobs/{}", job.id); // beside this address, whatever a proxy puts before it
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(job)).into_response())
}
