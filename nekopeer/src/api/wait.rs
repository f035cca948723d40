//! `wait`: waits until a version is in its place here, or at all readers that the origin heard in the last 7 days.

use std::time::Duration;

use nekoproto::{Freshness, Version, clock::unix_ms, limits::TTL_DEFAULT};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Reply, Word,
    named::{
        self,
        expanding::{Among, found_here},
    },
    prelude::*,
};
use crate::{
    indexers::via::Via,
    library::{
        Library,
        events::{Event, until_event},
        status::{Condition, FileStatus},
        subscribers::Subscribed,
    },
    listing::Listing,
    peer::PeerHandle,
    peers::Peers,
    sets,
    terminal::units::age_since,
};

/// Interval between two looks without an event.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time after which a caller is told what is waited for.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Peers that a message names.
const NAMED_MAX: usize = 4;

/// Wait until the newest versions of names are here, or at all that read them
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Wait {
    /// The names; FOLDER/ or a glob for all that match, here and in the network
    #[arg(required = true, value_name = "NAME", value_parser = Word::said)]
    names: Vec<Word>,
    /// This version or a later one, instead of the newest
    #[arg(long, value_name = "N", value_parser = named::version)]
    version: Option<Version>,
    /// Where the names are shared: until all peers that served or followed a copy in the last days have
    /// the version. Exit code 1 if they do not in time
    #[arg(long)]
    all: bool,
    /// Give up after so many seconds: exit code 3, or with --all 1
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,
}

/// A version that was waited for and is in its place.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ReachedRow {
    name: FileName,
    version: u64,
    /// With `all`: how many peers read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    readers: Option<usize>,
    /// Its origin withdrew it: no later version is waited for. Of a name that was found by a folder or a glob.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unshared: bool,
}

impl Wait {
    fn is_said(&self, name: &FileName) -> bool {
        self.names.iter().any(|word| word.name() == Some(name))
    }
}

impl Api for Wait {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let peer = &host.peer;
        let via = Via::default();
        let network = (!self.all).then_some(Among::Network(TTL_DEFAULT, &via));
        let mut names = found_here(peer, self.names.clone(), network, answer).await?;
        let is_own = |name: &FileName| {
            peer.library.catalogue.get(name).is_some_and(|held| peer.library.catalogue.is_own(&held))
        };
        if names.first() != self.names.first().and_then(Word::name) {
            answer.send(Reply::Many).await?;
        }
        if self.all && names.iter().any(is_own) {
            names.retain(|name| is_own(name) || self.is_said(name));
        }
        let within = self.timeout.map(|secs| Duration::from_secs(secs.into()));
        let until = within.map(|within| Instant::now() + within);
        for name in names {
            answer.row(&wait(peer, &name, &self, until, answer).await?).await?;
        }
        Ok(Done::all())
    }

    fn about(&self) -> About<'_> {
        let is_one = matches!(self.names.as_slice(), [word] if word.name().is_some());
        let shape = if is_one { Shape::ObjectOr("files") } else { Shape::List("files") };
        About { shape, names: Word::names(&self.names), ..About::needing(Need::Peers) }
    }

    fn view(&self) -> Box<dyn View> {
        Lines::of(|ReachedRow { name, version, readers, unshared }, output| {
            let at = match readers {
                None if unshared => ", and was unshared by its origin".to_owned(),
                None => String::new(),
                Some(0) => "; nobody who reads it was heard in the last 7 days".to_owned(),
                Some(1) => " at the one peer that reads it".to_owned(),
                Some(readers) => format!(" at all {readers} peers that read it"),
            };
            output.text(&format!("{name} is at version {version}{at}"))
        })
    }
}

/// Waits until what is `wanted` of `name` is there.
async fn wait(
    peer: &PeerHandle,
    name: &FileName,
    wanted: &Wait,
    until: Option<Instant>,
    answer: &Answer,
) -> Result<ReachedRow, Failure> {
    let (mut events, peers) = (peer.events(), peer.peers.keeping());
    // Who set a limit hears it then.
    let mut tell_at = until.is_none().then(|| Instant::now() + TOLD_AFTER);
    loop {
        let (kind, why) = match look(peer, &peers, name, wanted).await? {
            Ok(reached) => return Ok(reached),
            Err(why) => why,
        };
        let now = Instant::now();
        if until.is_some_and(|until| now >= until) {
            let secs = wanted.timeout.unwrap_or_default();
            return Err(Failure::with(kind, format!("after {secs} s {why}")));
        }
        if tell_at.take_if(|tell_at| now >= *tell_at).is_some() {
            answer.send(Reply::Note(format!("waiting: {why}"))).await?;
        }
        let pause = until.map_or(LOOK_EVERY, |until| LOOK_EVERY.min(until - now));
        let is_news = |event: &Event| event.name() == Some(name);
        if peer.library.is_serving {
            drop(timeout(pause, until_event(&mut events, is_news)).await);
        } else {
            sleep(pause).await; // it learns by asking alone, and what that tells is no news
        }
    }
}

fn reached(name: &FileName, version: Version) -> ReachedRow {
    ReachedRow { name: name.clone(), version: version.get(), readers: None, unshared: false }
}

/// What is there, or why what is waited for is not.
async fn look(
    peer: &PeerHandle,
    peers: &Arc<Peers>,
    name: &FileName,
    wanted: &Wait,
) -> Result<Result<ReachedRow, (FailureKind, String)>, Failure> {
    let failed = |why| Ok(Err((FailureKind::Failed, why)));
    let asked_ms = unix_ms();
    let asked = wanted.version.is_none().then_some(peers);
    let mut listing = Listing::of(&peer.library, asked, vec![name.clone()]);
    let found = listing.next().await?.unwrap_or_default();
    let Some(file) = found.into_iter().next().transpose()? else {
        if wanted.all {
            return Err(Failure::missing(format!("{name} is not shared here: ls says what is")));
        }
        return failed(format!("{name} is neither shared nor held here"));
    };
    let FileStatus { record, own, condition, newest, confirmed, .. } = &file;
    if wanted.all && !own {
        let why = format!("{name} is a copy here: only its origin knows who reads it, wait for all there");
        return Err(Failure::invalid(why));
    }
    let version = record.version;
    if let Some(least) = wanted.version.filter(|least| *least > version) {
        return failed(format!("{name} is at version {version} here, not at {least}"));
    }
    let is_now = || confirmed.is_some_and(|confirmed| confirmed.at_ms >= asked_ms);
    match (*own, condition) {
        (true, _) => {}
        (false, Condition::Good(_)) if wanted.version.is_some() => {}
        (false, Condition::Good(Freshness::Fresh)) if is_now() => {}
        (false, Condition::Good(Freshness::Fresh)) => {
            let ago = confirmed.map_or_else(String::new, |confirmed| age_since(confirmed.at_ms));
            let last = format!("the copy here, version {version}, was the newest {ago} ago");
            return failed(format!("the origin of {name} cannot be asked for its newest version; {last}"));
        }
        (false, Condition::Unshared) if !wanted.is_said(name) => {
            return Ok(Ok(ReachedRow { unshared: true, ..reached(name, version) }));
        }
        _ => {
            let is_withdrawn = *condition == Condition::Unshared;
            let newest = newest.map_or_else(String::new, |newest| match is_withdrawn {
                true => format!(" as version {newest}"),
                false => format!(", and version {newest} is out"),
            });
            let fault = if record.policy.is_set() { fault_of_set(peer, name).await } else { String::new() };
            let what = format!("the copy of {name} here is version {version}, {condition}{newest}");
            return failed(format!("{what}{fault}"));
        }
    }
    match wanted.all {
        true => at_readers(peer, name, wanted.version.unwrap_or(version)).await,
        false => Ok(Ok(reached(name, version))),
    }
}

/// Which file is to blame where the folder of a copy of a set is not as it came.
async fn fault_of_set(peer: &PeerHandle, name: &FileName) -> String {
    let held = name.clone();
    let look = move |library: &Arc<Library>| match library.catalogue.entry(&held) {
        Ok(Some(held)) => sets::is_as_it_came(library, &held),
        _ => Ok(()), // the next look tells
    };
    peer.library.blocking(look).await.map_or_else(|error| format!(": {error}"), |()| String::new())
}

/// Whether all readers of `name` have version `least`.
async fn at_readers(
    peer: &PeerHandle,
    name: &FileName,
    least: Version,
) -> Result<Result<ReachedRow, (FailureKind, String)>, Failure> {
    let readers = peer.reading_of(name).await?.readers;
    let missing: Vec<&Subscribed> = readers.iter().filter(|reader| reader.holds < least).collect();
    if missing.is_empty() {
        return Ok(Ok(ReachedRow { readers: Some(readers.len()), ..reached(name, least) }));
    }
    let named = missing.iter().take(NAMED_MAX).map(|reader| {
        let heard =
            reader.heard_ms.map_or_else(String::new, |ms| format!(" last heard {} ago", age_since(ms)));
        let told = if reader.version >= least { ", told of it" } else { "" };
        format!("reader {}{heard} with version {}{told}", reader.named(), reader.holds)
    });
    let (named, all) = (named.collect::<Vec<_>>().join(", "), readers.len());
    let more = if missing.len() > NAMED_MAX { " and others" } else { "" };
    let have = all - missing.len();
    let help = match missing.iter().all(|reader| reader.version >= least) {
        true => "one that was told and does not take it says why: its command may refuse it",
        false => "forget ID leaves one out that is gone",
    };
    let why = format!("{have} of {all} readers of {name} have version {least}: {named}{more}; {help}");
    Ok(Err((FailureKind::NotFound, why)))
}
