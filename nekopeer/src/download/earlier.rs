//! One version of a file by its number: as it is held or kept here, or from those who hold or keep it elsewhere.

use std::sync::Arc;

use futures::{StreamExt, stream};
use nekoproto::{FileName, Numbered, Record, Version};

use super::{
    DownloadOptions, Downloader,
    error::DownloadError,
    restore::{Earlier, all_known, earlier, in_its_place, plan_of},
};
use crate::{
    library::{Library, opened::open_unchanged},
    state::choice::Target,
    storage::catalogue::{PassedOver, Why},
};

/// Holders that are asked, how many at once, and how many of those that have the version are enough.
const HOLDERS_ASKED_MAX: usize = 256;
const HOLDERS_AT_ONCE: usize = 16;
const SOURCES_ENOUGH: usize = 8;

/// What was found of a version that was asked for by its number.
pub(super) enum ByNumber {
    Newest(Target),
    Earlier(Box<Earlier>),
}

impl Downloader {
    pub(super) async fn find_version(
        &self,
        name: &FileName,
        version: Version,
        options: &DownloadOptions,
    ) -> Result<ByNumber, DownloadError> {
        self.refuse_own(name)?;
        let (wanted, digits) = (name.clone(), options.origin_of(name).map(str::to_owned));
        let look = move |library: &Arc<Library>| here(library, &wanted, version, digits.as_deref());
        if let Some(earlier) = self.library.blocking(look).await? {
            return Ok(ByNumber::Earlier(Box::new(earlier)));
        }
        let newest = self.find(name, options).await?;
        if newest.record.version == version {
            return Ok(ByNumber::Newest(newest));
        }
        let target = Target { others: newest.others.clone(), ..self.ask_holders(&newest, version).await? };
        let Record { origin, version, .. } = *newest.record;
        let passed_over = PassedOver { origin, version, why: Why::RolledBack };
        let held = self.library.catalogue.get(name);
        let output = held.and_then(|held| in_its_place(&self.library, &held).output);
        let options = DownloadOptions { output, ..options.clone() };
        Ok(ByNumber::Earlier(Box::new(Earlier { target, plan: None, passed_over, options })))
    }

    /// Who of the holders of the newest version has an earlier one.
    async fn ask_holders(&self, newest: &Target, version: Version) -> Result<Target, DownloadError> {
        let Record { origin, name, .. } = &*newest.record;
        let wanted = Numbered { origin: *origin, name: name.clone(), version };
        let holders = newest.sources.iter().take(HOLDERS_ASKED_MAX).copied();
        let asking = holders.map(async |holder| (holder, self.peers.lend(holder, &wanted).await));
        let mut asking = stream::iter(asking).buffer_unordered(HOLDERS_AT_ONCE);
        let (mut asked, mut silent, mut found) = (0, 0, None::<Target>);
        while let Some((holder, answer)) = asking.next().await {
            asked += 1;
            match (answer, &mut found) {
                (Ok(Some(record)), None) => found = Some(Target::new(record, vec![holder])),
                (Ok(Some(record)), Some(target)) if target.record == record => target.sources.push(holder),
                (Ok(_), _) => {}
                (Err(error), _) => {
                    tracing::debug!(holder = %holder.node.short(), %error, "a holder cannot be asked");
                    silent += 1;
                }
            }
            if found.as_ref().is_some_and(|target| target.sources.len() >= SOURCES_ENOUGH) {
                break;
            }
        }
        found.ok_or_else(|| DownloadError::NobodyKeeps { name: name.clone(), version, asked, silent })
    }
}

/// The version if it is held or kept here, and its origin's id begins with `digits`. Blocking.
fn here(
    library: &Library,
    name: &FileName,
    version: Version,
    digits: Option<&str>,
) -> Result<Option<Earlier>, DownloadError> {
    let is_wanted =
        |record: &Record| digits.is_none_or(|digits| record.origin.to_string().starts_with(digits));
    let held = library.catalogue.entry(name)?.filter(|held| is_wanted(&held.record));
    let Some(held) = held else { return Ok(None) };
    if held.record.version == version && open_unchanged(&held).is_ok() {
        let plan = library.catalogue.manifest_of(&held)?.and_then(|encoded| plan_of(&held.record, encoded));
        let target = Target::new(held.record.clone(), Vec::new());
        let (passed_over, options) = (all_known(&held), in_its_place(library, &held));
        return Ok(Some(Earlier { target, plan, passed_over, options }));
    }
    match earlier(library, name, Some(version), None) {
        Err(DownloadError::NotKept { .. }) => Ok(None),
        found => found.map(Some),
    }
}
