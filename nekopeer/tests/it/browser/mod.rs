//! The dashboards in a real browser: a peer and an indexer, driven as a user would, by mouse and by keyboard.

mod chromium;
mod many_files;
mod media;

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use chromium::{Browser, ENTER, ESCAPE, TAB};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{runtime::Runtime, time::timeout};

use nekoindexer::{Config, Indexer, IndexerHandle};

use crate::{common::ANY_PORT, program::*};

/// Time limit of the journey, for a browser that hangs.
const JOURNEY_WITHIN: Duration = Duration::from_secs(180);

/// A name that is markup.
const MARKUP: &str = "<img src=x onerror=alert(1)>.txt";

/// A peer that serves, with its door for browsers.
struct Served {
    home: Home,
    _running: Running,
    /// `http://IP:PORT`, without a slash at its end.
    url: String,
}

impl Served {
    fn start(home: Home, flags: &[&str]) -> Self {
        let mut running = home.start(&[&["serve", "--http", "127.0.0.1:0"], flags].concat());
        let url = running.out_line("http on ").replace("http on ", "").trim_end_matches('/').to_owned();
        running.err_line("serving on ");
        Self { home, _running: running, url }
    }

    fn host(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    fn token(&self) -> String {
        fs::read_to_string(self.home.path(".neko/http.token")).unwrap().trim().to_owned()
    }
}

/// An expression: whether a row of the table's body `id` has all these texts.
fn row(id: &str, texts: &[&str]) -> String {
    let texts = json!(texts);
    format!(
        "[...document.getElementById('{id}').children].some((row) => {texts}.every((text) => row.innerText.includes(text)))"
    )
}

/// An expression: whether the element `id` shows `text`.
fn shows(id: &str, text: &str) -> String {
    format!("document.getElementById('{id}').innerText.includes({})", json!(text))
}

/// Opens a dashboard, and waits until it follows its node.
async fn open_live(browser: &Browser, url: &str) {
    browser.open(&format!("{url}/")).await;
    browser.until(&shows("live", "live")).await;
}

/// Searches, as a user does, until `name` is found.
async fn search(browser: &Browser, terms: &str, name: &str) {
    browser.clear("#terms").await;
    browser.type_into("#terms", terms).await;
    browser.press(ENTER).await;
    browser.until(&format!("!{} && {}", shows("found-line", "searching"), row("found", &[name]))).await;
}

/// Gives the token where it is asked for.
async fn give_token(browser: &Browser, token: &str) {
    browser.until("document.getElementById('token-box').open").await;
    browser.type_into("#token", token).await;
    browser.press(ENTER).await;
    browser.until("!document.getElementById('token-box').open").await;
}

/// Drops a file onto the page.
async fn drop_file(browser: &Browser, name: &str, text: &str) {
    let (name, text) = (json!(name), json!(text));
    let script = format!(
        "const data = new DataTransfer();
        data.items.add(new File([{text}], {name}));
        const drop = new DragEvent('drop', {{ dataTransfer: data, bubbles: true, cancelable: true }});
        document.getElementById('drop').dispatchEvent(drop);"
    );
    browser.value(&script).await;
}

/// Fails if the console of the browser holds anything, or if a page asked other hosts than `hosts` for something.
async fn assert_quiet(browser: &Browser, hosts: &[&str]) {
    let (console, asked) = browser.console_and_hosts().await;
    assert_eq!(console, Vec::<String>::new(), "the console is empty");
    assert!(!asked.is_empty() && asked.iter().all(|host| hosts.contains(&host.as_str())), "{asked:?}");
}

/// Fails if something that a reader can act on, or a table, has no name for those who hear the page, or if there are not
/// at `least` so many.
async fn assert_everything_is_named(browser: &Browser, least: usize) {
    let tree = browser.tool("Accessibility.getFullAXTree", json!({})).await;
    let nodes = tree["nodes"].as_array().unwrap();
    let kinds =
        ["button", "link", "searchbox", "textbox", "table", "progressbar", "region", "dialog", "img", "log"];
    let seen = |node: &&Value| node["ignored"] == false;
    let of_kind = |node: &&Value| kinds.iter().any(|kind| node["role"]["value"] == *kind);
    let named: Vec<&Value> = nodes.iter().filter(seen).filter(of_kind).collect();
    assert!(named.len() >= least, "the page is there: {named:#?}");
    for node in named {
        assert!(node["name"]["value"].as_str().is_some_and(|name| !name.is_empty()), "{node:#}");
    }
}

/// Whether the page is wider than the window.
async fn assert_fits(browser: &Browser) {
    let widths =
        browser.value("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]").await;
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "the page is wider than the window: {widths}");
}

/// Looks at the page in both themes, wide and narrow; keeps pictures if `NEKO_SCREENSHOTS` names a folder.
async fn look_at(browser: &Browser, page: &str) {
    let folder = std::env::var_os("NEKO_SCREENSHOTS").map(PathBuf::from);
    for (width, shape) in [(1280, "wide"), (390, "phone")] {
        for theme in ["light", "dark"] {
            browser.appear(width, theme).await;
            assert_fits(browser).await;
            if let Some(folder) = &folder {
                fs::write(folder.join(format!("{page}-{shape}-{theme}.png")), browser.picture().await)
                    .unwrap();
            }
        }
    }
    browser.appear(1280, "light").await;
}

/// Pages that would act as if they were the dashboard, under whose address they stand.
fn acting_pages() -> [(&'static str, String); 5] {
    const SCRIPT: &str = "<script>localStorage.setItem('ran', document.location.pathname)</script>";
    [
        ("evil.html", format!("<!doctype html><html><body>{SCRIPT}</body></html>")),
        ("evil.svg", format!("<svg xmlns='http://www.w3.org/2000/svg'>{SCRIPT}</svg>")),
        ("evil.xhtml", format!("<html xmlns='http://www.w3.org/1999/xhtml'><body>{SCRIPT}</body></html>")),
        ("evil", format!("<!doctype html>{SCRIPT}")),
        ("evil.txt", format!("<!doctype html>{SCRIPT}")),
    ]
}

/// The keyboard reaches everything in the order of the page, and the chosen theme stays.
async fn keyboard_reaches_everything(browser: &Browser, peer: &Served) {
    browser.appear(1280, "light").await;
    open_live(browser, &peer.url).await;
    let mut reached = Vec::new();
    for _ in 0..20 {
        browser.press(TAB).await;
        let script = "const e = document.activeElement; return e.id || e.className || e.textContent";
        let at = browser.value(script).await;
        reached.push(at.as_str().unwrap().to_owned());
        if reached.iter().filter(|at| *at == "theme").count() == 1 && at == "theme" {
            browser.press(' ').await;
        }
    }
    let places = ["skip", "theme", "files", "folder", "under", "terms", "log", "token-open"].map(|wanted| {
        reached.iter().position(|at| at == wanted).unwrap_or_else(|| panic!("{wanted}: {reached:?}"))
    });
    assert!(places.is_sorted(), "as they stand on the page: {reached:?}");
    for _ in 0..2 {
        assert_eq!(browser.value("return document.documentElement.dataset.theme").await, "dark");
        open_live(browser, &peer.url).await;
    }
    browser.value("localStorage.clear()").await;
}

/// A token is taken from the address, where it does not stay, and asked for again when it is refused. What is chosen or
/// dropped is published.
async fn token_is_asked_for_and_files_are_published(browser: &Browser, peer: &Served, theirs: &Home) {
    browser.open("about:blank").await; // where only the end of the address changes, nothing is loaded
    browser.open(&format!("{}/#token=wrong", peer.url)).await;
    browser.until("sessionStorage.getItem('neko.token') === 'wrong'").await;
    assert_eq!(browser.address().await, format!("{}/", peer.url), "it is not left in the address");
    browser.until(&shows("live", "live")).await;
    browser.value("window.isFirstPage = true").await;
    drop_file(browser, "a.txt", "a").await;
    give_token(browser, &peer.token()).await;
    browser.until(&shows("publish-line", "shared a.txt")).await;
    assert_eq!(peer.home.read("a.txt"), b"a");
    let folder = TempDir::new().unwrap();
    let chosen = folder.path().join("report.txt");
    fs::write(&chosen, "chosen").unwrap();
    browser.type_into("#files", chosen.to_str().unwrap()).await;
    browser.until(&shows("publish-line", "shared report.txt")).await;
    browser.type_into("#under", "dropped/").await;
    drop_file(browser, MARKUP, "dropped").await;
    browser.until(&shows("publish-line", &format!("shared dropped/{MARKUP}"))).await;
    theirs.done(&["get", "report.txt", &format!("dropped/{MARKUP}")]);
    assert_eq!(theirs.read("report.txt"), b"chosen");
}

async fn files_are_found_fetched_and_cancelled(browser: &Browser, peer: &Served, theirs: &Home) {
    search(browser, "models/*.bin", "models/large.bin").await;
    search(browser, "cuda 12", "models/cuda-12.bin").await;
    browser.click("#found button").await;
    browser.until(&shows("note", "The download of models/cuda-12.bin is complete.")).await;
    browser.until(&row("found", &["models/cuda-12.bin", "v1, fresh"])).await;
    browser.click("#by-folder").await;
    browser.until(&row("catalogue", &["models/cuda-12.bin", "v1", "copy", "fresh"])).await;
    show_details(browser, "models/cuda-12.bin").await;
    for shown in ["fresh until", "left", "hybrid: a copy is fresh for 1 min"] {
        browser.until(&shows("details-tiles", shown)).await;
    }
    browser.click("#details-close").await;
    assert_eq!(peer.home.read("models/cuda-12.bin"), theirs.read("models/cuda-12.bin"));
    search(browser, "models/large.bin", "models/large.bin").await;
    browser.click_until("#found button", "document.querySelector('#transfers progress')?.value > 0").await;
    browser.click("#transfers button").await;
    browser.until(&shows("note", "The download of models/large.bin was cancelled.")).await;
    browser.until("document.getElementById('strip').hidden").await; // nothing moves
    browser.click("#catalogue .acts button:not([hidden])").await;
    browser.until("document.getElementById('ticket').value.startsWith('nekopeer get neko:')").await;
    browser.press(ESCAPE).await;
    browser.until("!document.getElementById('ticket-box').open").await;
}

/// Downloads are paused and limited in the head of the page, which also shows what another shell says.
async fn downloads_are_paused_and_limited(browser: &Browser, peer: &Served) {
    peer.home.done(&["get", "models/large.bin", "--background"]);
    browser.until("document.querySelector('#transfers progress')?.value > 0").await;
    browser.click_until("#pause", &row("transfers", &["models/large.bin", "paused"])).await;
    assert!(peer.home.done(&["limit"]).out[0].ends_with("downloads are paused"));
    browser.until(&shows("pause", "Resume downloads")).await;
    browser.click_until("#pause", &row("transfers", &["models/large.bin", "downloading"])).await;
    browser.click("#transfers button").await;
    browser.clear("#limit-down").await;
    browser.type_into("#limit-down", "1.5").await;
    browser.press(ENTER).await;
    browser
        .until("document.activeElement.id !== 'limit-down' && !document.getElementById('limit-up').value")
        .await;
    let mut limits = peer.home.done(&["limit"]).out.remove(0);
    while limits != "up no limit, down 1.5 MiB/s" {
        tokio::time::sleep(Duration::from_millis(20)).await;
        limits = peer.home.done(&["limit"]).out.remove(0);
    }
    peer.home.done(&["limit", "--down", "2MiB", "--up", "1GB"]);
    let value = |id| format!("document.getElementById('{id}').value");
    browser.until(&format!("{} === '2' && {} === '953.67'", value("limit-down"), value("limit-up"))).await;
    browser.click("#limit-up").await;
    browser.clear("#limit-up").await;
    browser.press(ENTER).await;
    browser.until(&format!("{} === ''", value("limit-up"))).await;
}

async fn new_version_is_seen_to_arrive_and_fetched(browser: &Browser, peer: &Served, theirs: &Home) {
    theirs.share_anew("models/cuda-12.bin", bytes(3, MIB));
    browser.until(&shows("events", "invalidated models/cuda-12.bin")).await;
    browser.until(&row("catalogue", &["models/cuda-12.bin", "v1", "stale", "v2"])).await;
    assert_eq!(browser.value("return window.isFirstPage").await, true, "the page was not loaded again");
    search(browser, "*.bin", "models/cuda-12.bin").await;
    peer.home.done(&["get", "models/large.bin", "--background"]);
    browser.until("document.querySelector('#transfers progress')?.value > 0").await;
    browser.value("document.getElementById('note-close').click()").await;
    look_at(browser, "peer").await;
    assert_everything_is_named(browser, 6).await;
    browser.click("#transfers button").await;
    // The only stale file is updated as part of a selection.
    browser.click_until("#select-page", &shows("update-selected", "Update 1 stale")).await;
    browser.click_until("#update-selected", &row("catalogue", &["models/cuda-12.bin", "v2", "fresh"])).await;
    browser.until("document.getElementById('selection').hidden").await;
    assert_eq!(peer.home.read("models/cuda-12.bin"), theirs.read("models/cuda-12.bin"));
}

/// Names of others are text, whatever is in them, and files of others do not run, fetched once or asked about again.
async fn markup_is_text_and_files_do_not_run(browser: &Browser, peer: &Served) {
    peer.home.done(&["get", MARKUP, "evil.html"]);
    browser.until(&row("catalogue", &[MARKUP])).await;
    search(browser, MARKUP, MARKUP).await;
    assert_eq!(browser.value("return document.querySelectorAll('main img').length").await, 0);
    assert_quiet(browser, &[peer.host()]).await;
    for (name, _) in acting_pages() {
        for _ in 0..2 {
            browser.visit(&format!("{}/f/{name}", peer.url)).await;
            open_live(browser, &peer.url).await;
        }
        assert_eq!(browser.value("return localStorage.getItem('ran')").await, Value::Null, "{name}");
    }
    browser.open(&format!("{}/f/evil.txt", peer.url)).await;
    browser.until("document.body.innerText.includes('<script>')").await;
    open_live(browser, &peer.url).await;
    browser.console_and_hosts().await; // what was not allowed is said there
}

/// Opens the details of the file whose row in the catalogue has this text.
async fn show_details(browser: &Browser, text: &str) {
    let rows = "[...document.getElementById('catalogue').children]";
    let find = format!("{rows}.find((row) => row.innerText.includes({}))", json!(text));
    browser.value(&format!("{find}.querySelector('.acts button:last-child').click()")).await;
}

/// Policy, readers and kept versions are shown, and a set goes back.
async fn set_goes_back(browser: &Browser, peer: &Served, origin: &Served) {
    let mut following = peer.home.start(&["follow", "app", "--keep", "2"]);
    following.out_line("app is at version 1");
    origin.home.write("build/a", "2");
    origin.home.done(&["share", "--set", "build", "app"]);
    following.out_line("app is at version 2");
    open_live(browser, &peer.url).await;
    browser.until(&row("catalogue", &["app", "v2", "copy, set"])).await;
    browser.until(&row("standing", &["following", "app"])).await;
    show_details(browser, "copy, set").await;
    browser.until(&row("details-kept", &["v1"])).await;
    browser.until(&shows("details-tiles", "hybrid: a copy is fresh for")).await;
    look_at(browser, "details").await;
    browser.click_until("#details-kept button", &shows("details-line", "Version 1 is in its place.")).await;
    browser.until(&shows("details-tiles", "up to v2: it was rolled back")).await;
    assert_eq!(peer.home.read("app/a"), b"1");
    assert_everything_is_named(browser, 3).await;
    assert_quiet(browser, &[peer.host()]).await;
    open_live(browser, &origin.url).await;
    browser.until(&row("catalogue", &["app", "shared, set"])).await;
    show_details(browser, "shared, set").await;
    browser.until(&shows("details-tiles", "a set: a folder with one version")).await;
    assert_quiet(browser, &[peer.host(), origin.host()]).await;
}

/// Starts an indexer that knows `neighbors`, with a door for browsers.
async fn indexer(neighbors: &[SocketAddr]) -> IndexerHandle {
    let neighbors = neighbors.iter().copied().map(Into::into).collect();
    let config = Config { listen: ANY_PORT, http: Some(ANY_PORT), neighbors, ..Config::default() };
    Indexer::spawn(config).await.unwrap()
}

async fn indexer_shows_its_neighbors_and_what_it_is_asked(browser: &Browser) {
    let other = indexer(&[]).await;
    let (_port, away) = kept_port();
    let shown = indexer(&[other.local_addr(), away]).await;
    shown.neighbors_reach(1).await;
    let theirs = Home::with(&["--indexer", &shown.local_addr().to_string()]);
    for n in 0..30 {
        theirs.write(&format!("models/cuda-{n}.bin"), bytes(n, 1000));
    }
    let _sharing = theirs.share(&["models"]);
    let host = shown.http_addr().unwrap().to_string();
    open_live(browser, &format!("http://{host}")).await;
    let neighbor = other.local_addr().to_string();
    browser.until(&row("neighbors", &[&neighbor, "up", &other.node().to_string()[..8], "trusted"])).await;
    browser.until(&row("neighbors", &[&away.to_string(), "away"])).await;
    for tile in [
        ["Queries", "per s"],
        ["Names listed", "30"],
        ["Peers connected", "1"],
        ["Neighbors connected", "1 of 2"],
    ] {
        browser.until(&row("tiles", &tile)).await;
    }
    for figure in [["Memory of the process", "MiB"], ["Memory for other nodes", "of"], ["Uptime", "s"]] {
        browser.until(&row("figures", &figure)).await;
    }
    // Each stays one: the numbers are replaced each second.
    let uptime = "[...document.getElementById('figures').children].find((at) => at.innerText.includes('Uptime')).innerText";
    let counted = "document.getElementById('tiles').children.length + document.getElementById('figures').children.length";
    browser.value(&format!("window.uptime = {uptime}; window.counted = {counted}")).await;
    browser.until(&format!("window.uptime !== {uptime}")).await;
    let counts = browser
        .value(&format!(
            "return [window.counted, {counted}, document.getElementById('tiles').children.length]"
        ))
        .await;
    assert_eq!((&counts[0], &counts[2]), (&counts[1], &json!(4)), "{counts}");
    // It says how many answers took how long since the start. How many bars that makes is up to the machine.
    let before = browser.value("return window.before = document.querySelector('#latency').innerHTML").await;
    assert!(before.as_str().is_some_and(|before| before.contains("Answers since the start")), "{before}");
    let names: Vec<_> = (0..30).map(|n| format!("models/cuda-{n}.bin")).collect();
    for asked in 1..6 {
        let names = names.iter().take(6 * asked % 29).map(String::as_str);
        theirs.done(&["query", "models/cuda-0.bin"].into_iter().chain(names).collect::<Vec<_>>());
    }
    browser.until("document.querySelector('#latency').innerHTML !== window.before").await;
    browser.until("document.querySelector('#rate .curve')").await;
    search(browser, "models/*-1?.bin", "models/cuda-12.bin").await;
    look_at(browser, "indexer").await;
    assert_everything_is_named(browser, 6).await;
    assert_quiet(browser, &[&host]).await;
    other.shutdown().await;
    browser.until(&row("neighbors", &[&neighbor, "away"])).await;
}

async fn journey(browser: &Browser, theirs: Home, mine: Home) {
    for (name, len) in [("models/cuda-12.bin", MIB), ("models/large.bin", 16 * MIB)] {
        theirs.write(name, bytes(len as u64, len));
    }
    acting_pages().iter().for_each(|(name, page)| drop(theirs.write(name, page)));
    theirs.write(MARKUP, "markup");
    theirs.write("build/a", "1");
    let (origin, evil) =
        (Served::start(theirs, &[]), ["evil", "evil.html", "evil.svg", "evil.txt", "evil.xhtml"]);
    let theirs = &origin.home;
    theirs.done(&[&["share", "models", MARKUP][..], &evil].concat());
    theirs.done(&["share", "--set", "build", "app"]);
    let peer = Served::start(mine, &["--limit-down", "2MB"]);
    keyboard_reaches_everything(browser, &peer).await;
    assert_quiet(browser, &[peer.host()]).await;
    token_is_asked_for_and_files_are_published(browser, &peer, theirs).await;
    browser.console_and_hosts().await; // a wrong token is an error there
    files_are_found_fetched_and_cancelled(browser, &peer, theirs).await;
    downloads_are_paused_and_limited(browser, &peer).await;
    new_version_is_seen_to_arrive_and_fetched(browser, &peer, theirs).await;
    markup_is_text_and_files_do_not_run(browser, &peer).await;
    set_goes_back(browser, &peer, &origin).await;
    indexer_shows_its_neighbors_and_what_it_is_asked(browser).await;
}

#[test]
fn dashboards_journey() {
    let (_indexers, theirs, mine) = two_homes();
    let all = async {
        let Some(browser) = Browser::start().await else { return };
        journey(&browser, theirs, mine).await;
        browser.close().await;
    };
    Runtime::new().unwrap().block_on(async { timeout(JOURNEY_WITHIN, all).await }).unwrap();
}
