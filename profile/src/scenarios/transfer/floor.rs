//! What no transfer of a file can be faster than: the same bytes over a plain socket into a file,
//! unverified, and from file to file. Blocking threads, no runtime.

use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};

use rustix::fs::sendfile;

use crate::scenarios::prelude::*;

const BLOCK_BYTES: usize = 1 << 20;
/// Bytes that the system is told to send at once.
const SENT_AT_ONCE: usize = 1 << 30;

/// Seconds for one file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floors {
    /// Sent by the system from the file to a socket, received by another thread in blocks and written.
    pub tcp_s: f64,
    pub copy_s: f64,
    pub read_write_s: f64,
}

/// Measures all of them for the file `source`, with targets in `folder` that are gone afterwards.
pub fn measure(source: &Path, folder: &Path) -> Result<Floors> {
    let bytes = fs::metadata(source)?.len();
    let timed = |work: fn(&Path, &Path) -> io::Result<()>| -> Result<f64> {
        let target = folder.join("floor");
        let began = Instant::now();
        work(source, &target).context("cannot measure a floor")?;
        let took_s = began.elapsed().as_secs_f64();
        ensure!(fs::metadata(&target)?.len() == bytes, "not all bytes of a floor arrived");
        fs::remove_file(target)?;
        Ok(took_s)
    };
    Ok(Floors { tcp_s: timed(over_tcp)?, copy_s: timed(copied)?, read_write_s: timed(read_and_written)? })
}

/// Seconds to copy the file `source` so many `times`, into as many files in `folder` that are gone afterwards.
pub fn copies(source: &Path, folder: &Path, times: usize) -> Result<f64> {
    let targets: Vec<PathBuf> = (0..times).map(|n| folder.join(format!("floor-{n}"))).collect();
    let began = Instant::now();
    let copied = targets.iter().try_for_each(|target| copied(source, target));
    let took_s = began.elapsed().as_secs_f64();
    targets.iter().for_each(|target| drop(fs::remove_file(target)));
    copied.context("cannot measure a floor")?;
    Ok(took_s)
}

/// Sends a file over a socket into another file.
pub fn over_tcp(source: &Path, target: &Path) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let addr = listener.local_addr()?;
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let socket = TcpStream::connect(addr)?;
            let file = File::open(source)?;
            // The system sends it from where it is; nothing is copied here.
            while sendfile(&socket, &file, None, SENT_AT_ONCE)? > 0 {}
            socket.shutdown(Shutdown::Write)
        });
        let (socket, _) = listener.accept()?;
        in_blocks(socket, target)?;
        sending.join().map_err(|_| io::Error::other("the sending thread panicked"))?
    })
}

/// Lets the system copy a file.
pub fn copied(source: &Path, target: &Path) -> io::Result<()> {
    io::copy(&mut File::open(source)?, &mut File::create(target)?).map(drop)
}

pub fn read_and_written(source: &Path, target: &Path) -> io::Result<()> {
    in_blocks(File::open(source)?, target)
}

fn in_blocks(mut source: impl Read, target: &Path) -> io::Result<()> {
    let (mut file, mut block) = (File::create(target)?, vec![0; BLOCK_BYTES]);
    loop {
        match source.read(&mut block)? {
            0 => return Ok(()),
            read => file.write_all(&block[..read])?,
        }
    }
}
