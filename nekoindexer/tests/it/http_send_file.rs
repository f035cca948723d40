//! Parts of files in answers: the right bytes between others, and no complete answer if the file is too short.

use std::{
    convert::Infallible,
    fs::File,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    http::header::CONTENT_LENGTH,
    response::IntoResponse,
    routing::get,
};
use futures::{StreamExt, stream};
use nekoindexer::http::{FileSender, Guard, HttpConfig, HttpDoor, guarded, send_file::FRAME_BYTES_MAX};

/// Longer than what the system takes at once, and than one frame.
const FILE_BYTES: u64 = 11 * 1024 * 1024 + 3;

/// A door whose `/mixed` answers with text, a part of `file`, text, and another part.
fn open(file: File) -> HttpDoor {
    let file = Arc::new(file);
    let mixed = async move |Extension(files): Extension<FileSender>| {
        // Frames are made when it is their turn: a HEAD makes none.
        let pieces = stream::iter(0..5).map(move |at| {
            Ok::<_, Infallible>(match at {
                1 => files.frame(&file, 5..FILE_BYTES),
                3 => files.frame(&file, 0..7),
                _ => Bytes::from_static(&b"<_|_>"[at..=at]),
            })
        });
        let len = 1 + FRAME_BYTES_MAX + 1 + 7 + 1;
        ([(CONTENT_LENGTH, len.to_string())], Body::from_stream(pieces)).into_response()
    };
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = HttpConfig { listen, threads: NonZeroUsize::MIN };
    let router = Router::new().route("/mixed", get(mixed));
    HttpDoor::open(config, guarded(router, Guard::default())).unwrap()
}

/// Sends `requests` at once and reads, slowly at first, until the other end closes.
fn exchange(addr: SocketAddr, requests: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(requests.as_bytes()).unwrap();
    let mut answer = vec![0; 100];
    stream.read_exact(&mut answer).unwrap();
    std::thread::sleep(Duration::from_millis(50)); // the door waits for the reader; nothing depends on how long
    let _ = stream.read_to_end(&mut answer); // a connection that is cut may be reset
    answer
}

fn bytes() -> Vec<u8> {
    (0..FILE_BYTES).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

#[test]
fn parts_of_files_stand_where_the_body_has_them_also_in_pipelined_answers() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes()).unwrap();
    let door = open(file);
    let addr = door.local_addr();
    let one = format!("GET /mixed HTTP/1.1\r\nHost: {addr}\r\n");
    let head = format!("HEAD /mixed HTTP/1.1\r\nHost: {addr}\r\n\r\n");
    let answer = exchange(addr, &format!("{one}\r\n{head}{one}Connection: close\r\n\r\n"));
    let content = bytes();
    let body = [b"<", &content[5..5 + FRAME_BYTES_MAX], b"|", &content[..7], b">"].concat();
    let begin = |answer: &[u8]| answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let first = begin(&answer);
    assert!(answer[first..].starts_with(&body), "the first answer");
    let rest = &answer[first + body.len()..];
    let rest = &rest[begin(rest)..]; // the answer to HEAD has no body
    assert!(rest[begin(rest)..] == body, "the last one");
}

#[test]
fn an_answer_whose_file_is_too_short_is_cut() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes()[..1024 * 1024]).unwrap();
    let door = open(file);
    let addr = door.local_addr();
    let answer = exchange(addr, &format!("GET /mixed HTTP/1.1\r\nHost: {addr}\r\n\r\n"));
    assert!(answer.len() < 2 * 1024 * 1024 && !answer.ends_with(b">"), "{} bytes", answer.len());
}
