//! What a running indexer does when it is told to read its configuration again or to end, and what systemd hears.

use std::os::unix::net::UnixDatagram;

use crate::{
    common::*,
    program::{Running, command},
};

#[testkit::test]
async fn neighbors_are_read_again_on_a_hangup() {
    let (_folder, path) = testkit::temp_path("indexer.toml");
    let configure = |neighbors: &str| fs::write(&path, format!("neighbors = [{neighbors}]")).unwrap();
    configure("");
    let other = Running::begin(&[]);
    let indexer = Running::begin(&["--config", path.to_str().unwrap()]);
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
    indexer.signal("HUP");
    finds(1, 1).await;
    fs::write(&path, "neighbors = 5").unwrap(); // changes nothing
    indexer.signal("HUP");
    finds(1, 1).await;
    configure("");
    indexer.signal("HUP");
    finds(0, 0).await;
}

#[testkit::test]
async fn systemd_is_told_of_readiness_reload_and_end() {
    let (_folder, path) = testkit::temp_path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut program = command(&["--listen", "127.0.0.1:0"]);
    program.env("NOTIFY_SOCKET", &path);
    let running = Running::of(program);
    let next = || {
        let mut text = [0; 256];
        let len = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..len]).into_owned()
    };
    assert_eq!(next().trim(), "READY=1");
    running.signal("HUP");
    assert!(next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(next().trim(), "READY=1");
    assert_eq!(running.ends_on("TERM").await, Some(0));
    assert_eq!(next().trim(), "STOPPING=1");
}
