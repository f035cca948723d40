//! One round: floors and transfer in turns, and everything that arrived is checked.

use blake3::Hash;

use super::case::What;
use super::{
    figures::{Round, UNKNOWN},
    floor,
    stage::Stage,
};
use crate::node::{Moment, Sent};
use crate::run::files::Change;
use crate::scenarios::prelude::*;

/// Readers begin this long after they were asked, so that all of them know by then.
const BEGIN_AFTER_S: f64 = 0.03;

/// Does what the case of `stage` says for the `n`-th time.
pub(crate) async fn run(stage: &mut Stage, n: usize) -> Result<Round> {
    let mut round = Round { files: stage.goods.len(), ..Round::default() };
    match stage.case.what {
        What::Publish(bulk) => {
            stage.fresh_origin().await?;
            told::<()>(stage.senders(), Request::Reset).await?;
            round.published = Some(stage.publish().await?);
            round.senders = told(stage.senders(), Request::Usage).await?;
            round.wanted_bytes = bulk.size;
            return Ok(round);
        }
        What::Files { .. } => {
            stage.fresh_origin().await?;
            round.published = Some(stage.publish().await?);
        }
        What::Whole(_) if stage.case.floors => {
            let (source, folder) = (stage.path(), stage.origin.dir.clone());
            round.floors = Some(apart(move || floor::measure(&source, &folder)).await?);
        }
        What::Whole(_) | What::Change(..) => {}
    }
    stage.listed(stage.case.sources).await?;
    let mut readers = stage.readers().await?;
    if let What::Change(_, change) = stage.case.what {
        let first = fetch(stage, &mut readers, &mut round).await?;
        if first.iter().any(|downloads| !downloads.failed.is_empty()) {
            bail!("the first version was not fetched: {}", round.errors.join("; "));
        }
        round = Round { files: 1, is_change: true, ..Round::default() };
        change_it(stage, change, n).await?;
        if stage.case.by_news {
            let (source, folder, readers) = (stage.path(), stage.origin.dir.clone(), stage.case.readers);
            round.copies_s = Some(apart(move || floor::copies(&source, &folder, readers)).await?);
        } else {
            round.published = Some(stage.publish().await?);
        }
    }
    round.wanted_bytes = stage.bytes()? * readers.len() as u64;
    told::<()>(stage.senders().chain(&mut readers), Request::Reset).await?;
    let fetched = match stage.case.by_news {
        true => publish_to(stage, &mut readers, &mut round).await?,
        false => fetch(stage, &mut readers, &mut round).await?,
    };
    // What was taken and sent is written down, and what arrived is held against what was published.
    round.senders = told(stage.senders(), Request::Usage).await?;
    round.readers = told(readers.iter_mut(), Request::Usage).await?;
    describe(stage, &readers, fetched, &mut round);
    round.wrong = wrong(stage, &readers, &round).await?;
    stage.dismiss(readers).await?;
    Ok(round)
}

/// Publishes while all readers wait for news; writes down how long each took from before that.
async fn publish_to(stage: &mut Stage, readers: &mut [Process], round: &mut Round) -> Result<Vec<Downloads>> {
    for reader in &mut *readers {
        reader.call::<()>(&Request::Await).await?;
    }
    round.began_s = now_s();
    round.published = Some(stage.publish().await?);
    ended(readers, round).await
}

/// Lets all readers fetch at once; writes down how long each took, and what failed.
async fn fetch(stage: &Stage, readers: &mut [Process], round: &mut Round) -> Result<Vec<Downloads>> {
    round.began_s = now_s() + BEGIN_AFTER_S;
    for reader in &mut *readers {
        reader.ask(&stage.download(round.began_s)).await?;
    }
    ended(readers, round).await
}

async fn ended(readers: &mut [Process], round: &mut Round) -> Result<Vec<Downloads>> {
    let mut fetched = Vec::new();
    for reader in readers {
        let downloads: Downloads = reader.response().await?;
        round.took_s.push(downloads.ended_s - round.began_s);
        round.errors.extend(downloads.failed.iter().map(|why| format!("{}: {why}", reader.label)));
        fetched.push(downloads);
    }
    Ok(fetched)
}

async fn change_it(stage: &mut Stage, change: Change, n: usize) -> Result<()> {
    let (path, seed) = (stage.path(), stage.case.seed.wrapping_add(1 + n as u64));
    let hash: Hash = apart(move || {
        files::change(&path, change, seed)?;
        Ok(files::hash(&path)?)
    })
    .await?;
    stage.goods.iter_mut().for_each(|(_, expected)| *expected = hash);
    Ok(())
}

/// What each of `nodes` tells, by its label.
async fn told<T: DeserializeOwned>(
    nodes: impl Iterator<Item = &mut Process>,
    request: Request,
) -> Result<Vec<(String, T)>> {
    let mut told = Vec::new();
    for node in nodes {
        told.push((node.label.clone(), node.tells(&request).await?));
    }
    Ok(told)
}

/// Writes down who sent what to whom, and when, with labels for nodes.
fn describe(stage: &Stage, readers: &[Process], fetched: Vec<Downloads>, round: &mut Round) {
    let labels = stage.labels(readers);
    for downloads in fetched {
        for sent in downloads.sources {
            Sent { source: label_of(&labels, &sent.source), ..sent }.add_to(&mut round.sources);
        }
        let labelled = |moment: Moment| {
            let bytes = moment.bytes.into_iter().map(|(node, bytes)| (label_of(&labels, &node), bytes));
            Moment { bytes: bytes.collect(), ..moment }
        };
        round.moments.push(downloads.moments.into_iter().map(labelled).collect());
    }
    round.sources.sort_by(|one, other| one.source.cmp(&other.source));
}

fn label_of(labels: &HashMap<String, String>, node: &str) -> String {
    labels.get(node).cloned().unwrap_or_else(|| UNKNOWN.to_owned())
}

/// How many files of the readers are not what was published. Of one that failed, none is expected.
async fn wrong(stage: &Stage, readers: &[Process], round: &Round) -> Result<usize> {
    let goods = stage.goods.clone();
    let dirs: Vec<_> = readers.iter().map(|reader| reader.dir.clone()).collect();
    let missing = round.errors.len();
    apart(move || {
        let all = dirs.iter().flat_map(|dir| goods.iter().map(move |(name, hash)| (dir.join(name), hash)));
        let right = all.map(|(path, hash)| files::is_right(&path, hash));
        let right = right.collect::<io::Result<Vec<bool>>>()?;
        Ok(right.iter().filter(|right| !**right).count().saturating_sub(missing))
    })
    .await
}
