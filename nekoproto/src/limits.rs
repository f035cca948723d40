//! Every bound of the protocol: named, with its unit and its reason, related to the others at compile time.

use std::time::Duration;

/// Bytes of a shared name. Long enough for deep source trees, short enough that a batch fits a frame.
pub const NAME_BYTES_MAX: usize = 1024;
/// Bytes of one component of a name: the limit of the common file systems.
pub const COMPONENT_BYTES_MAX: usize = 255;

/// Hops a query or an invalidation may travel. With 16 hops a line of 17 indexers is crossed.
pub const TTL_MAX: u8 = 16;
/// Hops a query travels unless the asker says otherwise.
pub const TTL_DEFAULT: u8 = 3;

/// Records in one call. A folder of many files is announced in batches of this size.
pub const BATCH_MAX: usize = 128;
/// Hits in one reply: at most so many origins publish the same name.
pub const HITS_MAX: usize = 32;
/// Holders listed with one hit. A downloader uses far fewer; the rest leaves room for dead ones.
pub const HOLDERS_MAX: usize = 16;
/// Places among them that are kept for nodes that hold all of the version, where nodes that are still
/// downloading it are so many: a quarter, so that every chunk is to be had.
pub const HOLDERS_WHOLE_MIN: usize = HOLDERS_MAX / 4;
const _: () = assert!(0 < HOLDERS_WHOLE_MIN && HOLDERS_WHOLE_MIN < HOLDERS_MAX);
/// Indexers named in the covered set of one message.
pub const COVERED_MAX: usize = 512;

/// Bytes of one control frame, its length prefix excluded.
pub const FRAME_BYTES_MAX: usize = 512 * 1024;
/// Upper bound of an encoded signed record: the name, the numbers, the hashes, the signature.
pub const RECORD_BYTES_MAX: usize = NAME_BYTES_MAX + 256;
/// Upper bound of an encoded holder: node id, address (the longest form), whether it holds a part.
pub const HOLDER_BYTES_MAX: usize = 33 + 20 + 1;
/// Upper bound of what a reply with the answers to many names has around its hits: for each answer a
/// few lengths and counts, for all of them the envelope.
pub const ANSWERS_BYTES_MAX: usize = BATCH_MAX * 32 + 64;
const _: () = assert!(BATCH_MAX * RECORD_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(
    HITS_MAX * (RECORD_BYTES_MAX + HOLDERS_MAX * HOLDER_BYTES_MAX) < FRAME_BYTES_MAX - ANSWERS_BYTES_MAX
);

/// The longest deadline a caller may ask for; longer ones are cut to it.
pub const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// The deadline of a query unless the asker says otherwise.
pub const QUERY_DEADLINE_DEFAULT: Duration = Duration::from_secs(2);
/// How long a message id is remembered. It must outlive every copy of its message.
pub const SEEN_FOR: Duration = Duration::from_secs(90);
const _: () = assert!(SEEN_FOR.as_secs() > DEADLINE_MAX.as_secs());

/// Time for connecting, TLS and the exchange of hellos together.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of one hello message.
pub const HELLO_BYTES_MAX: usize = 1024;
/// Bytes of a network's name.
pub const NETWORK_BYTES_MAX: usize = 64;

/// Connections one listener serves at once; further ones are closed at once.
pub const CONNECTIONS_MAX: usize = 16 * 1024;
/// Requests in flight on one connection; further ones are answered `busy`.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 1024;
/// Calls that one client has in flight; further ones wait their turn. Fewer than the other end
/// takes, so that a client of ours is never the one to be told `busy`, and two ends that wait for
/// each other to read cannot come about.
pub const CALLS_IN_FLIGHT_MAX: usize = 1000;
const _: () = assert!(CALLS_IN_FLIGHT_MAX < REQUESTS_IN_FLIGHT_MAX);

/// Smallest average length of a chunk, in bytes. Small files are cut at this average.
pub const CHUNK_AVERAGE_MIN: u64 = 64 * 1024;
/// Largest average length of a chunk, in bytes. The average grows with the file up to here.
pub const CHUNK_AVERAGE_MAX: u64 = 4 * 1024 * 1024;
/// Chunks a file is cut into, on average, before the average length grows.
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
/// Time without a single byte after which a data stream is given up.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest lease or time to refresh a policy may promise: a week.
pub const POLICY_SECS_MAX: u32 = 7 * 24 * 3600;

/// 64-bit words of a summary: 2 MiB, for 1.6 million names at one false answer in a hundred; with more
/// names more are false.
pub const SUMMARY_WORDS_MAX: usize = 256 * 1024;
/// Words in one part of a summary.
pub const SUMMARY_PART_WORDS_MAX: usize = 16 * 1024;
/// Names added to a summary in one message.
pub const SUMMARY_KEYS_MAX: usize = 4096;
const _: () = assert!(SUMMARY_PART_WORDS_MAX * 9 + COVERED_MAX * 9 < FRAME_BYTES_MAX);
const _: () = assert!(SUMMARY_KEYS_MAX * 17 + COVERED_MAX * 9 < FRAME_BYTES_MAX);
