//! Fuzz targets of everything that arrives as bytes or text: no input panics, and what is taken in means the same
//! after it was written and read again.
//!
//! `cargo test` replays the corpora; `.ci/fuzz SECONDS` follows the coverage.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use nekoproto::{
    DataReply, DataRequest, FileName, Hello, HelloRefusal, Manifest, NetworkName, Packing, Signature,
    SignedRecord, Ticket, codec,
    indexer::{IndexerServiceRequest, IndexerServiceResponse},
    peer::{PeerServiceRequest, PeerServiceResponse},
    transport::Envelope,
};
use serde::{Serialize, de::DeserializeOwned};

/// Whatever decodes is the same value when it is encoded and decoded again.
fn round<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let value: T = codec::decode(bytes).ok()?;
    let encoded = codec::encode(&value).ok()?; // one that is larger than a frame cannot be sent
    let again: T = codec::decode(&encoded).unwrap();
    assert_eq!(codec::encode(&again).unwrap(), encoded);
    Some(value)
}

#[test]
fn frames_to_an_indexer() {
    testkit::fuzz("frames_to_an_indexer", |bytes: &[u8]| {
        round::<Envelope<IndexerServiceRequest, PeerServiceResponse>>(bytes);
    });
}

#[test]
fn frames_to_a_peer() {
    testkit::fuzz("frames_to_a_peer", |bytes: &[u8]| {
        round::<Envelope<PeerServiceRequest, IndexerServiceResponse>>(bytes);
    });
}

#[test]
fn messages_of_a_handshake() {
    testkit::fuzz("messages_of_a_handshake", |bytes: &[u8]| {
        round::<Hello>(bytes);
        round::<Result<Hello, HelloRefusal>>(bytes);
        round::<Signature>(bytes);
    });
}

#[test]
fn messages_of_a_data_stream() {
    testkit::fuzz("messages_of_a_data_stream", |bytes: &[u8]| {
        round::<DataRequest>(bytes);
        round::<DataReply>(bytes);
        round::<Packing>(bytes);
        if let Some((packing, rest)) = Packing::split(bytes) {
            assert_eq!(Packing::split(&packing.before(rest).unwrap()), Some((packing, rest)));
        }
    });
}

#[test]
fn records() {
    testkit::fuzz("records", |bytes: &[u8]| {
        if let Some(record) = round::<SignedRecord>(bytes) {
            let _: Result<_, _> = record.verify();
        }
    });
}

#[test]
fn manifests() {
    testkit::fuzz("manifests", |bytes: &[u8]| {
        let Ok(manifest) = Manifest::decode(bytes) else { return };
        let chunks = manifest.chunks().len();
        assert!(bytes.len() >= chunks * 33, "each chunk has a hash and a length");
        for chunk in 0..chunks.min(64) {
            let range = manifest.range(chunk);
            assert!(range.start < range.end);
        }
    });
}

#[test]
fn names_tickets_and_networks() {
    testkit::fuzz("names_tickets_and_networks", |bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(name) = FileName::new(text) {
            assert_eq!(name.as_str(), text);
            assert!(name.as_path().is_relative());
            assert!(name.as_path().components().all(|part| matches!(part, std::path::Component::Normal(_))));
        }
        if let Ok(ticket) = text.parse::<Ticket>() {
            assert_eq!(ticket.to_string().parse::<Ticket>().unwrap(), ticket);
        }
        let _: Result<NetworkName, _> = text.to_owned().try_into();
    });
}
