//! [`Ticket`]: a name to type elsewhere, with all that is needed to find it. It has no secret.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
};

use data_encoding::{BASE32_NOPAD, BASE32_NOPAD_NOCASE};
use serde::{Deserialize, Serialize};

use super::{FileName, List, NodeId, Version};
use crate::{codec, limits::TICKET_INDEXERS_MAX, messages::NetworkName};

/// What the text of every ticket begins with.
pub const TICKET_PREFIX: &str = "neko:";

/// The port of an indexer that is told no other. A ticket leaves it out.
pub const USUAL_PORT: u16 = 7707;

/// The format written here: the lower half of the first byte of a ticket.
const FORMAT: u8 = 2;
/// The one before, which is read.
const FORMAT_BEFORE: u8 = 1;
const OF_FORMAT: u8 = 0x0f;
/// The upper half of the first byte: what is true of the ticket, and what follows.
const INSECURE: u8 = 0x10;
const PRIVATE: u8 = 0x20;
const HAS_VERSION: u8 = 0x40;
const HAS_NETWORK: u8 = 0x80;
/// The byte before an indexer: which kind of address follows,
const OF_KIND: u8 = 0x03;
const V4: u8 = 0;
const V6: u8 = 1;
const LOOPBACK: u8 = 2;
const NO_INDEXER: u8 = 3;
/// and what is left out, or comes next.
const HAS_PORT: u8 = 0x04;
const HAS_KEY: u8 = 0x08;
const HAS_NEXT: u8 = 0x10;
/// The last bytes of a ticket in every format: the first ones of the BLAKE3 of what is before them.
const CHECKSUM_BYTES: usize = 4;
/// Maximum length of a ticket's text; four indexers and a name of 1024 bytes take some 2100.
const TEXT_BYTES_MAX: usize = 4096;

/// An indexer that a node can be reached by: an address, and the key to be proved there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IndexerAddr {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Its id.
    pub node: NodeId,
}

/// Names one file of one origin, not its bytes: it stays good when the file changes. Shown and read as text,
/// `neko:` and base32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The network that the file is published in.
    pub network: NetworkName,
    /// Whether that network uses plain TCP.
    pub insecure: bool,
    /// Whether that network has a secret, which is not in the ticket.
    pub private: bool,
    /// Indexers that list the file, the best first.
    pub indexers: List<IndexerAddr, TICKET_INDEXERS_MAX>,
    /// Who publishes it.
    pub origin: NodeId,
    /// Its name.
    pub name: FileName,
    /// A version that was published; an older one is not what the ticket promises.
    pub version: Option<Version>,
}

/// Why a text is no ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// It does not begin with `neko:`.
    #[error("a ticket begins with '{TICKET_PREFIX}'")]
    NoPrefix,
    /// It is longer than any ticket.
    #[error("a ticket has at most {TEXT_BYTES_MAX} characters, this text has {0}")]
    TooLong(usize),
    /// A character that no ticket has, or one too many or too few.
    #[error("the ticket is cut off or mistyped: copy the whole of it")]
    NotBase32,
    /// The checksum is wrong.
    #[error("the ticket is cut off or mistyped: its checksum is wrong, copy the whole of it")]
    Mistyped,
    /// A later format.
    #[error("the ticket has format {0}, this program reads {FORMAT_BEFORE} and {FORMAT}: update it")]
    OtherFormat(u8),
    /// Whoever made it broke a rule, of names for instance.
    #[error("the ticket is malformed: ask for another one")]
    Malformed,
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.to_bytes();
        bytes.extend(checksum(&bytes));
        write!(f, "{TICKET_PREFIX}{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(TicketError::TooLong(text.len()));
        }
        let (prefix, text) =
            text.trim().split_at_checked(TICKET_PREFIX.len()).ok_or(TicketError::NoPrefix)?;
        if !prefix.eq_ignore_ascii_case(TICKET_PREFIX) {
            return Err(TicketError::NoPrefix);
        }
        let bytes = BASE32_NOPAD_NOCASE.decode(text.as_bytes()).map_err(|_| TicketError::NotBase32)?;
        // The checksum comes first, so that a typo is never taken for another format.
        let (checked, sum) = bytes.split_last_chunk().ok_or(TicketError::Mistyped)?;
        if checksum(checked) != *sum {
            return Err(TicketError::Mistyped);
        }
        match checked {
            [FORMAT_BEFORE, ticket @ ..] => Self::of_bytes_before(ticket).ok_or(TicketError::Malformed),
            [head, rest @ ..] if head & OF_FORMAT == FORMAT => {
                Self::of_bytes(*head, rest).ok_or(TicketError::Malformed)
            }
            [other, ..] => Err(TicketError::OtherFormat(*other)),
            [] => Err(TicketError::Mistyped),
        }
    }
}

impl Ticket {
    /// Whether only the machine where it was made reaches an indexer that it names.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.indexers.iter().all(|at| at.addr.ip().is_loopback())
    }

    fn to_bytes(&self) -> Vec<u8> {
        let network = Some(&self.network).filter(|network| **network != NetworkName::default());
        let flags = [
            (self.insecure, INSECURE),
            (self.private, PRIVATE),
            (self.version.is_some(), HAS_VERSION),
            (network.is_some(), HAS_NETWORK),
        ];
        let head =
            flags.into_iter().filter(|(is_set, _)| *is_set).fold(FORMAT, |head, (_, flag)| head | flag);
        let mut bytes = vec![head];
        if let Some(network) = network.map(NetworkName::to_string) {
            bytes.push(u8::try_from(network.len()).unwrap_or_default()); // 64 at most
            bytes.extend(network.bytes());
        }
        bytes.extend(self.origin.as_bytes());
        if let Some(version) = self.version {
            let mut left = version.get();
            while left >= 0x80 {
                bytes.push(0x80 | left.to_le_bytes()[0]);
                left >>= 7;
            }
            bytes.push(left.to_le_bytes()[0]);
        }
        if self.indexers.is_empty() {
            bytes.push(NO_INDEXER);
        }
        let (mut key, mut left) = (None, self.indexers.len());
        for IndexerAddr { addr, node } in self.indexers.iter() {
            left -= 1;
            let (kind, ip) = match addr.ip() {
                IpAddr::V4(Ipv4Addr::LOCALHOST) => (LOOPBACK, Vec::new()),
                IpAddr::V4(ip) => (V4, ip.octets().to_vec()),
                IpAddr::V6(ip) => (V6, ip.octets().to_vec()),
            };
            let (has_port, has_key) = (addr.port() != USUAL_PORT, key.replace(*node) != Some(*node));
            let flags = [(has_port, HAS_PORT), (has_key, HAS_KEY), (left > 0, HAS_NEXT)];
            bytes.push(flags.iter().filter(|(is_set, _)| *is_set).fold(kind, |byte, (_, flag)| byte | flag));
            bytes.extend(ip);
            bytes.extend(addr.port().to_be_bytes().iter().filter(|_| has_port));
            bytes.extend(node.as_bytes().iter().filter(|_| has_key));
        }
        bytes.extend(self.name.as_str().bytes());
        bytes
    }

    fn of_bytes(head: u8, mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let network = match head & HAS_NETWORK {
            0 => NetworkName::default(),
            _ => {
                let [len] = take(bytes)?;
                let (network, rest) = bytes.split_at_checked(len.into())?;
                *bytes = rest;
                NetworkName::try_from(String::from_utf8(network.to_vec()).ok()?).ok()?
            }
        };
        let origin = NodeId::from_bytes(take(bytes)?);
        let version = if head & HAS_VERSION == 0 { None } else { Some(Version::new(number(bytes)?)?) };
        let (mut indexers, mut key, mut has_next) = (Vec::new(), None, true);
        while has_next {
            let [what] = take(bytes)?;
            has_next = what & HAS_NEXT != 0;
            let ip: IpAddr = match what & OF_KIND {
                V4 => take::<4>(bytes)?.into(),
                V6 => take::<16>(bytes)?.into(),
                LOOPBACK => Ipv4Addr::LOCALHOST.into(),
                _ => break,
            };
            let port = if what & HAS_PORT == 0 { USUAL_PORT } else { u16::from_be_bytes(take(bytes)?) };
            key = if what & HAS_KEY == 0 { key } else { Some(NodeId::from_bytes(take(bytes)?)) };
            indexers.push(IndexerAddr { addr: SocketAddr::new(ip, port), node: key? });
        }
        let name = FileName::new(std::str::from_utf8(bytes).ok()?).ok()?;
        let (insecure, private) = (head & INSECURE != 0, head & PRIVATE != 0);
        Some(Self { network, insecure, private, indexers: indexers.try_into().ok()?, origin, name, version })
    }

    fn of_bytes_before(bytes: &[u8]) -> Option<Self> {
        type Before =
            (NetworkName, bool, List<IndexerAddr, TICKET_INDEXERS_MAX>, NodeId, FileName, Option<Version>);
        let (network, insecure, indexers, origin, name, version) = codec::decode::<Before>(bytes).ok()?;
        Some(Self { network, insecure, private: false, indexers, origin, name, version })
    }
}

/// The next bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// A number of seven bits a byte, the lowest first; the highest bit says that more follow.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let [byte] = take(bytes)?;
        let bits = u64::from(byte & 0x7f);
        number |= bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = blake3::hash(bytes);
    hash.as_bytes().first_chunk().copied().unwrap_or_default() // 4 of 32 are there
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Identity;

    const GOLDEN: &str = "neko:ikats5yovb6rox2wunkgnq2mp3gmxdmksg2o4n5clx3a6w4pzgzziayyyaaaeb4krdr525aj6gk72uw3fu6lu\
        xlszjtqtpy5sqjbx43uraa3id3plqasaainxaaaaaaaaaaaaaaaaaaao3lpmrswy4zpyo6g5q5pfzrgs3sch6wfm";

    /// The same in the format before.
    const GOLDEN_BEFORE: &str = "neko:aedw4zlln5yde4aaaiamaaaca75rwhrarkeohxlubhyzl7ks3mwtzos5olfgocn7dwkbeg7toseadnapn5oac\
        iabbw4aaaaaaaaaaaaaaaaaab73dmpcbcui4poxicprsx6vfwznhs5f24wkm4e36hmucin7g5eiag2a6324ecats5y\
        ovb6rox2wunkgnq2mp3gmxdmksg2o4n5clx3a6w4pzgzziednn5sgk3dtf7b3y3wdv4xge2loaeb5hgkpae";

    fn ticket() -> Ticket {
        let node = |n| Identity::from_seed(&[n; 32]).id();
        let indexers = [
            IndexerAddr { addr: "192.0.2.7:7707".parse().unwrap(), node: node(1) },
            IndexerAddr { addr: "[2001:db8::7]:7707".parse().unwrap(), node: node(1) },
        ];
        Ticket {
            network: NetworkName::default(),
            insecure: false,
            private: false,
            indexers: List::first_of(indexers),
            origin: node(2),
            name: FileName::new("models/ünï.bin").unwrap(),
            version: Version::new(3),
        }
    }

    fn text_of(bytes: &[u8]) -> String {
        let all = [bytes, &checksum(bytes)].concat();
        format!("{TICKET_PREFIX}{}", BASE32_NOPAD.encode(&all).to_ascii_lowercase())
    }

    /// If this fails, the format changed: raise `FORMAT`, and change docs/protocol.md.
    #[test]
    fn text_of_a_ticket_is_pinned() {
        let text = ticket().to_string();
        assert_eq!(text, GOLDEN);
        assert_eq!(text.parse(), Ok(ticket()));
        assert_eq!(GOLDEN_BEFORE.parse(), Ok(ticket()), "old tickets stay good");
        let shown = format!(" {}\n", text.to_ascii_uppercase());
        assert_eq!(shown.parse(), Ok(ticket()), "as codes and pages show it");
    }

    #[test]
    fn every_single_typo_is_said_to_be_one() {
        let text = ticket().to_string();
        for place in TICKET_PREFIX.len()..text.len() {
            for typo in ['a', '7', '0', '!', 'é'].into_iter().filter(|typo| !text[place..].starts_with(*typo))
            {
                let wrong = format!("{}{typo}{}", &text[..place], &text[place + 1..]);
                let error = wrong.parse::<Ticket>().unwrap_err();
                assert!(matches!(error, TicketError::NotBase32 | TicketError::Mistyped), "{wrong}: {error}");
            }
            let cut = text[..place].parse::<Ticket>().unwrap_err();
            assert!(matches!(cut, TicketError::NotBase32 | TicketError::Mistyped), "{place}: {cut}");
        }
    }

    #[test]
    fn what_is_no_ticket_is_refused_for_the_right_reason() {
        assert_eq!("a.bin".parse::<Ticket>(), Err(TicketError::NoPrefix));
        assert_eq!("neko:".parse::<Ticket>(), Err(TicketError::Mistyped));
        let long = format!("neko:{}", "a".repeat(5000));
        assert_eq!(long.parse::<Ticket>(), Err(TicketError::TooLong(5005)));
        assert_eq!(text_of(&[9, 1, 2]).parse::<Ticket>(), Err(TicketError::OtherFormat(9)));
        assert_eq!(text_of(&[FORMAT]).parse::<Ticket>(), Err(TicketError::Malformed));
        let encoded = |indexers: usize, name: &str| {
            let mut bytes = vec![FORMAT_BEFORE];
            let indexers = vec![ticket().indexers[0]; indexers];
            let fields = ("nekop2p", false, indexers, ticket().origin, name, None::<Version>);
            codec::append(&mut bytes, &fields).unwrap();
            bytes
        };
        assert!(text_of(&encoded(1, "x")).parse::<Ticket>().is_ok());
        let key = [7; 32];
        let loopback =
            |what: u8, name: &str| [&[FORMAT][..], &key, &[LOOPBACK | what], &key, name.as_bytes()].concat();
        assert!(text_of(&loopback(HAS_KEY, "x")).parse::<Ticket>().is_ok());
        let no_key = [&[FORMAT][..], &key, &[LOOPBACK], b"x"].concat();
        let many = [
            &[FORMAT][..],
            &key,
            &[LOOPBACK | HAS_KEY | HAS_NEXT],
            &key,
            &[LOOPBACK | HAS_NEXT; 9],
            &[LOOPBACK, b'x'],
        ];
        let endless = [&[FORMAT | HAS_VERSION][..], &key, &[0xff; 12], &[NO_INDEXER, b'x']].concat();
        let no_version = [&[FORMAT | HAS_VERSION][..], &key, &[0, NO_INDEXER, b'x']].concat();
        for (wrong, bytes) in [
            ("a hostile name", loopback(HAS_KEY, "../x")),
            ("no name", loopback(HAS_KEY, "")),
            ("cut off", loopback(HAS_KEY | HAS_NEXT, "")),
            ("no key", no_key),
            ("too many indexers", many.concat()),
            ("a number of too many bits", endless),
            ("a version 0", no_version),
            ("bytes at its end", [&encoded(1, "x")[..], &[0]].concat()),
            ("a hostile name", encoded(1, "../x")),
            ("too many indexers", encoded(TICKET_INDEXERS_MAX + 1, "x")),
        ] {
            assert_eq!(text_of(&bytes).parse::<Ticket>(), Err(TicketError::Malformed), "{wrong}");
        }
    }

    #[test]
    fn the_longest_ticket_is_read() {
        let part = "x".repeat(255);
        let name = [part.as_str(); 4].join("/");
        let indexers = List::first_of(vec![ticket().indexers[1]; TICKET_INDEXERS_MAX]);
        let network = NetworkName::try_from("n".repeat(crate::limits::NETWORK_BYTES_MAX)).unwrap();
        let version = Version::new(u64::MAX);
        let longest = Ticket { network, indexers, name: FileName::new(&name).unwrap(), version, ..ticket() };
        assert_eq!(longest.to_string().parse(), Ok(longest));
    }

    #[test]
    fn ticket_has_no_more_than_its_content_needs() {
        let first = ticket().indexers[0];
        let at = |addrs: &[&str]| {
            let at = addrs.iter().map(|addr| IndexerAddr { addr: addr.parse().unwrap(), ..first });
            let ticket =
                Ticket { indexers: List::first_of(at), name: FileName::new("f.txt").unwrap(), ..ticket() };
            assert_eq!(ticket.to_string().parse(), Ok(ticket.clone()));
            (ticket.to_string().len() - TICKET_PREFIX.len(), ticket.is_local())
        };
        let signs = |bytes: usize| (bytes * 8).div_ceil(5);
        let of_all = 1 + 32 + 1 + 1 + 32 + 5 + 4; // head, origin, version, an indexer's head and key, name, checksum
        assert_eq!(at(&["127.0.0.1:7707"]), (signs(of_all), true));
        assert_eq!(at(&["127.0.0.1:7708"]), (signs(of_all + 2), true));
        assert_eq!(at(&["192.0.2.7:7707"]), (signs(of_all + 4), false));
        assert_eq!(at(&["192.0.2.7:7707", "127.0.0.1:7707"]), (signs(of_all + 4 + 1), false));
        let none = Ticket { indexers: List::new(), insecure: true, private: true, version: None, ..ticket() };
        assert_eq!(none.to_string().parse(), Ok(none));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let bytes = [&[FORMAT][..], &bytes].concat();
            drop(text_of(&bytes).parse::<Ticket>());
        }
    }
}
