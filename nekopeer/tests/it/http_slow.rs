//! Readers and writers over HTTP that are slow: others are served meanwhile.

use socket2::{Domain, Socket, Type};
use tokio::time::timeout;

use crate::common::{http::door, *};

const SLOW: usize = 64;
const SOON: Duration = Duration::from_secs(30);

/// A reader that asks for `path`, waits until the answer begins, and takes no more of it.
fn slow(addr: SocketAddr, path: &str) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&addr.into()).unwrap();
    socket.send(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").as_bytes()).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    let mut first = [std::mem::MaybeUninit::new(0); 12];
    assert_eq!(socket.peek(&mut first).unwrap(), first.len());
    socket
}

/// Goal: readers that take nothing do not keep all places. Method: as many as there are places; another one asks.
#[testkit::test(multi_thread)]
async fn readers_that_take_nothing_make_room_for_others() {
    let (_indexer, [(from, origin), (_to, reader)]) = network().await;
    let (_door, http) = door(&reader.peer);
    let (small, large) = (bytes(1, 100), bytes(2, 4 * MIB));
    origin.publish(&from.write("small", &small)).await;
    origin.publish(&from.write("large", &large)).await;
    let addr = http.addr;
    let readers = blocking(move || (0..SLOW).map(|_| slow(addr, "/f/large")).collect::<Vec<_>>()).await;
    let served = eventually(async || Some(http.get("/f/small")).filter(|answer| answer.status == 200));
    let answer = timeout(SOON, served).await.expect("a place before the slow ones are cut");
    assert!(answer.body == small);
    drop(readers);
}
