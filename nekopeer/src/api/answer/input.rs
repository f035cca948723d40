//! The input of a command: bytes that its caller sends while it runs.

use std::{
    io::{self, Read, Write},
    pin::pin,
};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;

/// Bytes that travel together at most, of the input or of a file.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;
/// Pieces of input that wait to be read; the caller is slowed down beyond.
pub(crate) const INPUT_WAITING_MAX: usize = 4;

#[derive(Debug)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// The input is complete. If the sender goes away without it, the input was cut off.
    End,
    Failed(String),
}

pub(crate) type Input = mpsc::Receiver<Piece>;

pub(crate) fn no_input() -> Input {
    mpsc::channel(1).1
}

/// Sends what is written to it in pieces, each made of its bytes. It blocks.
pub(crate) struct PieceWriter<T>(pub(crate) mpsc::Sender<T>, pub(crate) fn(Vec<u8>) -> T);

impl<T> Write for PieceWriter<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(PIECE_BYTES);
        let sent = self.0.blocking_send(self.1(bytes[..len].to_vec()));
        sent.map(|()| len).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Passes what comes on to a command, as fast as that takes it, and reads what it does not take too. What breaks off is no
/// complete input.
pub(crate) async fn feed<E>(
    from: impl Stream<Item = Result<Bytes, E>>,
    pieces: &mpsc::Sender<Piece>,
) -> Result<(), E> {
    let mut from = pin!(from);
    while let Some(bytes) = from.next().await {
        let mut bytes = bytes?;
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
            let _ = pieces.send(Piece::Bytes(piece.into())).await;
        }
    }
    let _ = pieces.send(Piece::End).await; // the answer says why it is not taken
    Ok(())
}

/// Reads the input as a file. Blocking.
pub(in crate::api) struct InputReader {
    input: Input,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
}

impl InputReader {
    pub(in crate::api) const fn new(input: Input) -> Self {
        Self { input, piece: Vec::new(), at: 0, ended: false }
    }
}

impl Read for InputReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() && !self.ended {
            match self.input.blocking_recv() {
                Some(Piece::Bytes(bytes)) => (self.piece, self.at) = (bytes, 0),
                Some(Piece::End) => self.ended = true,
                Some(Piece::Failed(why)) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
                None => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the input was cut off")),
            }
        }
        let len = buffer.len().min(self.piece.len() - self.at);
        buffer[..len].copy_from_slice(&self.piece[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: Vec<Piece>) -> io::Result<Vec<u8>> {
        let (sender, input) = mpsc::channel(8);
        pieces.into_iter().for_each(|piece| sender.try_send(piece).unwrap());
        drop(sender);
        let mut all = Vec::new();
        InputReader::new(input).read_to_end(&mut all).map(|_| all)
    }

    #[test]
    fn input_counts_only_if_its_end_was_said() {
        let bytes = |text: &str| Piece::Bytes(text.as_bytes().to_vec());
        assert_eq!(read(vec![bytes("ab"), bytes(""), bytes("c"), Piece::End]).unwrap(), b"abc");
        assert_eq!(read(vec![bytes("ab")]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(read(vec![Piece::Failed("gone".into())]).unwrap_err().to_string().contains("gone"));
    }
}
