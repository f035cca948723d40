//! What commands say and what lies on disk, as the record takes it.

use std::io::Seek;

use super::{
    judge::{Event, Reader},
    node::Node,
    record::Record,
    world::{FILES, READERS},
};

use crate::program::*;

pub(super) fn who(reader: usize) -> Reader {
    Reader { number: reader, drops: READERS[reader].0 == "drop" }
}

pub(super) fn content_of(mut file: &File) -> String {
    let mut hasher = blake3::Hasher::new();
    file.rewind().unwrap();
    hasher.update_reader(file).unwrap();
    hasher.finalize().to_string()
}

pub(super) fn publish_at(node: &Node, who: &str, file: usize, seed: u64, record: &Record) {
    let (name, policy, _) = FILES[file];
    let size = usize::try_from(seed % 200_000).unwrap() + 1;
    let new = bytes(seed, size);
    record.add(name, Event::Begun { content: blake3::hash(&new).to_string() });
    node.home.write(name, new);
    let mut words = vec!["share", name];
    words.extend(policy);
    let ended = node.ask(&words);
    let Some(ended) = ended.filter(|ended| ended.code == Some(0)) else {
        return record.note(format!("{who}: {name} was not published"));
    };
    let json = ended.json();
    let (row, confirmed) = (&json["files"][0], json["confirmed"].as_bool().unwrap());
    record.published(
        who,
        name,
        row["version"].as_u64().unwrap(),
        row["content"].as_str().unwrap(),
        confirmed,
    );
}

pub(super) fn note_copy(record: &Record, row: &Value, reader: usize, asked_at: Instant) {
    let (name, version) = (row["name"].as_str().unwrap(), row["version"].as_u64().unwrap());
    let (.., bound) = FILES.iter().find(|(file, ..)| *file == name).unwrap();
    let bound = Duration::from_secs(READERS[reader].1.map_or(*bound, |own| own.min(*bound)));
    let fresh_for = (row["freshness"] == "fresh").then_some(bound);
    record.said(&who(reader), name, (version, row["content"].as_str().unwrap()), asked_at, fresh_for);
}
