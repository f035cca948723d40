//! What is said at the door: lines of JSON, within limits; the bytes of a file follow the line that counts them.

use std::io;

use axum::body::Body;
use bytes::Bytes;
use futures::TryStreamExt;
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use tokio_util::io::StreamReader;

use crate::api::Reply;

pub(super) fn reader(body: Body) -> impl AsyncBufRead + Send + Unpin {
    StreamReader::new(Box::pin(body.into_data_stream().map_err(io::Error::other)))
}

pub(super) fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default(); // plain fields: serialising them cannot fail
    line.push(b'\n');
    line
}

pub(super) fn encoded(reply: Reply) -> Bytes {
    let mut text = line(&reply);
    if let Reply::Bytes(bytes) = &reply {
        text.extend_from_slice(bytes);
    }
    text.into()
}

/// The next line as a value; `None` at the end. One of more than `most` bytes is an error.
///
/// # Cancel safety
/// What has come of the line is lost.
pub(super) async fn next<T: DeserializeOwned>(
    from: &mut (impl AsyncBufRead + Unpin),
    most: usize,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let read = from.take(most as u64).read_until(b'\n', &mut line).await?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => serde_json::from_slice(&line).map(Some).map_err(Into::into),
        Some(_) if read == most => {
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("a line is longer than {most} bytes")))
        }
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

pub(super) async fn next_reply(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Reply>> {
    let mut reply = next(from, REPLY_BYTES_MAX).await?;
    if let Some(Reply::Bytes(bytes)) = &mut reply {
        from.read_exact(bytes).await?;
    }
    Ok(reply)
}

/// Longest line of an answer, in bytes: the hits of one name at hundreds of indexers.
const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Command, Row};

    #[test]
    fn lines_of_a_caller() {
        testkit::fuzz("lines_of_a_caller", |bytes: &[u8]| {
            let Ok(command) = serde_json::from_slice::<Command>(bytes) else { return };
            let again = line(&command);
            assert_eq!(serde_json::from_slice::<Command>(&again).unwrap(), command);
        });
    }

    #[tokio::test]
    async fn replies_arrive_as_they_were_sent_and_long_lines_do_not() {
        let replies = [
            Reply::Rows(vec![Row::of(&serde_json::json!({ "a": "\n" })), Row::of(&1)]),
            Reply::Bytes(b"\n{}\n".to_vec()),
            Reply::Bytes(Vec::new()),
            Reply::Note("b".to_owned()),
        ];
        let sent: Vec<u8> = replies.iter().cloned().flat_map(encoded).collect();
        let mut from = &sent[..];
        for reply in replies {
            assert_eq!(next_reply(&mut from).await.unwrap(), Some(reply));
        }
        assert_eq!(next_reply(&mut from).await.unwrap(), None);
        assert_eq!(next::<u32>(&mut &b"12345\n"[..], 6).await.unwrap(), Some(12345));
        for (line, kind) in [("12345\n", io::ErrorKind::InvalidData), ("12", io::ErrorKind::UnexpectedEof)] {
            assert_eq!(next::<u32>(&mut line.as_bytes(), 5).await.unwrap_err().kind(), kind);
        }
    }
}
