//! Flags of a node, given to a command that a running peer carries out: those that it does not follow are
//! named.

use std::{net::SocketAddr, path::Path};

use super::{
    args::{DISCOVER_DEFAULT, NodeArgs},
    hosting::allowed,
};
use crate::{
    api::{Failure, Need},
    door::Facts,
    terminal::Output,
};

fn not_followed(
    args: &NodeArgs,
    facts: &Facts,
    need: Need,
    stores_files: bool,
) -> Result<Vec<&'static str>, String> {
    let process = facts.process;
    let refused = |what: String| {
        Err(format!(
            "the running peer (process {process}) {what}: end it first (nekopeer stop), or use another --data-dir"
        ))
    };
    if args.insecure && !facts.insecure {
        return refused("uses TLS, and --insecure was given".to_owned());
    }
    if let Some(network) = args.network.as_ref().filter(|network| **network != facts.network) {
        let own = &facts.network;
        return refused(format!("belongs to the network {own}, and --network {network} was given"));
    }
    if args.access.loaded.secret.as_ref().is_some_and(|secret| !facts.has(secret)) {
        return refused(
            "has another secret of its network, or none, and --network-secret was given".to_owned(),
        );
    }
    if let Some(list) = allowed(args).filter(|list| facts.allow.as_ref().is_none_or(|own| own.0 != *list)) {
        let list = list.display();
        return refused(format!("was started without --allow {list}, and connects with other nodes too"));
    }
    if stores_files && !is_same_folder(&args.dir, &facts.dir.0) {
        let (own, given) = (facts.dir.0.display(), args.dir.display());
        return Err(format!(
            "the running peer (process {process}) has its files in {own}, not in {given}: give that with --dir, \
             or use another --data-dir"
        ));
    }
    let other_ttr = |secs: u32| facts.ttr.is_none_or(|ttr| ttr.as_secs() != u64::from(secs));
    let differs = [
        ("--indexer", !args.indexer.iter().all(|at| facts.indexers.contains(&at.addr))),
        ("--discover", ![Some(DISCOVER_DEFAULT), facts.discover].contains(&Some(args.discover))),
        ("--no-discovery", args.no_discovery && facts.discovers),
        ("--listen", args.listen.is_some_and(|addr| ![facts.listen, facts.serves_on].contains(&Some(addr)))),
        ("--http", args.http.is_some_and(|addr| !is_same_addr(addr, facts.http))),
        ("--http-hosts", !args.http_hosts.iter().all(|host| facts.http_hosts.contains(host))),
        ("--lan", args.lan && facts.serves_on.is_some_and(|addr| addr.ip().is_loopback())),
        ("--label", args.label.is_some() && args.label != facts.label),
        ("--limit-up", args.limit_up.is_some() && args.limit_up != facts.limit_up),
        ("--limit-down", args.limit_down.is_some() && args.limit_down != facts.limit_down),
        ("--keep-base", args.keep_base.is_some() && args.keep_base != facts.keep_base),
        ("--memory", args.memory.is_some() && args.memory() != facts.memory),
        // What is published has its own.
        ("--ttr", need != Need::Serving && args.policy.ttr.is_some_and(other_ttr)),
        ("--on-stale", args.on_stale.is_some_and(|on_stale| on_stale != facts.on_stale)),
    ];
    Ok(differs.into_iter().filter(|(_, differs)| *differs).map(|(flag, _)| flag).collect())
}

/// Says which flags the running peer with these facts does not follow.
pub(super) fn check(
    args: &NodeArgs,
    facts: &Facts,
    need: Need,
    stores_files: bool,
    output: Output,
) -> anyhow::Result<()> {
    let flags = not_followed(args, facts, need, stores_files).map_err(Failure::conflict)?;
    if !flags.is_empty() {
        let (process, flags) = (facts.process, flags.join(", "));
        output.note(&format!("note: the running peer (process {process}) keeps its own {flags}"));
    }
    Ok(())
}

/// Whether what was given means where a running peer answers; port 0 means any.
fn is_same_addr(given: SocketAddr, own: Option<SocketAddr>) -> bool {
    own.is_some_and(|own| given.ip() == own.ip() && (given.port() == 0 || given.port() == own.port()))
}

fn is_same_folder(given: &Path, own: &Path) -> bool {
    // A folder that does not exist yet is not the one of a running peer.
    given.canonicalize().is_ok_and(|given| own.canonicalize().is_ok_and(|own| own == given))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Args;

    #[test]
    fn what_matters_and_differs_is_named_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let said = |flags: &str, need| {
            let mut node = Args::parse_from(["nekopeer"].into_iter().chain(flags.split_whitespace())).node;
            if node.dir == Path::new(".") {
                node.dir = dir.path().to_owned();
            }
            not_followed(&node, &Facts::of_test(dir.path()), need, true)
        };
        let named = |flags, need| said(flags, need).unwrap();
        assert!(named("", Need::Serving).is_empty());
        let same =
            "--indexer 127.0.0.1:2 --on-stale keep --listen 127.0.0.1:5 --http-hosts named --memory 160MiB";
        assert!(named(same, Need::Serving).is_empty());
        let all = "--indexer 127.0.0.1:3 --discover 127.0.0.1:4 --no-discovery --listen 127.0.0.1:6 --http 127.0.0.1:0 \
                   --http-hosts named,other --lan --limit-up 1MB --limit-down 1MB --keep-base 0 --memory 1GiB --ttr 5 --on-stale drop";
        let every: Vec<&str> = all.split_whitespace().filter(|word| word.starts_with("--")).collect();
        for need in [Need::Catalogue, Need::Peers, Need::Indexer, Need::Serving] {
            let is_told = |flag: &&str| need != Need::Serving || *flag != "--ttr";
            assert_eq!(
                named(all, need),
                every.iter().copied().filter(is_told).collect::<Vec<_>>(),
                "{need:?}"
            );
            for flags in ["--insecure", "--network other", "--allow /dev/null", "--dir /"] {
                assert!(said(flags, need).unwrap_err().contains("process 7"), "{flags} {need:?}");
            }
        }
    }
}
