//! What the index keeps of one name, or of the few names that have the same hash.

use std::{collections::HashMap, net::IpAddr, ptr, sync::Arc};

use nekoproto::{FileName, ListedRecord, PackedRecord, SignedRecord, limits::HITS_MAX};
use rand::random_range;

use super::{
    Asked, Noted, Session, SessionId,
    listing::{Holding, Listing, has_name, is_wanted},
};
use crate::state::merge::Found;

/// Origins that may publish one name. More than an answer has room for: who is asked for by id is found among them.
pub(super) const ORIGINS_MAX: usize = 1024;

/// What is known under one hash, which is nearly always that of one name. Nearly always one origin
/// publishes it and one node holds it: that takes two pointers, and no memory of its own but the record.
///
/// Invariants: there is a listing, and each listing has a holding; a listing's record is the newest
/// version noted while the listing existed; at most [`ORIGINS_MAX`] listings have the same name.
#[derive(Debug)]
pub(super) enum Entry {
    /// One name of one origin, and one holder of all of its newest version.
    Single { record: PackedRecord, holder: Arc<Session> },
    /// Anything else, also other names with the same hash.
    #[expect(clippy::box_collection, reason = "a vector in place would make every entry larger")]
    Many(Box<Vec<Listing>>),
}

const _: () = assert!(size_of::<Entry>() == 16, "a million of them are in the table");

impl Entry {
    /// The entry of a name that nobody held before.
    pub(super) fn new(session: &Arc<Session>, record: &ListedRecord, partial: bool) -> Self {
        if partial {
            let held = Holding { session: Arc::clone(session), version: record.version, partial };
            return Self::Many(Box::new(vec![Listing::new(PackedRecord::new(record), held)]));
        }
        Self::Single { record: PackedRecord::new(record), holder: Arc::clone(session) }
    }

    /// The newest record of each name and origin.
    pub(super) fn records(&self) -> impl Iterator<Item = &PackedRecord> {
        let (single, listings) = match self {
            Self::Single { record, .. } => (Some(record), [].as_slice()),
            Self::Many(listings) => (None, listings.as_slice()),
        };
        single.into_iter().chain(listings.iter().map(|listing| &listing.record))
    }

    pub(super) fn has_name(&self, name: &FileName) -> bool {
        self.records().any(|record| has_name(record, name))
    }

    /// Lists `session` as a holder of `record`, or of a part of it, and says whether it is listed now. If the
    /// file had no holder, `instead` tells its newer version; the last versions of files that lose theirs are
    /// to be remembered.
    pub(super) fn list(
        &mut self,
        session: &Arc<Session>,
        record: &ListedRecord,
        partial: bool,
        instead: impl FnOnce() -> Option<ListedRecord>,
        remember: impl FnMut(PackedRecord),
    ) -> (Noted, bool) {
        if let Self::Single { record: known, holder } = self
            && !partial
            && Arc::ptr_eq(holder, session)
            && known.is(record.signed())
        {
            return (Noted::Known, true); // a renewal: nothing changes
        }
        let node = session.node();
        let listings = self.listings();
        let of_origin = listings.iter().position(|listing| listing.is_of(record));
        match of_origin.map_or_else(instead, |place| Some(listings[place].record.unpack())) {
            Some(known) if known.replaces(record) || known.contradicts(record) => {
                self.make_small();
                return (Noted::Outdated(known), false);
            }
            _ => {}
        }
        if of_origin.is_none() && !has_room(listings, &record.name, session.site()) {
            return (Noted::Full, false);
        }
        // A copy of the node's folder that runs elsewhere is to hear of the newer version, too.
        let displaced = |held: &&Holding| {
            held.session.node() == node
                && held.version < record.version
                && !Arc::ptr_eq(&held.session, session)
        };
        let of_file = listings.iter().filter(|listing| listing.is_of(record));
        let displaced = of_file.flat_map(|listing| &listing.holdings).filter(displaced);
        let displaced: Vec<SessionId> = displaced.map(|held| held.session.id()).collect();
        // One node holds one file under a name: what it held there before makes room for this.
        for listing in listings.iter_mut().filter(|listing| listing.has_name(&record.name)) {
            listing.holdings.retain(|known| known.session.node() != node);
        }
        let holding = Holding { session: Arc::clone(session), version: record.version, partial };
        let mut noted = match of_origin {
            Some(place) => {
                let noted = listings[place].note(record);
                listings[place].add(holding);
                noted
            }
            None => {
                listings.push(Listing::new(PackedRecord::new(record), holding));
                Noted::News { outdated: Vec::new() }
            }
        };
        if let Noted::News { outdated } = &mut noted {
            outdated.extend(displaced);
        }
        remove_unheld(listings, remember);
        arrange(listings);
        self.make_small();
        (noted, true)
    }

    /// Notes a newer version without a holder. Other bytes under the listed number are news to the folder that
    /// published the listed ones.
    pub(super) fn invalidate(&mut self, record: &ListedRecord) -> Noted {
        let noted = match self.listings().iter_mut().find(|listing| listing.is_of(record)) {
            Some(listing) if listing.record.version() > record.version => {
                Noted::Outdated(listing.record.unpack())
            }
            Some(listing)
                if listing.record.version() == record.version && !listing.record.is(record.signed()) =>
            {
                let holdings = listing.holdings.iter().filter(|held| held.version == record.version);
                let folders = holdings.filter(|held| held.session.node() == record.origin);
                Noted::News { outdated: folders.map(|held| held.session.id()).collect() }
            }
            Some(listing) => {
                let noted = listing.note(record);
                listing.is_complete |= noted != Noted::Known;
                noted
            }
            None => Noted::Known,
        };
        self.make_small();
        noted
    }

    pub(super) fn lists(&self, session: &Session) -> bool {
        match self {
            Self::Single { holder, .. } => ptr::eq(&raw const **holder, session),
            Self::Many(listings) => {
                let mut holdings = listings.iter().flat_map(|listing| &listing.holdings);
                holdings.any(|held| ptr::eq(&raw const *held.session, session))
            }
        }
    }

    /// Who is listed under exactly this record, signature and all.
    pub(super) fn sessions_of(&self, record: &SignedRecord) -> Vec<Arc<Session>> {
        match self {
            Self::Single { record: known, holder } if known.is(record) => vec![Arc::clone(holder)],
            Self::Single { .. } => Vec::new(),
            Self::Many(listings) => {
                let of_record = listings.iter().filter(|listing| listing.record.is(record));
                of_record
                    .flat_map(|listing| &listing.holdings)
                    .map(|held| Arc::clone(&held.session))
                    .collect()
            }
        }
    }

    /// Lists `session` no longer; true if nobody is left, and the entry must go. The last versions of files that
    /// lose their holder are to be remembered.
    #[must_use]
    pub(super) fn unlist(&mut self, session: &Session, mut remember: impl FnMut(PackedRecord)) -> bool {
        let is_listed = self.lists(session);
        let listings = match self {
            Self::Single { record, .. } if is_listed => {
                remember(record.clone());
                return true;
            }
            Self::Many(listings) if is_listed => listings,
            _ => return false,
        };
        for listing in listings.iter_mut() {
            listing.holdings.retain(|held| !ptr::eq(&raw const *held.session, session));
        }
        remove_unheld(listings, remember);
        arrange(listings);
        let is_empty = listings.is_empty();
        self.make_small();
        is_empty
    }

    /// The record of this entry that vouches for `record`, if one does.
    pub(super) fn record_that_is(&self, record: &SignedRecord) -> Option<&PackedRecord> {
        self.records().find(|known| known.is(record))
    }

    /// Whether there are as many origins as an answer holds.
    pub(super) fn is_crowded(&self) -> bool {
        matches!(self, Self::Many(listings) if listings.len() >= HITS_MAX)
    }

    /// Each origin's newest version of what is asked for, with holders whose lease runs: at most [`HITS_MAX`] and one, which
    /// says that there are more. Of more, those whose holders have left give way, without a word, and a second one of a site
    /// to the first of another; half of the places are for those that were listed first, and for the others each lookup
    /// begins elsewhere. An origin that is asked for may be one of those that found no room: if it is not listed, the others
    /// are found.
    pub(super) fn found(&self, asked: &Asked<'_>, now_ms: u64) -> Vec<Found> {
        let listings = match self {
            Self::Single { record, holder } => {
                let is_found = is_wanted(holder, asked.without, now_ms)
                    && has_name(record, asked.name)
                    && asked.takes_origin(record);
                let found =
                    |listed| Found { record: record.unpack_as(asked.name.clone()), holders: vec![listed] };
                return if is_found { vec![found(holder.listed(false))] } else { Vec::new() };
            }
            Self::Many(listings) => listings,
        };
        let is_crowded = listings.len() > HITS_MAX;
        let (elders, others) = listings.split_at(if is_crowded { HITS_MAX / 2 } else { 0 });
        let (firsts, others) =
            others.split_at(others.partition_point(|listing| is_crowded && listing.rank == 0));
        let begin = |those: &[Listing]| {
            if is_crowded && !those.is_empty() { random_range(0..those.len()) } else { 0 }
        };
        let [(b, a), (d, c)] = [firsts, others].map(|those| those.split_at(begin(those)));
        let all = || elders.iter().chain(a).chain(b).chain(c).chain(d);
        let of_name = || all().filter(|listing| listing.has_name(asked.name));
        let first = |listings: &mut dyn Iterator<Item = &Listing>| -> Vec<Found> {
            listings.filter_map(|listing| listing.found(asked.without, now_ms)).take(HITS_MAX + 1).collect()
        };
        let wanted = || of_name().filter(|listing| asked.takes_origin(&listing.record));
        let is_here = |listing: &&Listing| !is_crowded || listing.is_here(now_ms);
        let mut found = first(&mut wanted().filter(is_here));
        if found.is_empty() {
            found = first(&mut wanted());
        } else if is_crowded && found.len() < HITS_MAX {
            let left = first(&mut wanted().filter(|listing| !is_here(listing)));
            found.extend(left.into_iter().take(HITS_MAX - found.len()));
        }
        if found.is_empty() && asked.origin.is_some() && listings.len() >= ORIGINS_MAX {
            return first(&mut of_name());
        }
        found
    }

    /// Shows each origin's newest record to `take`, with a way to what is found of it.
    pub(super) fn each(&self, now_ms: u64, mut take: impl FnMut(&PackedRecord, &dyn Fn() -> Option<Found>)) {
        match self {
            Self::Single { record, holder } => take(record, &|| {
                let found = || Found { record: record.unpack(), holders: vec![holder.listed(false)] };
                holder.is_listed_at(now_ms).then(found)
            }),
            Self::Many(listings) => {
                listings.iter().for_each(|listing| take(&listing.record, &|| listing.found(&[], now_ms)));
            }
        }
    }

    /// The general form, to be changed; [`make_small`](Self::make_small) ends that.
    fn listings(&mut self) -> &mut Vec<Listing> {
        if let Self::Single { record, holder } = self {
            let held = Holding { session: Arc::clone(holder), version: record.version(), partial: false };
            *self = Self::Many(Box::new(vec![Listing::new(record.clone(), held)]));
        }
        match self {
            Self::Many(listings) => listings,
            Self::Single { .. } => unreachable!("made general just above"),
        }
    }

    fn make_small(&mut self) {
        if let Self::Many(listings) = self
            && let [Listing { record, holdings, .. }] = listings.as_slice()
            && let [Holding { session, version, partial: false }] = holdings.as_slice()
            && *version == record.version()
        {
            *self = Self::Single { record: record.clone(), holder: Arc::clone(session) };
        }
    }

    #[cfg(test)]
    pub(super) const fn is_single(&self) -> bool {
        matches!(self, Self::Single { .. })
    }

    /// All that is listed, in the general form.
    #[cfg(test)]
    pub(super) fn check(&self, has_name: impl Fn(&Session) -> bool) {
        let Self::Many(listings) = self else {
            let Self::Single { holder, .. } = self else { return };
            return assert!(has_name(holder));
        };
        assert!(!listings.is_empty());
        for listing in listings.iter() {
            assert!(!listing.holdings.is_empty());
            assert!(listing.holdings.is_sorted_by_key(|held| held.partial));
            for held in &listing.holdings {
                assert!(held.version <= listing.record.version());
                assert!(has_name(&held.session));
            }
        }
    }
}

/// Whether one more origin may publish `name` from `site`, if need be in the place of one whose holders have no connection,
/// or of the last of the site that has most.
fn has_room(listings: &mut [Listing], name: &FileName, site: IpAddr) -> bool {
    if listings.len() < ORIGINS_MAX
        || listings.iter().filter(|listing| listing.has_name(name)).count() < ORIGINS_MAX
    {
        return true;
    }
    let of_site = listings.iter().filter(|listing| listing.site() == Some(site)).count();
    let left = listings.iter().position(|listing| listing.has_name(name) && !listing.is_connected());
    // The last one has the highest rank.
    let busiest = || listings.iter().rposition(|listing| listing.has_name(name));
    let gives_way = left.or_else(busiest).map(|place| &mut listings[place]);
    let gives_way = gives_way.filter(|one| !one.is_connected() || usize::from(one.rank) > of_site);
    gives_way.is_some_and(|listing| {
        listing.holdings.clear();
        true
    })
}

/// Puts those first of a crowd that are the first of their site, then those that are the second, and so on.
fn arrange(listings: &mut [Listing]) {
    if listings.len() < HITS_MAX {
        return;
    }
    let mut sites: HashMap<Option<IpAddr>, u16> = HashMap::new();
    for listing in listings.iter_mut() {
        let rank = sites.entry(listing.site()).or_default();
        listing.rank = *rank;
        *rank = rank.saturating_add(1);
    }
    listings.sort_by_key(|listing| listing.rank);
}

/// Removes the listings that nobody holds; the versions that could be had are to be remembered.
fn remove_unheld(listings: &mut Vec<Listing>, remember: impl FnMut(PackedRecord)) {
    let unheld = listings.extract_if(.., |listing| listing.holdings.is_empty());
    unheld.filter(|listing| listing.is_complete).map(|listing| listing.record).for_each(remember);
}
