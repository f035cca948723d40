//! Holders are had to connect to those who cannot connect to them, and to nobody else.

use futures::stream::FuturesUnordered;
use nekoproto::{
    peer::{PeerServiceRequest, PeerServiceResponse},
    transport::{control, rendezvous::Token},
};
use testkit::service;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::common::*;

async fn call(peer: &Peer, holder: u16, port: Option<u16>) -> Result<(), Refusal> {
    let request = CallBack { holder: identity(holder).id(), port, token: Token::random() };
    peer.client.call_back(patient(), request).await.unwrap()
}

/// Goal: a reader has a holder connect to no machine but its own; whoever is not connected here is not waited for, and no
/// more holders than are allowed wait for one reader.
#[testkit::test]
async fn holder_is_told_the_address_at_which_the_reader_is_seen(security: Security) {
    let indexer = indexer(security, &[]).await;
    let holder = endpoint(1, Role::Peer, security);
    let _listener = holder.bind(ANY_PORT).unwrap();
    let connection = holder.dial(indexer.local_addr(), Purpose::Control, None).await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let service = service::peer(move |_, call| async move {
        let PeerServiceRequest::DialBack { at, .. } = call else { return Err(Refusal::WrongRole) };
        tell.send(at).unwrap();
        match at {
            Some(at) if at.port() == 1 => std::future::pending().await,
            _ => Ok(PeerServiceResponse::DialBack(Ok(()))),
        }
    });
    let (_client, driver) = control::open(connection.io, service, IndexerServiceClient::from);
    let _driver = AbortOnDropHandle::new(tokio::spawn(driver));
    let reader = Peer::join(2, indexer.local_addr(), security).await;
    let calls = async || call(&reader, 1, Some(4000)).await.is_ok().then_some(());
    eventually(calls).await; // it has arrived
    assert_eq!(told.recv().await.unwrap(), Some(SocketAddr::from(([127, 0, 0, 1], 4000))));
    assert_eq!(call(&reader, 1, Some(0)).await, Err(Refusal::NotCalled));
    assert_eq!(call(&reader, 9, Some(4000)).await, Err(Refusal::NotCalled), "nobody with that key is here");
    let mut waiting: FuturesUnordered<_> = (0..17).map(|_| call(&reader, 1, Some(1))).collect();
    assert_eq!(waiting.next().await, Some(Err(Refusal::Busy)), "sixteen wait for the holder");
}

#[testkit::test]
async fn connections_that_nobody_waits_for_are_closed(security: Security) {
    let indexer = indexer(security, &[]).await;
    for rest in [&[7; 16][..], &[7; 3], b"OFF!"] {
        for _ in 0..100 {
            let mut stream = TcpStream::connect(indexer.local_addr()).await.unwrap();
            let _ = stream.write_all(&[&b"BACK"[..], rest].concat()).await; // it may close before all is written
        }
    }
    let peer = holder(1, &indexer, security).await;
    assert_eq!(hits(&peer.query("a", 0).await), [(1, nodes([1]))]);
}
