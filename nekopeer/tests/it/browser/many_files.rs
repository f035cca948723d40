//! The page of a peer with thousands of files in a real browser: folders, filter, order, pages, a selection and its actions.

use std::time::Duration;

use serde_json::json;
use tokio::{runtime::Runtime, time::timeout};

use super::{
    Served, assert_everything_is_named, assert_quiet, chromium::Browser, give_token, look_at, open_live, row,
    shows,
};
use crate::program::*;

/// Time limit of the test, for a browser that hangs.
const WITHIN: Duration = Duration::from_secs(240);
/// Files that are shared.
const FILES: usize = 10_000;

async fn click_in_row(browser: &Browser, text: &str, what: &str) {
    let rows = "[...document.getElementById('catalogue').children]";
    let find = format!("{rows}.find((row) => row.innerText.includes({}))", json!(text));
    browser.until(&find).await;
    browser.value(&format!("{find}.querySelector({}).click()", json!(what))).await;
}

async fn filter(browser: &Browser, words: &str) {
    let script = "const field = document.getElementById('filter'); field.value = arguments_0; field.dispatchEvent(new Event('input'))";
    browser.value(&script.replace("arguments_0", &json!(words).to_string())).await;
}

async fn choose(browser: &Browser, order: &str) {
    let script = format!(
        "const field = document.getElementById('sort'); field.value = '{order}'; field.dispatchEvent(new Event('change'))"
    );
    browser.value(&script).await;
}

/// The first row's text.
const FIRST: &str = "document.getElementById('catalogue').firstElementChild.innerText";

async fn folders_lead_to_pages_of_files(browser: &Browser) {
    browser.until(&shows("catalogue-line", "10\u{202f}000 files")).await;
    assert_eq!(browser.value("return document.getElementById('catalogue').children.length").await, 4);
    browser.until(&row("catalogue", &["data/", "9\u{202f}997 files"])).await;
    look_at(browser, "peer-many").await;
    click_in_row(browser, "data/", "button.link").await;
    click_in_row(browser, "96/", "button.link").await;
    browser.until(&shows("crumbs", "all files / data / 96")).await;
    browser.until(&shows("pages-line", "1 to 25 of 100 files")).await;
    browser.click_until("#next", &shows("pages-line", "26 to 50 of 100 files")).await;
    browser.until(&row("catalogue", &["f3396.bin"])).await;
    browser.click_until("#previous", &shows("pages-line", "1 to 25 of 100 files")).await;
    assert_eq!(browser.value("return document.getElementById('under').value").await, "data/96");
    browser.click_until("#crumbs button", &row("catalogue", &["data/"])).await;
}

async fn filter_and_order_are_the_peers(browser: &Browser) {
    filter(browser, "F777 .BIN").await;
    browser.until(&shows("catalogue-line", "11 matching files")).await;
    choose(browser, "-size").await;
    browser.until(&format!("{FIRST}.includes('f7779.bin')")).await;
    choose(browser, "name").await;
    browser.until(&format!("{FIRST}.includes('data/70/f7770.bin')")).await;
    look_at(browser, "peer-filter").await;
    filter(browser, "nothing-is-so-named").await;
    browser.until(&shows("catalogue-none", "No name has nothing-is-so-named.")).await;
    filter(browser, "").await;
    browser.until(&row("catalogue", &["data/"])).await;
}

/// Several files are selected over several views; their tickets are copied, and they are unshared.
async fn a_selection_is_acted_on(browser: &Browser, peer: &Served) {
    click_in_row(browser, "one.txt", ".pick input").await;
    filter(browser, "f777").await;
    browser.until(&shows("catalogue-line", "11 matching files")).await;
    browser.click_until("#select-page", &shows("selection-line", "12 files selected")).await;
    browser.click("#tickets-selected").await;
    browser.until("document.getElementById('ticket').value.split('\\n').length === 12").await;
    assert_eq!(browser.value("return document.getElementById('ticket-code').hidden").await, true);
    browser.click("#ticket-close").await;
    browser.click_until("#unshare-selected", &shows("unshare-what", "12 files of this peer")).await;
    browser.click("#unshare-form button").await;
    give_token(browser, &peer.token()).await;
    browser.until(&shows("note", "unshared 12 files")).await;
    filter(browser, "").await;
    browser.until(&shows("catalogue-line", "9\u{202f}988 files")).await;
    peer.home.run(&["get", "one.txt", "-o", "elsewhere"]).failed_with(1, &["one.txt"]);
    assert!(peer.home.path("one.txt").exists(), "the files stay");
}

/// The code is that of the ticket, drawn by the peer.
async fn a_ticket_has_a_qr_code(browser: &Browser) {
    click_in_row(browser, "two.txt", ".acts button:nth-of-type(2)").await;
    browser.until("document.getElementById('ticket').value.startsWith('nekopeer get neko:')").await;
    browser.until("document.getElementById('ticket-qr').naturalWidth >= 240").await;
    let same = "decodeURIComponent(document.getElementById('ticket-qr').src.split('ticket=')[1]) === document.getElementById('ticket').value.split(' ')[2]";
    browser.until(same).await;
    look_at(browser, "ticket").await;
    browser.click("#ticket-close").await;
}

#[test]
fn ten_thousand_files_are_browsed_filtered_and_unshared() {
    let (_indexers, home) = one_home();
    let all = async {
        let Some(browser) = Browser::start().await else { return };
        for n in 0..FILES - 3 {
            home.write(&format!("data/{}/f{n}.bin", n % 100), vec![b'a'; n % 1000]);
        }
        for name in ["one.txt", "three.txt", "two.txt"] {
            home.write(name, name);
        }
        let peer = Served::start(home, &[]);
        peer.home.done(&["share", "data", "one.txt", "two.txt", "three.txt"]);
        open_live(&browser, &peer.url).await;
        folders_lead_to_pages_of_files(&browser).await;
        filter_and_order_are_the_peers(&browser).await;
        assert_everything_is_named(&browser, 6).await;
        a_ticket_has_a_qr_code(&browser).await;
        assert_quiet(&browser, &[peer.host()]).await;
        a_selection_is_acted_on(&browser, &peer).await;
        browser.close().await;
    };
    Runtime::new().unwrap().block_on(async { timeout(WITHIN, all).await }).unwrap();
}
