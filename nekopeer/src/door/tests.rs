//! The door's limits: callers that are many, slow, silent or gone.

use std::{sync::Arc, time::Duration};

use nekoproto::FileName;
use tempfile::TempDir;
use tokio::{net::UnixStream, time::timeout};

use super::{
    Caller, Door, DoorError, Ending, Facts, Request,
    frames::{REPLY_BYTES_MAX, REQUEST_BYTES_MAX, split},
    knock,
    place::Place,
    server::DOOR_VERSION,
};
use crate::{
    commands::{
        Answer, COMMANDS_MAX, Command, Failure, FailureKind, Host, Outcome, Reply, Row, no_input, rows_of,
    },
    config::Config,
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

    async fn knock(&self) -> Caller {
        timeout(SOON, knock(&self.folder.path().join(".neko"))).await.unwrap().unwrap()
    }

    /// The end of the answer to `command`, and its rows.
    async fn ask(&self, command: Command) -> (Result<Outcome, String>, Vec<Row>) {
        let mut caller = self.knock().await;
        let (answer, replies) = Answer::channel();
        let asking = async move { caller.carry_out(command, no_input(), &answer).await };
        let (end, rows) = timeout(SOON, async { tokio::join!(asking, rows_of(replies)) }).await.unwrap();
        (end.map(|done| done.outcome).map_err(|failure| failure.message), rows)
    }

    async fn close(self, ending: Ending) {
        timeout(SOON, self.door.close(ending)).await.unwrap();
        let host = Arc::try_unwrap(self.host).unwrap();
        host.peer.shutdown().await;
    }
}

const LIST: Command = Command::List { first: None, after: None };

/// Sends a command and takes nothing of the answer.
async fn say(caller: &mut Caller, command: Command) {
    caller.sender.send(&Request::Command(Box::new(command))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_bounded_and_stop_is_always_heard() {
    let fixture = Fixture::open().await;
    let mut callers = Vec::new();
    for _ in 0..COMMANDS_MAX {
        let mut caller = fixture.knock().await;
        say(&mut caller, Command::Events).await;
        callers.push(caller);
    }
    // Those were only sent; the last of them may still have to begin.
    while fixture.door.free_commands() > 0 {
        tokio::task::yield_now().await;
    }
    let (refused, _) = fixture.ask(LIST).await;
    assert!(refused.unwrap_err().contains(&format!("{COMMANDS_MAX} commands")));
    assert_eq!(fixture.ask(Command::Stop).await.0, Ok(Outcome::All));
    assert!(fixture.host.stop.is_cancelled());
    drop(callers.pop());
    while fixture.ask(LIST).await.0.is_err() {}
    drop(callers);
    fixture.close(Ending::Stopped).await;
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

    let mut slow = fixture.knock().await;
    say(&mut slow, LIST).await;
    for _ in 0..3 {
        let (end, rows) = fixture.ask(LIST).await;
        assert_eq!((end, rows.len()), (Ok(Outcome::All), FILES));
    }
    // One that cannot be told: its end of the socket takes nothing, and is not closed.
    let (deaf, let_in) = UnixStream::pair().unwrap();
    let deaf = deaf.into_std().unwrap();
    let (mut receiver, mut sender) = split(
        UnixStream::from_std(deaf.try_clone().unwrap()).unwrap(),
        REPLY_BYTES_MAX,
        REQUEST_BYTES_MAX,
        None,
    );
    let asking = async {
        receiver.next::<u32>().await.unwrap();
        receiver.next::<Facts>().await.unwrap();
        deaf.shutdown(std::net::Shutdown::Read).unwrap();
        sender.send(&Request::Command(Box::new(LIST))).await.unwrap();
    };
    timeout(SOON, async { tokio::join!(fixture.door.let_in(let_in, false), asking) }).await.unwrap();
    let mut silent = fixture.knock().await;
    // Neither who is slow nor who says nothing keeps the door open.
    fixture.close(Ending::Left).await;
    assert!(silent.receiver.next::<Reply>().await.unwrap().is_some(), "it was told");
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_door_is_nobody_and_a_leftover_socket_is_replaced() {
    let fixture = Fixture::open().await;
    let data_dir = fixture.folder.path().join(".neko");
    let place = Place::find(&data_dir).unwrap();
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(knock(folder.path()).await, Err(DoorError::NobodyThere(_))));
    let Fixture { folder, host, door } = fixture;
    door.close(Ending::Done).await;
    assert!(matches!(knock(&data_dir).await, Err(DoorError::NobodyThere(_))));
    drop(place.listen().unwrap()); // as a killed process leaves it
    assert!(matches!(knock(&data_dir).await, Err(DoorError::NobodyThere(_))));
    let facts = Facts::of(&host.peer, &Config::new(folder.path()), None);
    let door = Door::open(&data_dir, &host, facts).unwrap();
    let fixture = Fixture { folder, host, door };
    assert_eq!(fixture.ask(LIST).await.0, Ok(Outcome::All));
    fixture.close(Ending::Done).await;
}

#[tokio::test]
async fn each_name_that_is_not_offered_is_told() {
    let fixture = Fixture::open().await;
    let names = ["a", "b"].map(|name| FileName::new(name).unwrap()).to_vec();
    let mut caller = fixture.knock().await;
    let (answer, _replies) = Answer::channel();
    let done = caller.carry_out(Command::Withdraw { names }, no_input(), &answer).await.unwrap();
    let failed = done.fields.parse::<serde_json::Value>().unwrap()["failed"].clone();
    assert_eq!((done.outcome, failed.as_array().unwrap().len()), (Outcome::NotFound, 2), "{failed}");
    fixture.close(Ending::Done).await;
}

#[tokio::test]
async fn place_in_a_data_folder_that_was_moved_stays_its_own() {
    let folder = TempDir::new().unwrap();
    let [ours, moved] = ["ours", "moved"].map(|name| folder.path().join(name));
    std::fs::create_dir(&ours).unwrap();
    let place = Place::make(&ours).unwrap();
    std::fs::rename(&ours, &moved).unwrap();
    std::fs::create_dir_all(ours.join("run")).unwrap();
    std::fs::write(ours.join("run/peer.sock"), "another's").unwrap();
    place.listen().unwrap();
    assert!(moved.join("run/peer.sock").exists());
    assert_eq!(std::fs::read(ours.join("run/peer.sock")).unwrap(), b"another's");
}

/// In a time that passes at once: neither who comes as the door closes nor who is silent for too long.
#[tokio::test(start_paused = true)]
async fn caller_that_is_sent_away_is_greeted_and_may_ask_anew() {
    let fixture = Fixture::open().await;
    for is_last in [[false; 4], [true; 4], [true; 4], [true; 4]].concat() {
        let (caller, let_in) = UnixStream::pair().unwrap();
        fixture.door.let_in(let_in, is_last).await;
        let (mut receiver, _sender) = split(caller, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, None);
        assert_eq!(receiver.next::<u32>().await.unwrap(), Some(DOOR_VERSION));
        assert!(receiver.next::<Facts>().await.unwrap().is_some());
        let told = receiver.next::<Reply>().await.unwrap();
        assert!(matches!(told, Some(Reply::Finished(Err(Failure { kind: FailureKind::Moved, .. })))));
    }
    fixture.close(Ending::Left).await;
}
