//! Files that were asked about by name, with all that is known of each.

use nekoproto::FileName;

use super::{
    Answer, Failure, FileRow, Row,
    rows::{Detail, ReaderRow},
};
use crate::{listing::Listing, peer::PeerHandle};

/// Asks the origins of copies, and lists what is published or held under `names`.
pub(super) async fn list(peer: &PeerHandle, names: Vec<FileName>, answer: &Answer) -> Result<(), Failure> {
    let mut missing = names.clone();
    let mut listing = Listing::of(&peer.library, Some(&peer.peers), names);
    while let Some(files) = listing.next().await? {
        for file in files {
            let policy = file.as_ref().ok().map(|file| file.record.policy);
            let mut row = Row::listed(file);
            if let (Row::File(file), Some(policy)) = (&mut row, policy) {
                missing.retain(|name| *name != file.record.name);
                file.detail = Some(Box::new(detail(peer, file, policy).await?));
            }
            answer.rows(vec![row]).await?;
        }
    }
    match missing.first() {
        Some(name) => Err(Failure::missing(format!(
            "{name} is neither published nor held here: get {name} brings a copy"
        ))),
        None => Ok(()),
    }
}

async fn detail(peer: &PeerHandle, file: &FileRow, policy: nekoproto::Policy) -> Result<Detail, Failure> {
    let read = peer.reading_of(&file.record.name).await?;
    let readers = read.readers.into_iter().filter(|_| file.own).map(|reader| ReaderRow {
        holder: reader.holder,
        version: reader.version,
        ends_in_ms: u64::try_from(reader.ends_in.as_millis()).unwrap_or(u64::MAX),
    });
    let passed_over = read.passed_over.filter(|passed| passed.origin == file.record.origin);
    Ok(Detail {
        policy,
        readers: readers.collect(),
        kept: read.kept.into_iter().filter(|kept| *kept != file.record.version).collect(),
        passed_over: passed_over.map(|passed| (passed.version, passed.why)),
        preference: read.preference,
    })
}
