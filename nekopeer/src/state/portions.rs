//! [`Portions`]: splits a file evenly among the readers that ask this holder for it, by their ids. Each asks for its portion first,
//! so that a crowd is sent about one copy, however few of the others each reader knows.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use nekoproto::{ContentHash, NodeId, Portion};

/// Time after its last request for which a reader has a portion, unless it [left](Portions::left): nobody else begins with that.
const READS_FOR: Duration = Duration::from_secs(10);
/// Maximum number of files that are read at a time, and of readers of one. Further ones are given no portion.
const FILES_MAX: usize = 256;
const READERS_MAX: usize = 512;
/// Interval between looks at which files are read no more, where there are too many.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The readers of each file, and when each asked for some of it last.
#[derive(Debug, Default)]
pub(crate) struct Portions {
    readers: HashMap<ContentHash, BTreeMap<NodeId, Instant>>,
    looked_at: Option<Instant>,
}

impl Portions {
    /// `reader` asks for some of a file. Its portion, unless there are too many.
    pub(crate) fn asked(&mut self, content: ContentHash, reader: NodeId, now: Instant) -> Option<Portion> {
        if self.readers.len() >= FILES_MAX && !self.readers.contains_key(&content) {
            self.make_room(now);
            if self.readers.len() >= FILES_MAX {
                return None;
            }
        }
        let readers = self.readers.entry(content).or_default();
        readers.retain(|_, asked| is_reading(*asked, now));
        if readers.len() >= READERS_MAX && !readers.contains_key(&reader) {
            return None;
        }
        readers.insert(reader, now);
        let place = u16::try_from(readers.range(..reader).count()).ok()?;
        Some(Portion { place, of: u16::try_from(readers.len()).ok()? })
    }

    /// A connection of `reader` ended: it has no portion until it asks over another one.
    pub(crate) fn left(&mut self, reader: &NodeId) {
        self.readers.retain(|_, readers| {
            readers.remove(reader);
            !readers.is_empty()
        });
    }

    fn make_room(&mut self, now: Instant) {
        if self.looked_at.is_some_and(|looked| now.saturating_duration_since(looked) < LOOK_EVERY) {
            return;
        }
        self.looked_at = Some(now);
        self.readers.retain(|_, readers| readers.values().any(|asked| is_reading(*asked, now)));
    }
}

fn is_reading(asked: Instant, now: Instant) -> bool {
    now.saturating_duration_since(asked) < READS_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(n: u16) -> ContentHash {
        ContentHash::from_bytes([n.to_be_bytes(); 16].concat().try_into().unwrap())
    }

    fn node(n: u16) -> NodeId {
        NodeId::from_bytes([n.to_be_bytes(); 16].concat().try_into().unwrap())
    }

    #[test]
    fn readers_have_all_of_the_file_between_them_until_one_asks_no_more() {
        let (mut portions, begin) = (Portions::default(), Instant::now());
        let mut asked = |reader, millis| {
            portions.asked(content(0), node(reader), begin + Duration::from_millis(millis)).unwrap()
        };
        assert_eq!(asked(5, 0), Portion::WHOLE);
        asked(9, 1);
        asked(7, 2);
        let chunks = [5, 7, 9].map(|reader| asked(reader, 3).of_chunks(100));
        assert_eq!(chunks, [0..33, 33..66, 66..100]);
        let later = u64::try_from(READS_FOR.as_millis()).unwrap();
        assert_eq!(asked(5, later), Portion { place: 0, of: 3 });
        assert_eq!(asked(5, later + 3), Portion::WHOLE);
        asked(9, later + 4);
        portions.left(&node(9));
        assert_eq!(portions.asked(content(0), node(5), begin), Some(Portion::WHOLE));
        portions.left(&node(5));
        assert!(portions.readers.is_empty());
    }

    #[test]
    fn too_many_readers_and_files_have_none_until_others_ask_no_more() {
        let (mut portions, now) = (Portions::default(), Instant::now());
        let many = |count: usize| 0..u16::try_from(count).unwrap();
        assert!(many(READERS_MAX).all(|n| portions.asked(content(0), node(n), now).is_some()));
        assert_eq!(portions.asked(content(0), node(u16::MAX), now), None);
        assert!(many(FILES_MAX).all(|n| portions.asked(content(n), node(0), now).is_some()));
        let other = content(u16::MAX);
        assert_eq!(portions.asked(other, node(0), now), None);
        assert_eq!(portions.asked(other, node(0), now + READS_FOR), Some(Portion::WHOLE));
        assert_eq!(portions.readers.len(), 1);
    }
}
