//! Frames written and read by hand: four bytes of length, then a value.

use crate::prelude::*;
use std::fmt::Debug;

use tokio::io::{AsyncRead, AsyncWrite};

pub fn prefixed(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

pub fn frame(value: &impl Serialize) -> Result<Vec<u8>, CodecError> {
    Ok(prefixed(&codec::encode(value)?))
}

pub async fn write(io: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    io.write_all(bytes).await.unwrap();
    io.flush().await.unwrap();
}

pub async fn read_body(io: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut body = vec![0; io.read_u32().await.unwrap() as usize];
    io.read_exact(&mut body).await.unwrap();
    body
}

pub async fn reads<T: Serialize + DeserializeOwned + Debug>(io: &mut (impl AsyncRead + Unpin), expected: &T) {
    let body = read_body(io).await;
    let is_same = body == codec::encode(expected).unwrap();
    assert!(is_same, "expected {expected:?}, came {:?}", codec::decode::<T>(&body));
}

pub async fn closes(io: &mut (impl AsyncRead + Unpin)) {
    assert_eq!(io.read(&mut [0; 64]).await.unwrap_or(0), 0, "bytes came instead of the end");
}

pub async fn discard(mut from: impl AsyncRead + Unpin) {
    let mut buffer = vec![0; 64 << 10];
    while from.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}
