//! Every limit of the protocol: named, with its unit and its reason, checked against the others at compile time.

use std::time::Duration;

/// Bytes of a shared name. Long enough for deep source trees, short enough that a batch fits a frame.
pub const NAME_BYTES_MAX: usize = 1024;
/// Bytes of one component of a name: the limit of the common file systems.
pub const COMPONENT_BYTES_MAX: usize = 255;

/// Hops a query or an invalidation may travel. 16 hops cross a line of 17 indexers.
pub const TTL_MAX: u8 = 16;
/// Hops a query travels unless the caller sets another number.
pub const TTL_DEFAULT: u8 = 3;

/// Records in one call. A folder of many files is announced in batches of this size.
pub const BATCH_MAX: usize = 128;
/// Hits in one reply, one for each origin of the name.
pub const HITS_MAX: usize = 32;
/// Holders listed with one hit. A downloader uses far fewer; the others are spares for dead ones.
pub const HOLDERS_MAX: usize = 16;
/// Of these, the number reserved for complete holders when partial holders would fill the list: a quarter, so
/// that every chunk is available.
pub const HOLDERS_WHOLE_MIN: usize = HOLDERS_MAX / 4;
const _: () = assert!(0 < HOLDERS_WHOLE_MIN && HOLDERS_WHOLE_MIN < HOLDERS_MAX);
/// Of these, the number taken from one neighbor: half, so that none fills the list with holders of its making.
pub const HOLDERS_OF_NEIGHBOR_MAX: usize = HOLDERS_MAX / 2;
/// Hits on one page of a search by pattern, for people: however many holders they have, they fit a frame.
pub const FOUND_MAX: usize = 128;
/// The same for who lists a folder, with each page a round trip later than the one before: what does not fit a frame is on
/// the next page.
pub const LISTED_MAX: usize = 1024;
/// Terms of one search by pattern.
pub const TERMS_MAX: usize = 16;
/// Bytes of one term: a whole name is one.
pub const TERM_BYTES_MAX: usize = NAME_BYTES_MAX;
/// Indexers named in the covered set of one message.
pub const COVERED_MAX: usize = 512;

/// Bytes of one control frame, its length prefix excluded.
pub const FRAME_BYTES_MAX: usize = 512 * 1024;
/// Time for a control frame to arrive, once it has begun: 26 KiB/s for one of the largest size.
pub const FRAME_WITHIN: Duration = Duration::from_secs(20);
/// Upper bound of an encoded signed record: the name, the numbers, the hashes, the signature.
pub const RECORD_BYTES_MAX: usize = NAME_BYTES_MAX + 256;
/// Addresses of one holder in a hit: that at which its indexer saw it, and [`HINTS_MAX`].
pub const NODE_ADDRS_MAX: usize = 1 + HINTS_MAX;
/// Further addresses that a node says of itself in its hello.
pub const HINTS_MAX: usize = 3;
/// Upper bound of an encoded holder: node id, addresses (IPv6), the indexer that has it connect, two switches.
pub const HOLDER_BYTES_MAX: usize = 33 + 1 + NODE_ADDRS_MAX * 20 + (1 + 20 + 33) + 2;
/// Nodes that a query leaves out: the holders that failed.
pub const WITHOUT_MAX: usize = 64;
/// Upper bound of the bytes around the hits in a reply for many names: lengths and counts for each answer, and
/// the envelope.
pub const ANSWERS_BYTES_MAX: usize = BATCH_MAX * 32 + 64;
const _: () = assert!(BATCH_MAX * RECORD_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(
    HITS_MAX * (RECORD_BYTES_MAX + HOLDERS_MAX * HOLDER_BYTES_MAX) < FRAME_BYTES_MAX - ANSWERS_BYTES_MAX
);
/// Room for the hits of a page: what a frame has beside the place of the next page, the indexers that answered or did not,
/// and the envelope.
pub(crate) const FIND_BYTES_MAX: usize = FRAME_BYTES_MAX - RECORD_BYTES_MAX - 2 * COVERED_MAX * 8 - 64;
const _: () = assert!(FOUND_MAX * (RECORD_BYTES_MAX + HOLDERS_MAX * HOLDER_BYTES_MAX) < FIND_BYTES_MAX);

/// Indexers in the trace of one query: more than a query with the default TTL reaches in most networks.
pub const TRACE_HOPS_MAX: usize = 256;
/// Neighbors that were not asked, listed for each of them; further ones are counted.
pub const TRACE_UNASKED_MAX: usize = 32;
/// Versions listed for each of them.
pub const TRACE_FOUND_MAX: usize = 4;
/// Upper bound of the bytes of one hop: node, address and numbers; versions; neighbors that were not asked.
const TRACE_HOP_BYTES_MAX: usize =
    33 + 20 + 64 + TRACE_FOUND_MAX * (9 + 9 + 5) + TRACE_UNASKED_MAX * (10 + 21 + 1);
const _: () = assert!(
    HITS_MAX * (RECORD_BYTES_MAX + HOLDERS_MAX * HOLDER_BYTES_MAX) + TRACE_HOPS_MAX * TRACE_HOP_BYTES_MAX
        < FRAME_BYTES_MAX - 64
);

/// Hops of a route probe: enough to go round twenty nodes three times.
pub const PROBE_HOPS_MAX: u8 = 64;
/// Hops of a route probe unless its sender says otherwise.
pub const PROBE_HOPS_DEFAULT: u8 = 10;
/// Bytes that a route probe carries along: as many messages of a network packet's size as records in a batch.
pub const PROBE_PAYLOAD_MAX: usize = BATCH_MAX * 1400;
const _: () = assert!(PROBE_PAYLOAD_MAX + PROBE_HOPS_MAX as usize * 8 + 64 < FRAME_BYTES_MAX);
/// Bytes that all hops of one route probe together carry along: what a sender makes others send is bounded.
pub const PROBE_CARRIED_MAX: usize = 1024 * 1024;

/// The longest deadline of a call; longer ones are cut to it.
pub const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// The deadline of a query unless the caller sets another.
pub const QUERY_DEADLINE_DEFAULT: Duration = Duration::from_secs(2);
/// How long a message id is remembered. It must outlive every copy of its message.
pub const SEEN_FOR: Duration = Duration::from_secs(90);
const _: () = assert!(SEEN_FOR.as_secs() > DEADLINE_MAX.as_secs());
/// Message ids of one peer that an indexer remembers at once: with the default deadline, those of 13 107 queries a second.
pub const SEEN_OF_PEER_MAX: usize = 64 * 1024;
/// The same of one neighbor, which sends those of its peers too.
pub const SEEN_OF_NEIGHBOR_MAX: usize = 3 * SEEN_OF_PEER_MAX;

/// Time for connecting, TLS and the exchange of hellos together.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of one hello message.
pub const HELLO_BYTES_MAX: usize = 1024;
/// Bytes of a network's secret, at least: what is shorter could be guessed from one recorded handshake.
pub const SECRET_BYTES_MIN: usize = 32;
/// Bytes of a network's secret, at most.
pub const SECRET_BYTES_MAX: usize = 4096;
/// Nodes on a list of allowed ones.
pub const ALLOWED_MAX: usize = 64 * 1024;
/// Bytes of a network's name.
pub const NETWORK_BYTES_MAX: usize = 64;
/// Bytes of what people call a node.
pub const LABEL_BYTES_MAX: usize = 64;
/// Indexers named by a ticket. One that answers is enough, and a ticket has to be typed.
pub const TICKET_INDEXERS_MAX: usize = 4;

/// Connections one listener serves at once, fewer if the process may open fewer files. For a newcomer an idle one is
/// closed.
pub const CONNECTIONS_MAX: usize = 16 * 1024;
/// Connections in their handshake at once; each may take some tens of KiB.
pub const HANDSHAKES_MAX: usize = 512;
/// Control connections of one node; a further one closes its oldest idle one.
pub const CONTROL_CONNECTIONS_OF_ONE_MAX: usize = 8;
/// Requests in flight on one connection; further ones are answered `Busy`.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 1024;
/// Calls that one client has in flight; further ones wait. Fewer than the other end accepts, so that a client
/// of this crate is never answered `Busy`, and two ends cannot each wait for the other to read.
pub const CALLS_IN_FLIGHT_MAX: usize = 1000;
const _: () = assert!(CALLS_IN_FLIGHT_MAX < REQUESTS_IN_FLIGHT_MAX);

/// Smallest average length of a chunk, in bytes; that of small files.
pub const CHUNK_AVERAGE_MIN: u64 = 64 * 1024;
/// Largest average length of a chunk, in bytes. The average grows with the file up to this.
pub const CHUNK_AVERAGE_MAX: u64 = 4 * 1024 * 1024;
/// Average number of chunks of a file beyond which the average length grows.
pub const CHUNKS_AIMED_AT: u64 = 16 * 1024;
/// No chunk is longer than twice the average.
pub const CHUNK_BYTES_MAX: u64 = 2 * CHUNK_AVERAGE_MAX;
/// Chunks of one file: a file of the largest size cut at the smallest length of its tier.
pub const CHUNKS_MAX: u64 = 1024 * 1024;
/// Bytes of one file: 1 TiB.
pub const FILE_BYTES_MAX: u64 = CHUNKS_MAX * (CHUNK_AVERAGE_MAX / 4);
/// Bytes of an encoded manifest: a hash and a length for each chunk, and the count.
pub const MANIFEST_BYTES_MAX: u64 = CHUNKS_MAX * (33 + 5) + 16;

/// Bytes of one message on a data stream (a request, or the header of a reply).
pub const DATA_MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Ranges in one request on a data stream.
pub const RANGES_MAX: usize = 256;
const _: () = assert!(RANGES_MAX * 20 < DATA_MESSAGE_BYTES_MAX);
/// Bytes that one packed reply stands for: the longest chunk.
pub const UNPACKED_BYTES_MAX: u64 = CHUNK_BYTES_MAX;
/// Other versions that a reader names for one packed reply.
pub const BASES_MAX: usize = 8;
/// Parts of such a version that stand in front of one packed reply, and their bytes together: more brings nothing.
pub const BASE_RANGES_MAX: usize = 128;
/// See [`BASE_RANGES_MAX`].
pub const BASE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Bytes that say how a packed reply is packed.
pub const PACKING_BYTES_MAX: u64 = 4 * 1024;
const _: () = assert!(BASE_RANGES_MAX as u64 * 18 + 16 < PACKING_BYTES_MAX);
/// Time without a single byte after which a data stream fails.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest lease or time to refresh a policy may promise: a week.
pub const POLICY_SECS_MAX: u32 = 7 * 24 * 3600;

/// 64-bit words of a summary: 2 MiB, for 1.6 million names with 1 % false positives; with more names the share
/// of false positives grows.
pub const SUMMARY_WORDS_MAX: usize = 256 * 1024;
/// Words in one part of a summary.
pub const SUMMARY_PART_WORDS_MAX: usize = 4 * 1024;
/// Names added to a summary in one message.
pub const SUMMARY_KEYS_MAX: usize = 2048;
/// Changes of summaries in one message.
pub const SUMMARY_CHANGES_MAX: usize = 256;
/// Bytes of changes after which a message about summaries takes no further one: few, as a message is acknowledged as a
/// whole, over a slow link too.
pub const SUMMARY_BYTES_MAX: usize = 32 * 1024;
/// Upper bound of the bytes of one change beside its names, words and tags.
pub const CHANGE_BYTES_MAX: usize = 64;
const _: () = assert!(SUMMARY_KEYS_MAX * 16 < SUMMARY_PART_WORDS_MAX * 9);
const _: () = assert!(
    SUMMARY_BYTES_MAX + SUMMARY_PART_WORDS_MAX * 9 + COVERED_MAX * 8 + CHANGE_BYTES_MAX < FRAME_BYTES_MAX
);
