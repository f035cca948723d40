//! The hosts: an indexer, an origin that shares files, readers; each a process of its own behind a wire, and what runs there
//! for comparison.

use std::net::{TcpListener, TcpStream};

use testkit::lan::{Wan, Wire};
use tokio::process::{Child, Command};

use super::Far;
use crate::scenarios::load::origin::nekopeer;
use crate::scenarios::prelude::*;

/// The numbers of the hosts; further readers come behind the first.
const INDEXER: usize = 0;
pub(super) const ORIGIN: usize = 1;
pub(super) const READER: usize = 2;
/// The indexer's wire is no bottleneck.
const INDEXER_MBIT: f64 = 1000.0;
/// What is shared: a small file, a large one, a folder of many, and one that is updated.
pub(super) const ONE_BYTES: u64 = 1000;
const MANY_BYTES: (u64, u64) = (1_000, 10_000);
const UPDATED: files::Bulk = files::Bulk { size: 256 << 10, sparse: false };
const CHANGE: files::Change = files::Change { percent: 1.0, places: 2, how: files::How::InPlace };
/// The names of the small files, a line each.
pub(super) const NAMES: &str = "names";
const PLAIN_PORT: u16 = 7711;
const RSYNC_PORT: u16 = 7712;
/// Time for a command, and for an update to come.
const ENDED_WITHIN: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(2);

pub(super) struct Stage {
    pub(super) on: Deployment,
    pub(super) wan: Wan,
    net: Net,
    pub(super) small: Vec<String>,
    running: Vec<Child>,
}

impl Stage {
    /// Makes the files and starts the hosts; returns when the reader finds what is shared last.
    pub(super) async fn start(far: &Far, on: &Deployment) -> Result<Self> {
        let wire = far.wire(far.rate);
        let indexer = Wire { mbit: INDEXER_MBIT, ..wire };
        let wires: Vec<Wire> =
            [indexer].into_iter().chain(vec![wire; far.readers.max(1) + READER - 1]).collect();
        let needs = "it needs root, the programs ip and nsenter, and /dev/net/tun";
        let wan = Wan::of(&wires).map_err(|why| anyhow!("no network of hosts ({needs}): {why}"))?;
        let (from, seed, size, count) = (on.folder.join("origin"), far.seed, far.size, far.files);
        let names = on.folder.join(NAMES);
        let made = apart(move || {
            fs::create_dir(&from)?;
            files::make(&from.join("one"), files::Bulk { size: ONE_BYTES, sparse: false }, seed)?;
            files::make(&from.join("big"), files::Bulk { size, sparse: false }, seed)?;
            files::make(&from.join("doc"), UPDATED, seed)?;
            let small = files::make_small(&from.join("many"), count, MANY_BYTES, seed)?;
            let small: Vec<String> = small.into_iter().map(|name| format!("many/{name}")).collect();
            fs::write(names, small.join("\n") + "\n")?;
            Ok(small)
        });
        let small = made.await?;
        let (kept, mut places) = Net::places(on, &Graph::line(1), 0)?;
        places[0].listen = wan.host(INDEXER).addr;
        places[0].host = Some(wan.host(INDEXER).namespace.clone());
        let net = Net::of(on, places).await?;
        drop(kept);
        let mut stage = Self { on: on.clone(), wan, net, small, running: Vec::new() };
        let origin = stage.peer(ORIGIN, "origin", &["share", "many", "one", "big", "doc"])?.spawn()?;
        stage.running.push(origin);
        stage.serve_plain()?;
        let last = stage.small.last().context("there are small files")?;
        until(LINKED_WITHIN, async || {
            let found = stage.get(&["query", last], &[]).await;
            Ok(found.err().map(|why| format!("the origin's files are not found: {why:#}")))
        })
        .await?;
        Ok(stage)
    }

    /// `nekopeer` on a host, with its files in this folder.
    fn peer(&self, host: usize, folder: &str, words: &[&str]) -> Result<Command> {
        let (at, indexer) = (self.wan.host(host), self.wan.host(INDEXER).addr);
        let (listen, dir) = (SocketAddr::new(at.addr.ip(), 0), self.on.folder.join(folder));
        let mut command = nekopeer(listen, &indexer.to_string(), &dir, self.on.security)?;
        command.arg("--quiet").args(words).current_dir(&self.on.folder);
        let mut command = Command::from(at.namespace.command(&command));
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    }

    /// How long a command of the reader takes, from an empty folder; the files that it gets are compared.
    pub(super) async fn get(&self, words: &[&str], names: &[String]) -> Result<f64> {
        let took_s = self.carry_out(READER, "reader", words).await?;
        self.compare("reader", names).await?;
        self.remove("reader").await?;
        Ok(took_s)
    }

    async fn carry_out(&self, host: usize, folder: &str, words: &[&str]) -> Result<f64> {
        fs::create_dir_all(self.on.folder.join(folder))?;
        let began = Instant::now();
        let ended = timeout(ENDED_WITHIN, self.peer(host, folder, words)?.output()).await;
        let (took, ended) =
            (began.elapsed(), ended.with_context(|| format!("{} does not end", words.join(" ")))??);
        let why = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "{}: {}", words.join(" "), why.trim());
        Ok(took.as_secs_f64())
    }

    async fn compare(&self, folder: &str, names: &[String]) -> Result<()> {
        let (from, to, names) = (self.on.folder.join("origin"), self.on.folder.join(folder), names.to_vec());
        let compare = move || {
            for name in names {
                let is_right = files::is_right(&to.join(&name), &files::hash(&from.join(&name))?)?;
                ensure!(is_right, "another {name} arrived");
            }
            Ok(())
        };
        apart(compare).await
    }

    async fn remove(&self, folder: &str) -> Result<()> {
        let folder = self.on.folder.join(folder);
        apart(move || Ok(fs::remove_dir_all(folder)?)).await
    }

    /// A reader that follows what is updated, once it has that.
    pub(super) async fn follow(&self) -> Result<Child> {
        fs::create_dir_all(self.on.folder.join("follower"))?;
        let follower = self.peer(READER, "follower", &["follow", "doc"])?.spawn()?;
        until(LINKED_WITHIN, async || {
            let come = self.compare("follower", &["doc".to_owned()]).await;
            Ok(come.err().map(|why| format!("the follower does not follow: {why:#}")))
        })
        .await?;
        Ok(follower)
    }

    /// How long a small change takes from the origin's `share` to the follower's place.
    pub(super) async fn update(&self, seed: u64) -> Result<f64> {
        let [at, there] = ["origin", "follower"].map(|folder| self.on.folder.join(folder).join("doc"));
        let changed = apart(move || {
            files::change(&at, CHANGE, seed)?;
            Ok(files::hash(&at)?)
        });
        let hash = changed.await?;
        let began = Instant::now();
        let shared = self.carry_out(ORIGIN, "origin", &["share", "doc"]);
        let come = async {
            let deadline = Instant::now() + ENDED_WITHIN;
            while !files::is_right(&there, &hash)? {
                ensure!(Instant::now() < deadline, "an update does not come");
                sleep(LOOK_EVERY).await;
            }
            Ok(began.elapsed().as_secs_f64())
        };
        let (shared, took_s) = tokio::join!(shared, come);
        shared?;
        took_s
    }

    /// So many readers get the large file at once: how long the last one takes.
    pub(super) async fn crowd(&self, readers: usize) -> Result<f64> {
        let folders: Vec<String> = (0..readers).map(|n| format!("reader {n}")).collect();
        let getting =
            folders.iter().zip(READER..).map(|(folder, host)| self.carry_out(host, folder, &["get", "big"]));
        let took_s = futures::future::try_join_all(getting).await?;
        for folder in &folders {
            self.compare(folder, &["big".to_owned()]).await?;
            self.remove(folder).await?;
        }
        Ok(took_s.into_iter().fold(0.0, f64::max))
    }

    /// Answers each connection to the origin's host with as many bytes as it asks for.
    fn serve_plain(&self) -> Result<()> {
        let at = SocketAddr::new(self.wan.host(ORIGIN).addr.ip(), PLAIN_PORT);
        let listener = self.wan.host(ORIGIN).namespace.within(|| TcpListener::bind(at))?;
        let serve = move || {
            for mut stream in listener.incoming().flatten() {
                let mut wanted = [0; 8];
                if stream.read_exact(&mut wanted).is_ok() {
                    let bytes = io::repeat(7).take(u64::from_le_bytes(wanted));
                    let _ = io::copy(&mut io::BufReader::with_capacity(1 << 16, bytes), &mut stream); // the reader fails too
                }
            }
        };
        thread::Builder::new().name("plain".to_owned()).spawn(serve)?;
        Ok(())
    }

    /// How long this many bytes take over a TCP connection that is opened for them.
    pub(super) async fn plain(&self, size: u64) -> Result<f64> {
        let (at, reader) =
            (SocketAddr::new(self.wan.host(ORIGIN).addr.ip(), PLAIN_PORT), self.namespace(READER));
        let get = move || {
            let began = Instant::now();
            let mut stream = TcpStream::connect(at)?;
            stream.write_all(&size.to_le_bytes())?;
            let came = io::copy(&mut stream.take(size), &mut io::sink())?;
            ensure!(came == size, "{came} of {size} bytes came");
            Ok(began.elapsed().as_secs_f64())
        };
        apart(move || reader.within(get)).await
    }

    fn namespace(&self, host: usize) -> Namespace {
        self.wan.host(host).namespace.clone()
    }

    /// How long rsync takes for the small files, from its own server; `None` where it is not installed.
    pub(super) async fn rsync(&self) -> Result<Option<f64>> {
        let (at, to) = (self.wan.host(ORIGIN).addr.ip(), self.on.folder.join("copy"));
        let config = self.on.folder.join("rsyncd.conf");
        let root = rustix::process::geteuid().as_raw();
        let text = format!(
            "use chroot = no\nuid = {root}\ngid = {root}\n[m]\npath = {}\n",
            self.on.folder.join("origin/many").display()
        );
        fs::write(&config, text)?;
        let mut serve = std::process::Command::new("rsync");
        serve.args(["--daemon", "--no-detach", &format!("--port={RSYNC_PORT}")]);
        serve.arg(format!("--config={}", config.display()));
        let mut get = std::process::Command::new("rsync");
        get.arg("-a").arg(format!("rsync://{at}:{RSYNC_PORT}/m/")).arg(&to);
        if std::process::Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_err() {
            return Ok(None);
        }
        let mut server = Command::from(self.namespace(ORIGIN).command(&serve));
        let mut server = server.kill_on_drop(true).stdin(Stdio::null()).spawn()?;
        let mut took_s = None;
        until(LINKED_WITHIN, async || {
            let began = Instant::now();
            let ended =
                Command::from(self.namespace(READER).command(&get)).stderr(Stdio::piped()).output().await?;
            took_s = Some(began.elapsed().as_secs_f64()).filter(|_| ended.status.success());
            Ok(took_s.is_none().then(|| String::from_utf8_lossy(&ended.stderr).trim().to_owned()))
        })
        .await?;
        server.kill().await?;
        apart(move || Ok(fs::remove_dir_all(to)?)).await?;
        Ok(took_s)
    }

    pub(super) async fn stop(self) {
        drop(self.running);
        self.net.stop().await;
    }
}
