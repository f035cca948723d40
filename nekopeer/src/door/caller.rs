//! The caller's side: knocks, hands over a command, and passes its answer on.

use std::{convert::Infallible, io, path::Path, time::Duration};

use tokio::{net::UnixStream, time::timeout};

use super::{
    DoorError, Facts, Request,
    frames::{REPLY_BYTES_MAX, REQUEST_BYTES_MAX, Receiver, Sender, split},
    place::Place,
    server::DOOR_VERSION,
};
use crate::commands::{Answer, Command, Done, Failure, FailureKind, Input, Piece, Reply};

/// Interval between attempts to connect to a socket whose queue is full.
const TRY_EVERY: Duration = Duration::from_millis(50);
/// Time limit for the peer to confirm that an interrupted command has ended.
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(1);

/// A connection to a running peer, for one command.
pub(crate) struct Caller {
    /// What the peer is.
    pub(crate) facts: Facts,
    pub(super) receiver: Receiver,
    pub(super) sender: Sender,
    is_answered: bool,
}

/// Knocks at the door of a data folder. Waits while the peer does not answer.
///
/// # Cancel safety
/// Safe.
pub(crate) async fn knock(data_dir: &Path) -> Result<Caller, DoorError> {
    // An end here: the peer ended before it looked at this connection.
    let nobody = || DoorError::NobodyThere(data_dir.to_owned());
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => nobody(),
        _ => DoorError::Broken(data_dir.to_owned(), error),
    };
    let stream = connect(data_dir).await?;
    let (mut receiver, sender) = split(stream, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, None);
    let version: u32 = receiver.next().await.map_err(failed)?.ok_or_else(nobody)?;
    if version != DOOR_VERSION {
        return Err(DoorError::OtherVersion(data_dir.to_owned()));
    }
    let facts = receiver.next().await.map_err(failed)?.ok_or_else(nobody)?;
    Ok(Caller { facts, receiver, sender, is_answered: false })
}

async fn connect(data_dir: &Path) -> Result<UnixStream, DoorError> {
    use io::ErrorKind;
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::ConnectionRefused
        | ErrorKind::ConnectionReset // it has just closed its socket
        | ErrorKind::NotADirectory => DoorError::NobodyThere(data_dir.to_owned()),
        ErrorKind::PermissionDenied => DoorError::NotAllowed(data_dir.to_owned(), error),
        _ => DoorError::Broken(data_dir.to_owned(), error),
    };
    let place = Place::find(data_dir).map_err(failed)?;
    loop {
        match place.connect().await {
            Err(error) if error.kind() == ErrorKind::WouldBlock => tokio::time::sleep(TRY_EVERY).await,
            connected => return connected.map_err(failed),
        }
    }
}

impl Caller {
    /// Has the peer carry out `command`; all of the answer but its end goes to `answer`.
    ///
    /// # Cancel safety
    /// The command goes on until [`interrupt`](Self::interrupt) is called or this is dropped.
    pub(crate) async fn carry_out(
        &mut self,
        command: Command,
        mut input: Input,
        answer: &Answer,
    ) -> Result<Done, Failure> {
        let process = self.facts.process;
        let ended = || Failure {
            kind: FailureKind::Moved,
            ..Failure::new(format!("the running peer (process {process}) ended before the command did"))
        };
        let asked = self.sender.send(&Request::Command(Box::new(command))).await;
        if let Err(error) = asked {
            if error.kind() == io::ErrorKind::InvalidData {
                return Err(Failure::new(format!("the command is too long: {error}")));
            }
            return self.last_word().await.unwrap_or_else(|| Err(ended()));
        }
        let sending = async {
            while let Some(piece) = input.recv().await {
                let request = match piece {
                    Piece::Bytes(bytes) => Request::Input(bytes),
                    Piece::End => Request::InputEnd,
                    Piece::Failed(why) => Request::InputFailed(why),
                };
                if self.sender.send(&request).await.is_err() {
                    break; // the answer says why
                }
            }
            std::future::pending::<Infallible>().await
        };
        let receiving = async {
            loop {
                match self.receiver.next::<Reply>().await {
                    Ok(Some(Reply::Finished(result))) => return result,
                    Ok(Some(reply)) => {
                        self.is_answered |=
                            !matches!(reply, Reply::Progress(_) | Reply::Parts(_) | Reply::Note(_));
                        if answer.0.send(reply).await.is_err() {
                            return Err(Failure::new("nobody takes the answer"));
                        }
                    }
                    Ok(None) | Err(_) => return Err(ended()),
                }
            }
        };
        tokio::select! {
            result = receiving => result,
            never = sending => match never {},
        }
    }

    /// What the peer said before it closed the connection, if it is the end of an answer.
    async fn last_word(&mut self) -> Option<Result<Done, Failure>> {
        while let Ok(Some(reply)) = self.receiver.next::<Reply>().await {
            if let Reply::Finished(result) = reply {
                return Some(result);
            }
        }
        None
    }

    /// Whether a part of the answer has arrived.
    pub(crate) const fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Interrupts the command. Returns when the peer has ended it, or does not say so in time.
    pub(crate) async fn interrupt(mut self) {
        let ending = async {
            if self.sender.close().await.is_ok() {
                while let Ok(Some(_)) = self.receiver.next::<Reply>().await {}
            }
        };
        // A peer that does not answer now finds the connection closed later.
        let _ = timeout(INTERRUPTED_WITHIN, ending).await;
    }
}
