//! The dashboards in a real browser: two peers and two indexers, driven as a user would, by mouse and by keyboard.

mod chromium;

use std::{fs, path::PathBuf};

use chromium::Browser;
use fantoccini::key::Key;
use serde_json::{Value, json};

use crate::program::{Home, Running, bytes};

/// A name that is markup, and one that turns the reading direction to look like a text.
const MARKUP: &str = "<img src=x onerror=alert(1)>.txt";
const TURNED: &str = "notes/\u{202e}txt.exe";

/// The rows of a table's body, as text.
const ROWS: &str = "(id) => [...document.getElementById(id).children].map((row) => row.innerText)";

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

/// Fails if the console of the browser holds anything, or if a page asked other hosts than `hosts` for something.
async fn assert_quiet(browser: &Browser, hosts: &[&str]) {
    let (console, asked) = browser.console_and_hosts().await;
    assert_eq!(console, Vec::<String>::new(), "the console is empty");
    assert!(!asked.is_empty() && asked.iter().all(|host| hosts.contains(&host.as_str())), "{asked:?}");
}

/// Fails if something that a reader can act on, or a table, has no name for those who hear the page.
async fn assert_everything_is_named(browser: &Browser) {
    let tree = browser.tool("Accessibility.getFullAXTree", json!({})).await;
    let nodes = tree["nodes"].as_array().unwrap();
    let kinds = ["button", "link", "searchbox", "textbox", "table", "progressbar", "region", "dialog", "img", "log"];
    let seen = |node: &&Value| node["ignored"] == false;
    let of_kind = |node: &&Value| kinds.iter().any(|kind| node["role"]["value"] == *kind);
    let named: Vec<&Value> = nodes.iter().filter(seen).filter(of_kind).collect();
    assert!(named.len() > 5, "the page is there: {named:#?}");
    for node in named {
        assert!(node["name"]["value"].as_str().is_some_and(|name| !name.is_empty()), "{node:#}");
    }
}

/// Whether the page is wider than the window.
async fn assert_fits(browser: &Browser) {
    let widths = browser.value("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]").await;
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
                fs::write(folder.join(format!("{page}-{shape}-{theme}.png")), browser.picture().await).unwrap();
            }
        }
    }
    browser.appear(1280, "light").await;
}

#[tokio::test]
async fn try_the_mock() {
    let Some(browser) = Browser::start().await else { return };
    browser.open("http://127.0.0.1:8801/").await;
    browser.until("document.getElementById('catalogue').children.length === 9").await;
    assert_everything_is_named(&browser).await;
    browser.press(Key::Tab).await;
    look_at(&browser, "peer").await;
    assert_quiet(&browser, &["127.0.0.1:8801"]).await;
    browser.close().await;
}
