//! What the command line says of what helps against an error.

use nekoproto::Remedy;

/// The end of an error's message.
#[must_use]
pub const fn advice(remedy: Option<Remedy>) -> &'static str {
    let Some(remedy) = remedy else { return "" };
    match remedy {
        Remedy::Allow => "; --allow FILE names the list",
        Remedy::DataDir => "; --data-dir chooses another data folder",
        Remedy::Force => "; or replace it with --force",
        Remedy::Http => "; choose another address with --http, port 0 is a free one, or leave it out",
        Remedy::Indexer => {
            "; check that one runs and can be reached, name it with --indexer ADDR, use a ticket that share printed, or \
             start one with nekoindexer"
        }
        Remedy::Insecure => "; give --insecure to both, or to neither",
        Remedy::Keep => "; nekopeer follow NAME --keep N keeps the last N that it replaces",
        Remedy::Listen => "; choose another address with --listen, port 0 is a free one, or leave it out",
        Remedy::Network => "; give both the same --network",
        Remedy::NetworkSecret => "; give both the same secret with --network-secret FILE, or none",
        Remedy::Output => "; -o chooses another place",
        Remedy::Exclude => "; --exclude leaves it out of what is shared",
        Remedy::FollowLinks => "; --follow-links shares what links lead to",
    }
}
