//! [`Ticket`]: a name to type elsewhere, with all that is needed to find it. It has no secret.

use std::{fmt, net::SocketAddr, str::FromStr};

use data_encoding::{BASE32_NOPAD, BASE32_NOPAD_NOCASE};
use serde::{Deserialize, Serialize};

use super::{FileName, List, NodeId, Version};
use crate::{codec, limits::TICKET_INDEXERS_MAX, messages::NetworkName};

/// What the text of every ticket begins with.
pub const TICKET_PREFIX: &str = "neko:";

/// The format written and read here: the first byte of a ticket.
const FORMAT: u8 = 1;
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The network that the file is published in.
    pub network: NetworkName,
    /// Whether that network uses plain TCP.
    pub insecure: bool,
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
    #[error("the ticket has format {0}, this program reads {FORMAT}: update it")]
    OtherFormat(u8),
    /// Whoever made it broke a rule, of names for instance.
    #[error("the ticket is malformed: ask for another one")]
    Malformed,
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = vec![FORMAT];
        codec::append(&mut bytes, self).map_err(|_| fmt::Error)?;
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
            [FORMAT, ticket @ ..] => codec::decode(ticket).map_err(|_| TicketError::Malformed),
            [other, ..] => Err(TicketError::OtherFormat(*other)),
            [] => Err(TicketError::Mistyped),
        }
    }
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

    const GOLDEN: &str = "neko:aedw4zlln5yde4aaaiamaaaca75rwhrarkeohxlubhyzl7ks3mwtzos5olfgocn7dwkbeg7toseadnapn5oac\
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
            let mut bytes = vec![FORMAT];
            let indexers = vec![ticket().indexers[0]; indexers];
            let fields = ("nekop2p", false, indexers, ticket().origin, name, None::<Version>);
            codec::append(&mut bytes, &fields).unwrap();
            bytes
        };
        assert!(text_of(&encoded(1, "x")).parse::<Ticket>().is_ok());
        for (wrong, bytes) in [
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

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let bytes = [&[FORMAT][..], &bytes].concat();
            drop(text_of(&bytes).parse::<Ticket>());
        }
    }
}
