//! Serving until told to end: reloads on SIGHUP, drains on SIGTERM, tells systemd.

use nekoindexer::daemon::{
    settings,
    signals::{self, Hangups, Stop},
};

use super::{
    args::{Args, NodeArgs},
    hosting::Hosted,
    unless_stopped,
};
use crate::terminal::Output;

pub(super) async fn serve_until(hosted: &Hosted, args: &NodeArgs, output: Output, stop: &mut Stop) {
    let facts = &hosted.facts;
    output.note(&format!("serving on {} as {}, Ctrl-C stops", facts.addr(), facts.node));
    let hangups = Hangups::new().ok();
    signals::serve(stop, hangups, hosted.stopped(), async || output.note(&reload(args).await)).await;
    if stop.is_terminated {
        unless_stopped(stop, hosted.host.peer.drain()).await;
    }
}

/// Reads the configuration again; what is wrong changes nothing. Returns what to say.
async fn reload(args: &NodeArgs) -> String {
    let again = settings::again::<Args>().await.map_err(|faults| faults.join("; ")).and_then(
        |Args { node, .. }| {
            let allowed = args.access.loaded.allowed.load(node.access.allow.as_deref());
            allowed.map_err(|error| error.to_string()).map(|changed| (changed, node.indexer == args.indexer))
        },
    );
    match again {
        Ok(((new, gone), is_same)) => {
            let restart = if is_same { "" } else { "; other indexers count after a restart" };
            format!("configuration read again: list of allowed nodes: {new} added, {gone} removed{restart}")
        }
        Err(why) => format!("warning: configuration read again, and everything stays as it was: {why}"),
    }
}
