//! The dashboards in a real browser: a peer and an indexer, driven as a user would, by mouse and by keyboard.

mod chromium;
mod many_files;
mod media;

use chromium::{Browser, ENTER, ESCAPE, TAB};

use nekoindexer::{Config, Indexer, IndexerHandle};

use crate::{common::ANY_PORT, program::*};

const MARKUP: &str = "<img src=x onerror=alert(1)>.txt";

struct Served {
    home: Home,
    _running: Running,
    http: Http,
    /// `http://IP:PORT`, without a slash at its end.
    url: String,
}

impl Served {
    fn start(home: Home, flags: &[&str]) -> Self {
        let (running, http) = Http::serving(&home, flags);
        let url = format!("http://{}", http.addr);
        Self { home, _running: running, http, url }
    }

    fn host(&self) -> &str {
        self.url.trim_start_matches("http://")
    }
}

/// An expression: whether a row of the table's body `id` has all these texts.
fn row(id: &str, texts: &[&str]) -> String {
    let texts = json!(texts);
    format!(
        "[...document.getElementById('{id}').children].some((row) => {texts}.every((text) => row.innerText.includes(text)))"
    )
}

fn shows(id: &str, text: &str) -> String {
    format!("document.getElementById('{id}').innerText.includes({})", json!(text))
}

fn open_live(browser: &Browser, url: &str) {
    browser.open(&format!("{url}/"));
    browser.until(&shows("live", "live"));
}

fn search(browser: &Browser, terms: &str, name: &str) {
    browser.clear("#terms");
    browser.type_into("#terms", terms);
    browser.press(ENTER);
    browser.until(&format!("!{} && {}", shows("found-line", "searching"), row("found", &[name])));
}

fn give_token(browser: &Browser, token: &str) {
    browser.until("document.getElementById('token-box').open");
    browser.type_into("#token", token);
    browser.press(ENTER);
    browser.until("!document.getElementById('token-box').open");
}

fn drop_file(browser: &Browser, name: &str, text: &str) {
    let (name, text) = (json!(name), json!(text));
    let script = format!(
        "const data = new DataTransfer();
        data.items.add(new File([{text}], {name}));
        const drop = new DragEvent('drop', {{ dataTransfer: data, bubbles: true, cancelable: true }});
        document.getElementById('drop').dispatchEvent(drop);"
    );
    browser.value(&script);
}

/// Fails if the console of the browser holds anything, or if a page asked other hosts than `hosts` for something.
fn assert_quiet(browser: &Browser, hosts: &[&str]) {
    let (console, asked) = browser.console_and_hosts();
    assert_eq!(console, Vec::<String>::new(), "the console is empty");
    assert!(!asked.is_empty() && asked.iter().all(|host| hosts.contains(&host.as_str())), "{asked:?}");
}

/// Fails if something that a reader can act on, or a table, has no name for those who hear the page, or if there are not
/// at `least` so many.
fn assert_everything_is_named(browser: &Browser, least: usize) {
    let tree = browser.tool("Accessibility.getFullAXTree", json!({}));
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

fn assert_fits(browser: &Browser) {
    let widths = browser.value("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]");
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "the page is wider than the window: {widths}");
}

/// Looks at the page in both themes, wide and narrow; keeps pictures if `NEKO_SCREENSHOTS` names a folder.
fn look_at(browser: &Browser, page: &str) {
    let folder = std::env::var_os("NEKO_SCREENSHOTS").map(PathBuf::from);
    for (width, shape) in [(1280, "wide"), (390, "phone")] {
        for theme in ["light", "dark"] {
            browser.appear(width, theme);
            assert_fits(browser);
            if let Some(folder) = &folder {
                fs::write(folder.join(format!("{page}-{shape}-{theme}.png")), browser.picture()).unwrap();
            }
        }
    }
    browser.appear(1280, "light");
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

fn keyboard_reaches_everything(browser: &Browser, peer: &Served) {
    browser.appear(1280, "light");
    open_live(browser, &peer.url);
    let mut reached = Vec::new();
    for _ in 0..20 {
        browser.press(TAB);
        let script = "const e = document.activeElement; return e.id || e.className || e.textContent";
        let at = browser.value(script);
        reached.push(at.as_str().unwrap().to_owned());
        if reached.iter().filter(|at| *at == "theme").count() == 1 && at == "theme" {
            browser.press(' ');
        }
    }
    let places = ["skip", "theme", "files", "folder", "under", "terms", "log", "token-open"].map(|wanted| {
        reached.iter().position(|at| at == wanted).unwrap_or_else(|| panic!("{wanted}: {reached:?}"))
    });
    assert!(places.is_sorted(), "as they stand on the page: {reached:?}");
    for _ in 0..2 {
        assert_eq!(browser.value("return document.documentElement.dataset.theme"), "dark");
        open_live(browser, &peer.url);
    }
    browser.value("localStorage.clear()");
}

/// A token is taken from the address, where it does not stay, and asked for again when it is refused. What is chosen or
/// dropped is published.
fn token_is_asked_for_and_files_are_published(browser: &Browser, peer: &Served, theirs: &Home) {
    browser.open("about:blank"); // where only the end of the address changes, nothing is loaded
    browser.open(&format!("{}/#token=wrong", peer.url));
    browser.until("sessionStorage.getItem('neko.token') === 'wrong'");
    assert_eq!(browser.address(), format!("{}/", peer.url), "it is not left in the address");
    browser.until(&shows("live", "live"));
    browser.value("window.isFirstPage = true");
    drop_file(browser, "a.txt", "a");
    give_token(browser, &peer.http.token);
    browser.until(&shows("publish-line", "shared a.txt"));
    assert_eq!(peer.home.read("a.txt"), b"a");
    let folder = TempDir::new().unwrap();
    let chosen = folder.path().join("report.txt");
    fs::write(&chosen, "chosen").unwrap();
    browser.type_into("#files", chosen.to_str().unwrap());
    browser.until(&shows("publish-line", "shared report.txt"));
    browser.type_into("#under", "dropped/");
    drop_file(browser, MARKUP, "dropped");
    browser.until(&shows("publish-line", &format!("shared dropped/{MARKUP}")));
    theirs.done(&["get", "report.txt", &format!("dropped/{MARKUP}")]);
    assert_eq!(theirs.read("report.txt"), b"chosen");
}

fn files_are_found_fetched_and_cancelled(browser: &Browser, peer: &Served, theirs: &Home) {
    search(browser, "models/*.bin", "models/large.bin");
    search(browser, "cuda 12", "models/cuda-12.bin");
    browser.click("#found button");
    browser.until(&shows("note", "The download of models/cuda-12.bin is complete."));
    browser.until(&row("found", &["models/cuda-12.bin", "v1, fresh"]));
    browser.click("#by-folder");
    browser.until(&row("catalogue", &["models/cuda-12.bin", "v1", "copy", "fresh"]));
    show_details(browser, "models/cuda-12.bin");
    for shown in ["fresh until", "left", "hybrid: a copy is fresh for 1 min"] {
        browser.until(&shows("details-tiles", shown));
    }
    browser.click("#details-close");
    assert_eq!(peer.home.read("models/cuda-12.bin"), theirs.read("models/cuda-12.bin"));
    search(browser, "models/large.bin", "models/large.bin");
    browser.click_until("#found button", "document.querySelector('#transfers progress')?.value > 0");
    browser.click("#transfers button");
    browser.until(&shows("note", "The download of models/large.bin was cancelled."));
    browser.until("document.getElementById('strip').hidden"); // nothing moves
    browser.click("#catalogue .acts button:not([hidden])");
    browser.until("document.getElementById('ticket').value.startsWith('nekopeer get neko:')");
    browser.press(ESCAPE);
    browser.until("!document.getElementById('ticket-box').open");
}

/// The answer to a request may come after the event that ends what it began.
fn job_that_has_ended_stays_ended(browser: &Browser) {
    let job = |state| json!({"id": "quick", "kind": "get", "name": "quick.bin", "state": state, "started_ms": 1, "done_bytes": 1});
    let (done, running) = (job("done"), job("running"));
    browser.value(&format!(
        "window.isTold = false; import('/assets/transfers.js').then((it) => {{ it.update({done}); it.update({running}); window.isTold = true; }})"
    ));
    browser.until("window.isTold");
    assert_eq!(browser.value("return document.getElementById('strip').hidden"), true);
}

fn downloads_are_paused_and_limited(browser: &Browser, peer: &Served) {
    peer.home.done(&["get", "models/large.bin", "--background"]);
    browser.until("document.querySelector('#transfers progress')?.value > 0");
    browser.click_until("#pause", &row("transfers", &["models/large.bin", "paused"]));
    assert!(peer.home.done(&["limit"]).out[0].ends_with("downloads are paused"));
    browser.until(&shows("pause", "Resume downloads"));
    browser.click_until("#pause", &row("transfers", &["models/large.bin", "downloading"]));
    browser.click("#transfers button");
    browser.clear("#limit-down");
    browser.type_into("#limit-down", "1.5");
    browser.press(ENTER);
    browser.until("document.activeElement.id !== 'limit-down' && !document.getElementById('limit-up').value");
    let mut limits = peer.home.done(&["limit"]).out.remove(0);
    while limits != "up no limit, down 1.5 MiB/s" {
        thread::sleep(Duration::from_millis(20));
        limits = peer.home.done(&["limit"]).out.remove(0);
    }
    peer.home.done(&["limit", "--down", "2MiB", "--up", "1GB"]);
    let value = |id| format!("document.getElementById('{id}').value");
    browser.until(&format!("{} === '2' && {} === '953.67'", value("limit-down"), value("limit-up")));
    browser.click("#limit-up");
    browser.clear("#limit-up");
    browser.press(ENTER);
    browser.until(&format!("{} === ''", value("limit-up")));
}

fn new_version_is_seen_to_arrive_and_fetched(browser: &Browser, peer: &Served, theirs: &Home) {
    theirs.share_anew("models/cuda-12.bin", bytes(3, MIB));
    browser.until(&shows("events", "invalidated models/cuda-12.bin"));
    browser.until(&row("catalogue", &["models/cuda-12.bin", "v1", "stale", "v2"]));
    assert_eq!(browser.value("return window.isFirstPage"), true, "the page was not loaded again");
    search(browser, "*.bin", "models/cuda-12.bin");
    peer.home.done(&["get", "models/large.bin", "--background"]);
    browser.until("document.querySelector('#transfers progress')?.value > 0");
    browser.value("document.getElementById('note-close').click()");
    look_at(browser, "peer");
    assert_everything_is_named(browser, 6);
    browser.click("#transfers button");
    // The only stale file is updated as part of a selection.
    browser.click_until("#select-page", &shows("update-selected", "Update 1 stale"));
    browser.click_until("#update-selected", &row("catalogue", &["models/cuda-12.bin", "v2", "fresh"]));
    browser.until("document.getElementById('selection').hidden");
    assert_eq!(peer.home.read("models/cuda-12.bin"), theirs.read("models/cuda-12.bin"));
}

/// A changed copy is not replaced until the reader says so, and one that is followed is brought by itself.
fn a_changed_copy_is_replaced_and_all_matches_are_followed(browser: &Browser, peer: &Served, theirs: &Home) {
    let name = "models/cuda-12.bin";
    let catalogue = |texts: &[&str]| row("catalogue", &[&[name], texts].concat());
    peer.home.write(name, "by hand");
    open_live(browser, &peer.url);
    browser.click("#by-folder");
    browser.until(&catalogue(&["changed", "Get again"]));
    let again = format!(
        "[...document.getElementById('catalogue').children].find((row) => row.innerText.includes('{name}')).querySelector('.acts button')"
    );
    browser.value(&format!("{again}.click()"));
    browser.until(&shows("note", "was changed here since it came"));
    browser.click_until("#note-act", "document.getElementById('confirm-box').open");
    browser.click("#confirm-box button[value='']");
    assert_eq!(peer.home.read(name), b"by hand", "nothing was confirmed");
    browser.value(&format!("{again}.click()"));
    browser.until("!document.getElementById('note-act').hidden");
    browser.click_until("#note-act", "document.getElementById('confirm-box').open");
    browser.click_until("#confirm-go", &catalogue(&["v2", "fresh"]));
    assert_eq!(peer.home.read(name), theirs.read(name));
    search(browser, "cuda*", name);
    browser.click_until("#follow-matches", &shows("confirm-what", "1 file, 1.0 MiB, that match cuda*."));
    browser.click_until("#confirm-go", &shows("note", "newer versions are fetched as they come"));
    theirs.share_anew(name, bytes(4, MIB));
    browser.until(&catalogue(&["v3", "fresh"]));
    show_details(browser, name);
    browser.until(&shows("details-tiles", "followed"));
    browser.click_until("#details-follow", &shows("details-follow", "Follow"));
    browser.until(&shows("details-tiles", "it stays, marked as stale"));
    browser.click("#details-close");
}

/// Names of others are text, whatever is in them, and files of others do not run, fetched once or asked about again.
fn markup_is_text_and_files_do_not_run(browser: &Browser, peer: &Served) {
    peer.home.done(&["get", MARKUP, "evil.html"]);
    browser.until(&row("catalogue", &[MARKUP]));
    search(browser, MARKUP, MARKUP);
    assert_eq!(browser.value("return document.querySelectorAll('main img').length"), 0);
    assert_quiet(browser, &[peer.host()]);
    for (name, _) in acting_pages() {
        for _ in 0..2 {
            browser.visit(&format!("{}/f/{name}", peer.url));
            open_live(browser, &peer.url);
        }
        assert_eq!(browser.value("return localStorage.getItem('ran')"), Value::Null, "{name}");
    }
    browser.open(&format!("{}/f/evil.txt", peer.url));
    browser.until("document.body.innerText.includes('<script>')");
    open_live(browser, &peer.url);
    browser.console_and_hosts(); // what was not allowed is said there
}

fn show_details(browser: &Browser, text: &str) {
    let rows = "[...document.getElementById('catalogue').children]";
    let find = format!("{rows}.find((row) => row.innerText.includes({}))", json!(text));
    browser.value(&format!("{find}.querySelector('.acts button:last-child').click()"));
}

/// Policy, readers and kept versions are shown, and a set goes back.
fn set_goes_back(browser: &Browser, peer: &Served, origin: &Served) {
    let mut following = peer.home.start(&["follow", "app", "--keep", "2"]);
    following.out_line("app is at version 1");
    origin.home.write("build/a", "2");
    origin.home.done(&["share", "--set", "build", "app"]);
    following.out_line("app is at version 2");
    open_live(browser, &peer.url);
    browser.until(&row("catalogue", &["app", "v2", "copy, set"]));
    browser.until(&row("standing", &["following", "app"]));
    show_details(browser, "copy, set");
    browser.until(&row("details-kept", &["v1"]));
    browser.until(&shows("details-tiles", "hybrid: a copy is fresh for"));
    browser.until(&shows("details-tiles", "followed by a command that runs"));
    look_at(browser, "details");
    browser.click_until("#details-kept button", &shows("details-line", "Version 1 is in its place."));
    browser.until(&shows("details-tiles", "up to v2: it was rolled back"));
    assert_eq!(peer.home.read("app/a"), b"1");
    assert_everything_is_named(browser, 3);
    assert_quiet(browser, &[peer.host()]);
    open_live(browser, &origin.url);
    browser.until(&row("catalogue", &["app", "shared, set"]));
    show_details(browser, "shared, set");
    browser.until(&shows("details-tiles", "a set: a folder with one version"));
    assert_quiet(browser, &[peer.host(), origin.host()]);
}

async fn indexer(neighbors: &[SocketAddr]) -> IndexerHandle {
    let neighbors = neighbors.iter().copied().map(Into::into).collect();
    let config = Config { listen: ANY_PORT, http: Some(ANY_PORT), neighbors, ..Config::default() };
    Indexer::spawn(config).await.unwrap()
}

fn indexer_shows_its_neighbors_and_what_it_is_asked(browser: &Browser) {
    let runtime = Runtime::new().unwrap();
    let other = runtime.block_on(indexer(&[]));
    let (_port, away) = kept_port();
    let shown = runtime.block_on(indexer(&[other.local_addr(), away]));
    runtime.block_on(shown.neighbors_reach(1));
    let theirs = Home::with(&["--indexer", &shown.local_addr().to_string()]);
    for n in 0..30 {
        theirs.write(&format!("models/cuda-{n}.bin"), bytes(n, 1000));
    }
    let _sharing = theirs.share(&["models"]);
    let host = shown.http_addr().unwrap().to_string();
    open_live(browser, &format!("http://{host}"));
    let neighbor = other.local_addr().to_string();
    browser.until(&row("neighbors", &[&neighbor, "up", &other.node().to_string()[..8], "trusted"]));
    browser.until(&row("neighbors", &[&away.to_string(), "away"]));
    for tile in [
        ["Queries", "per s"],
        ["Names listed", "30"],
        ["Peers connected", "1"],
        ["Neighbors connected", "1 of 2"],
    ] {
        browser.until(&row("tiles", &tile));
    }
    for figure in [["Memory of the process", "MiB"], ["Memory for other nodes", "of"], ["Uptime", "s"]] {
        browser.until(&row("figures", &figure));
    }
    // Each stays one: the numbers are replaced each second.
    let uptime = "[...document.getElementById('figures').children].find((at) => at.innerText.includes('Uptime')).innerText";
    let counted = "document.getElementById('tiles').children.length + document.getElementById('figures').children.length";
    browser.value(&format!("window.uptime = {uptime}; window.counted = {counted}"));
    browser.until(&format!("window.uptime !== {uptime}"));
    let counts = browser.value(&format!(
        "return [window.counted, {counted}, document.getElementById('tiles').children.length]"
    ));
    assert_eq!((&counts[0], &counts[2]), (&counts[1], &json!(4)), "{counts}");
    // It says how many answers took how long since the start. How many bars that makes is up to the machine.
    let before = browser.value("return window.before = document.querySelector('#latency').innerHTML");
    assert!(before.as_str().is_some_and(|before| before.contains("Answers since the start")), "{before}");
    let names: Vec<_> = (0..30).map(|n| format!("models/cuda-{n}.bin")).collect();
    for asked in 1..6 {
        let names = names.iter().take(6 * asked % 29).map(String::as_str);
        theirs.done(&["query", "models/cuda-0.bin"].into_iter().chain(names).collect::<Vec<_>>());
    }
    browser.until("document.querySelector('#latency').innerHTML !== window.before");
    browser.until("document.querySelector('#rate .curve')");
    search(browser, "models/*-1?.bin", "models/cuda-12.bin");
    look_at(browser, "indexer");
    assert_everything_is_named(browser, 6);
    assert_quiet(browser, &[&host]);
    runtime.block_on(other.shutdown());
    browser.until(&row("neighbors", &[&neighbor, "away"]));
}

#[test]
fn dashboards_journey() {
    let Some(browser) = Browser::start() else { return };
    let (_indexers, theirs, mine) = two_homes();
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
    keyboard_reaches_everything(&browser, &peer);
    assert_quiet(&browser, &[peer.host()]);
    token_is_asked_for_and_files_are_published(&browser, &peer, theirs);
    browser.console_and_hosts(); // a wrong token is an error there
    job_that_has_ended_stays_ended(&browser);
    files_are_found_fetched_and_cancelled(&browser, &peer, theirs);
    downloads_are_paused_and_limited(&browser, &peer);
    new_version_is_seen_to_arrive_and_fetched(&browser, &peer, theirs);
    a_changed_copy_is_replaced_and_all_matches_are_followed(&browser, &peer, theirs);
    markup_is_text_and_files_do_not_run(&browser, &peer);
    set_goes_back(&browser, &peer, &origin);
    indexer_shows_its_neighbors_and_what_it_is_asked(&browser);
    browser.close();
}
