//! What a running indexer does when it is told to read its configuration again or to end, and what systemd hears.

use std::{fs, os::unix::net::UnixDatagram};

use nekoproto::transport::Security;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    common::{Peer, eventually, record},
    program::{Running, command, ends},
};

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal).unwrap();
}

#[testkit::test]
async fn neighbors_are_read_again_on_a_hangup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("indexer.toml");
    let configure = |neighbors: &str| fs::write(&path, format!("neighbors = [{neighbors}]")).unwrap();
    configure("");
    let other = Running::begin(&[]).await;
    let indexer = Running::begin(&["--config", path.to_str().unwrap()]).await;
    let there = Peer::join(1, other.addr, Security::Tls).await;
    there.register([record(1, "a", 1)]).await;
    let here = Peer::join(2, indexer.addr, Security::Tls).await;
    let finds = async |messages: u32, hits: usize| {
        eventually(async || {
            let reply = here.query("a", 1).await;
            (reply.complete && reply.messages == messages && reply.hits.len() == hits).then_some(())
        })
        .await;
    };
    finds(0, 0).await;
    configure(&format!("'{}'", other.addr));
    signal(indexer.child.id().unwrap(), Signal::HUP);
    finds(1, 1).await;
    fs::write(&path, "neighbors = 5").unwrap(); // changes nothing
    signal(indexer.child.id().unwrap(), Signal::HUP);
    finds(1, 1).await;
    configure("");
    signal(indexer.child.id().unwrap(), Signal::HUP);
    finds(0, 0).await;
}

#[testkit::test]
async fn systemd_is_told_of_readiness_reload_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut child = command(&["--listen", "127.0.0.1:0"]).env("NOTIFY_SOCKET", &path).spawn().unwrap();
    let process = child.id().unwrap();
    let next = || {
        let mut text = [0; 256];
        let len = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..len]).into_owned()
    };
    assert_eq!(next().trim(), "READY=1");
    signal(process, Signal::HUP);
    assert!(next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(next().trim(), "READY=1");
    signal(process, Signal::TERM);
    assert_eq!(next().trim(), "STOPPING=1");
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
}

#[testkit::test]
async fn id_needs_a_folder_that_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let id = async || command(&["--data-dir", dir, "id"]).output().await.unwrap().stdout;
    let first = id().await;
    assert_eq!((first.len(), &first), (65, &id().await));
    let (code, stderr) = ends(&["id"]).await;
    assert!(code == Some(3) && stderr.contains("--data-dir"), "{stderr}");
    let (code, stderr) = ends(&["--network", ""]).await;
    assert!(code == Some(2) && stderr.contains("a network needs a name"), "{stderr}");
}
