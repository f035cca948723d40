//! The door's limits: callers that are many, slow, silent or gone.

use std::{path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::mpsc,
    time::timeout,
};

use super::{Caller, Door, Facts, call::Call, knock, place::SocketPlace};
use crate::{
    api::{
        Answer, COMMANDS_MAX, Command, Ending, Events, FailureKind, Host, Ls, Outcome, Piece, Row, Stop,
        no_input,
    },
    config::Config,
    failure::{Failure, Reason},
    peer::Peer,
    publish::PublishOptions,
};

const SOON: Duration = Duration::from_secs(30);

struct Fixture {
    folder: TempDir,
    host: Arc<Host>,
    door: Door,
}

impl Fixture {
    async fn open() -> Self {
        let folder = TempDir::new().unwrap();
        let config = Config::new(folder.path());
        let peer = Peer::spawn(config.clone()).await.unwrap();
        let facts = Facts::of(&peer, &config, None);
        let host = Host::new(peer);
        let door = Door::open(&config.data_dir(), &host, facts).unwrap();
        Self { folder, host, door }
    }

    fn place(&self) -> SocketPlace {
        SocketPlace::find(&self.folder.path().join(".neko")).unwrap()
    }

    /// Waits until a command runs.
    async fn is_at_work(&self) {
        while self.host.commands.available_permits() == COMMANDS_MAX {
            tokio::task::yield_now().await;
        }
    }

    async fn knock(&self) -> Caller {
        timeout(SOON, knock(&self.folder.path().join(".neko"))).await.unwrap().unwrap()
    }

    async fn ask(&self, command: impl Into<Command>) -> (Result<Outcome, String>, Vec<Row>) {
        let mut caller = self.knock().await;
        let (end, rows) = timeout(SOON, caller.rows(command.into())).await.unwrap();
        (end.map(|done| done.outcome).map_err(|failure| failure.message), rows)
    }

    async fn say(&self, command: impl Into<Command>) -> UnixStream {
        let mut stream = self.place().connect().await.unwrap();
        let body = serde_json::to_string(&Call::of(&command.into())).unwrap();
        let head = format!("POST /run HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        stream
    }

    async fn close(self, ending: Ending) {
        timeout(SOON, self.door.close(ending)).await.unwrap();
        timeout(SOON, self.host.ended()).await.unwrap();
        let host = Arc::try_unwrap(self.host).unwrap();
        host.peer.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_bounded_and_stop_is_always_heard() {
    let fixture = Fixture::open().await;
    let mut callers = Vec::new();
    for _ in 0..COMMANDS_MAX {
        callers.push(fixture.say(Events {}).await);
    }
    // Those were only sent; the last of them may still have to begin.
    while fixture.host.commands.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    let (refused, _) = fixture.ask(Ls::default()).await;
    assert!(refused.unwrap_err().contains(&format!("{COMMANDS_MAX} commands")));
    assert_eq!(fixture.ask(Stop {}).await.0, Ok(Outcome::All));
    assert!(fixture.host.stop.is_cancelled());
    drop(callers.pop());
    while fixture.ask(Ls::default()).await.0.is_err() {}
    drop(callers);
    fixture.close(Ending::Stopped).await;
}

/// Whatever its caller still sends when the command has failed.
#[tokio::test(flavor = "multi_thread")]
async fn answer_of_a_command_that_takes_no_more_input_arrives_whole() {
    let fixture = Fixture::open().await;
    std::fs::write(fixture.folder.path().join("x"), "not what was shared").unwrap();
    let upload = r#"{"upload": {"name": "x"}}"#;
    for _ in 0..50 {
        let command: Command = serde_json::from_str(upload).unwrap();
        let (pieces, input) = mpsc::channel(1);
        let sending = async move { while pieces.send(Piece::Bytes(vec![0; 1 << 20])).await.is_ok() {} };
        let mut caller = fixture.knock().await;
        let (answer, _replies) = Answer::channel();
        let asking = async move { caller.carry_out(command, input, &answer).await };
        let (end, ()) = timeout(SOON, async { tokio::join!(asking, sending) }).await.unwrap();
        let why = end.unwrap_err().message;
        assert!(why.contains("not what was shared"), "{why}");
    }
    fixture.close(Ending::Stopped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_send_their_commands_slowly_give_way() {
    let fixture = Fixture::open().await;
    let place = fixture.place();
    let mut slow = Vec::new();
    for _ in 0..2 * COMMANDS_MAX + 10 {
        let mut stream = place.connect().await.unwrap();
        let head = "POST /run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let soon = timeout(Duration::from_secs(3), fixture.ask(Ls::default()));
    assert_eq!(soon.await.unwrap().0, Ok(Outcome::All));
    drop(slow);
    fixture.close(Ending::Left).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_that_takes_nothing_of_a_long_list_holds_up_nobody() {
    const FILES: usize = 4000;
    let fixture = Fixture::open().await;
    let many = fixture.folder.path().join("many");
    std::fs::create_dir(&many).unwrap();
    // Long names, so that the list is longer than the buffers of a socket.
    let name = |n: usize| format!("{}-{n}", "x".repeat(200));
    (0..FILES).for_each(|n| std::fs::write(many.join(name(n)), "").unwrap());
    let progress = Arc::default();
    let published =
        fixture.host.peer.publish(vec![many], PublishOptions::default(), &progress).await.unwrap();
    assert_eq!(published.published.len(), FILES);

    let slow = fixture.say(Ls::default()).await;
    for _ in 0..3 {
        let (end, rows) = fixture.ask(Ls::default()).await;
        assert_eq!((end, rows.len()), (Ok(Outcome::All), FILES));
    }
    let silent = fixture.knock().await;
    // Neither who is slow nor who says nothing keeps the door open.
    fixture.close(Ending::Left).await;
    drop((slow, silent));
}

#[tokio::test(flavor = "multi_thread")]
async fn command_that_the_end_of_the_peer_meets_is_to_be_repeated_unless_it_was_stopped() {
    for (ending, kind) in [(Ending::Left, FailureKind::Moved), (Ending::Stopped, FailureKind::Failed)] {
        let fixture = Fixture::open().await;
        let (mut caller, mut idle) = (fixture.knock().await, fixture.knock().await);
        let (answer, _replies) = Answer::channel();
        let asking = caller.carry_out(Events {}.into(), no_input(), &answer);
        let closing = async {
            fixture.is_at_work().await;
            fixture.close(ending).await;
        };
        let (told, ()) = timeout(SOON, async { tokio::join!(asking, closing) }).await.unwrap();
        assert_eq!(told.unwrap_err().kind, kind);
        let late = idle.carry_out(Ls::default().into(), no_input(), &answer).await;
        assert_eq!(late.unwrap_err().kind, FailureKind::Moved);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_command_has_ended_when_its_caller_knows() {
    let fixture = Fixture::open().await;
    let mut caller = fixture.knock().await;
    let (answer, mut replies) = Answer::channel();
    let wait = r#"{"wait":{"names":["a"],"version":null,"all":false,"timeout":null}}"#;
    let wait: Command = serde_json::from_str(wait).unwrap();
    tokio::select! {
        _ = caller.carry_out(wait, no_input(), &answer) => panic!("it waits for ever"),
        () = fixture.is_at_work() => {}
    }
    caller.interrupt().await;
    timeout(SOON, fixture.host.idle()).await.unwrap();
    assert!(replies.try_recv().is_err());
    fixture.close(Ending::Left).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_door_is_nobody_and_a_leftover_socket_is_replaced() {
    let fixture = Fixture::open().await;
    let (data_dir, place) = (fixture.folder.path().join(".neko"), fixture.place());
    let folder = tempfile::tempdir().unwrap();
    let is_nobody =
        async |data_dir: &Path| matches!(knock(data_dir).await, Err(Failure { reason: Reason::NoPeer, .. }));
    assert!(is_nobody(folder.path()).await);
    let Fixture { folder, host, door } = fixture;
    door.close(Ending::Done).await;
    host.ended().await;
    assert!(is_nobody(&data_dir).await);
    drop(place.listen().unwrap()); // as a killed process leaves it
    assert!(is_nobody(&data_dir).await);
    let host = Host::new(Arc::try_unwrap(host).unwrap().peer);
    let facts = Facts::of(&host.peer, &Config::new(folder.path()), None);
    let door = Door::open(&data_dir, &host, facts).unwrap();
    let fixture = Fixture { folder, host, door };
    assert_eq!(fixture.ask(Ls::default()).await.0, Ok(Outcome::All));
    fixture.close(Ending::Done).await;
}

#[tokio::test]
async fn place_in_a_data_folder_that_was_moved_stays_its_own() {
    let folder = TempDir::new().unwrap();
    let [ours, moved] = ["ours", "moved"].map(|name| folder.path().join(name));
    std::fs::create_dir(&ours).unwrap();
    let place = SocketPlace::make(&ours).unwrap();
    std::fs::rename(&ours, &moved).unwrap();
    std::fs::create_dir_all(ours.join("run")).unwrap();
    std::fs::write(ours.join("run/peer.sock"), "another's").unwrap();
    place.listen().unwrap();
    assert!(moved.join("run/peer.sock").exists());
    assert_eq!(std::fs::read(ours.join("run/peer.sock")).unwrap(), b"another's");
}

/// Neither another version's nor a foreign answer is taken for a peer's.
#[tokio::test]
async fn peer_of_another_version_is_told() {
    for said in ["", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "\0\0\0\x01\x0d"] {
        let folder = TempDir::new().unwrap();
        let listener = SocketPlace::make(folder.path()).unwrap().listen().unwrap();
        let answering = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
            stream.write_all(said.as_bytes()).await.unwrap();
        };
        let (knocked, ()) =
            timeout(SOON, async { tokio::join!(knock(folder.path()), answering) }).await.unwrap();
        let failure = knocked.err().unwrap();
        match failure.reason == Reason::NoPeer {
            true => assert!(said.is_empty(), "it ended"),
            false => assert!(!said.is_empty() && failure.message.contains("is another version"), "{failure}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_sent_away() {
    let fixture = Fixture::open().await;
    let place = fixture.place();
    for said in ["", "POST /run HTT"] {
        let mut stream = place.connect().await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        timeout(SOON, stream.read_to_end(&mut Vec::new())).await.unwrap().unwrap();
    }
    fixture.close(Ending::Left).await;
}
