//! Where this machine moved, a download closes its connections and dials anew, and counts no strike against the sources.

use std::sync::Arc;

use nekoproto::{DataRequest, Manifest};
use testkit::{
    goods::{Goods, MIB, bytes},
    holder::Holder as ScriptedHolder,
    rogue::Then,
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    Config, Peer,
    content::{bitfield::Bitfield, outboard::Segments},
    download::file::{assembly::Assembly, reuse::LocalChunks},
    state::schedule::Order,
    storage::place::Place,
    util::progress::Progress,
};

/// A connection that this side closes, as this machine has moved, says nothing of the source.
#[tokio::test(flavor = "multi_thread")]
async fn source_is_connected_to_anew_and_not_blamed_where_this_machine_has_moved() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::spawn(Config::new(folder.path())).await.unwrap();
    let goods = Goods::new(1, "a", 1, bytes(1, MIB));
    let sent = goods.clone();
    let mut holder = ScriptedHolder::begin(1, move |asked| sent.honest(asked).cut_to(1).then(Then::Hang));
    let manifest = Arc::new(Manifest::decode_for(&goods.record, &goods.manifest).unwrap());
    let partial = Place::anywhere(&folder.path().join("a")).unwrap();
    let partial = partial.partial(&peer.library.data_dir, &goods.record.name).unwrap();
    let had = Bitfield::with_capacity(manifest.chunks().len());
    let assembly = Assembly::open(manifest, None, partial, &had, Segments::new(goods.record.size));
    let stop = CancellationToken::new();
    let (catalogue, progress) = (&peer.library.catalogue, Arc::<Progress>::default());
    let local = LocalChunks::find(catalogue, &goods.record, None, &assembly, false, &stop);
    let (order, mark) = (Order::RarestFirst { from: 0 }, progress.mark());
    let (downloader, record) = (&peer.downloader, goods.record.clone());
    let transfer = Arc::new(Transfer::new(downloader, record, assembly, &local, order, &progress, mark));
    let source = Holder::new(holder.endpoint.node(), holder.addr);
    transfer.offers(&source);
    let running = tokio::spawn(run_source(Arc::clone(&transfer), source, None));
    for moved in 0..5 {
        let asked = holder.asked.recv().await.unwrap();
        assert!(matches!(asked, DataRequest::Get { .. }), "{moved}: {asked:?}");
        assert_eq!(transfer.silence().2, None, "{moved}");
        transfer.leave_stale(true);
    }
    transfer.end();
    running.await.unwrap();
    assert_eq!(transfer.silence().2, None);
}
