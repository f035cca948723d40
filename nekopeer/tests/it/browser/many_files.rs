//! The page of a peer with thousands of files in a real browser: folders, filter, order, pages, a selection and its actions.

use super::{
    Served, assert_everything_is_named, assert_quiet, chromium::Browser, give_token, look_at, open_live, row,
    shows,
};
use crate::program::*;

const FILES: usize = 10_000;

fn click_in_row(browser: &Browser, text: &str, what: &str) {
    let rows = "[...document.getElementById('catalogue').children]";
    let find = format!("{rows}.find((row) => row.innerText.includes({}))", json!(text));
    browser.until(&find);
    browser.value(&format!("{find}.querySelector({}).click()", json!(what)));
}

fn filter(browser: &Browser, words: &str) {
    let script = "const field = document.getElementById('filter'); field.value = arguments_0; field.dispatchEvent(new Event('input'))";
    browser.value(&script.replace("arguments_0", &json!(words).to_string()));
}

fn choose(browser: &Browser, order: &str) {
    let script = format!(
        "const field = document.getElementById('sort'); field.value = '{order}'; field.dispatchEvent(new Event('change'))"
    );
    browser.value(&script);
}

const FIRST: &str = "document.getElementById('catalogue').firstElementChild.innerText";

fn folders_lead_to_pages_of_files(browser: &Browser) {
    browser.until(&shows("catalogue-line", "10\u{202f}000 files"));
    assert_eq!(browser.value("return document.getElementById('catalogue').children.length"), 4);
    browser.until(&row("catalogue", &["data/", "9\u{202f}997 files"]));
    look_at(browser, "peer-many");
    click_in_row(browser, "data/", "button.link");
    click_in_row(browser, "96/", "button.link");
    browser.until(&shows("crumbs", "all files / data / 96"));
    browser.until(&shows("pages-line", "1 to 25 of 100 files"));
    browser.click_until("#next", &shows("pages-line", "26 to 50 of 100 files"));
    browser.until(&row("catalogue", &["f3396.bin"]));
    browser.until("document.activeElement.id === 'next'");
    browser.value("location.reload()");
    browser.until(&shows("pages-line", "26 to 50 of 100 files")); // it is in the address
    browser.until(&shows("live", "live"));
    browser.click_until("#previous", &shows("pages-line", "1 to 25 of 100 files"));
    assert_eq!(browser.value("return document.getElementById('under').value"), "data/96");
    browser.click_until("#crumbs button", &row("catalogue", &["data/"]));
}

fn filter_and_order_are_the_peers(browser: &Browser) {
    filter(browser, "F777 .BIN");
    browser.until(&shows("catalogue-line", "11 matching files"));
    choose(browser, "-size");
    browser.until(&format!("{FIRST}.includes('f7779.bin')"));
    choose(browser, "name");
    browser.until(&format!("{FIRST}.includes('data/70/f7770.bin')"));
    look_at(browser, "peer-filter");
    filter(browser, "nothing-is-so-named");
    browser.until(&shows("catalogue-none", "No name has nothing-is-so-named."));
    filter(browser, "");
    browser.until(&row("catalogue", &["data/"]));
}

/// A folder, or all that the filter finds, is selected at once, whatever pages it has.
fn folders_and_all_matches_are_selected(browser: &Browser) {
    filter(browser, "f777");
    browser.until(&shows("catalogue-line", "11 matching files"));
    filter(browser, "f77");
    browser.until(&shows("select-all", "select all 111"));
    browser.click_until("#select-all", &shows("selection-line", "111 files selected"));
    filter(browser, "");
    let is_part = "document.querySelector('#catalogue .folder input')?.indeterminate";
    browser.until(is_part);
    click_in_row(browser, "data/", "button.link");
    click_in_row(browser, "96/", ".pick input");
    browser.until(&shows("selection-line", "210 files selected")); // f7796 was already
    click_in_row(browser, "96/", ".pick input");
    browser.until(&shows("selection-line", "110 files selected"));
    browser.click_until("#crumbs button", &row("catalogue", &["one.txt"]));
    click_in_row(browser, "data/", ".pick input");
    browser.until(&shows("selection-line", "9\u{202f}997 files selected"));
    browser.until(&format!("!{is_part}"));
    look_at(browser, "peer-selected");
    assert_eq!(
        browser.value("return document.getElementById('follow-selected').hidden"),
        true,
        "all are own"
    );
    browser.click("#clear-selected");
}

/// Several files are selected over several views; their tickets are copied, and they are unshared.
fn a_selection_is_acted_on(browser: &Browser, peer: &Served) {
    click_in_row(browser, "one.txt", ".pick input");
    filter(browser, "f777");
    browser.until(&shows("catalogue-line", "11 matching files"));
    browser.click_until("#select-page", &shows("selection-line", "12 files selected"));
    browser.click("#tickets-selected");
    browser.until("document.getElementById('ticket').value.split('\\n').length === 12");
    assert_eq!(browser.value("return document.getElementById('ticket-code').hidden"), true);
    browser.click("#ticket-close");
    browser.click_until("#unshare-selected", &shows("confirm-what", "12 files of this peer"));
    browser.click("#confirm-go");
    browser.until("document.getElementById('token-box').open");
    look_at(browser, "token");
    give_token(browser, &peer.http.token);
    browser.until(&shows("note", "unshared 12 files"));
    filter(browser, "");
    browser.until(&shows("catalogue-line", "9\u{202f}988 files"));
    peer.home.run(&["get", "one.txt", "-o", "elsewhere"]).failed_with(1, &["one.txt"]);
    assert!(peer.home.path("one.txt").exists(), "the files stay");
}

fn a_ticket_has_a_qr_code(browser: &Browser) {
    click_in_row(browser, "two.txt", ".acts button:nth-of-type(2)");
    browser.until("document.getElementById('ticket').value.startsWith('nekopeer get neko:')");
    browser.until("document.getElementById('ticket-qr').naturalWidth >= 240");
    let same = "decodeURIComponent(document.getElementById('ticket-qr').src.split('ticket=')[1]) === document.getElementById('ticket').value.split(' ')[2]";
    browser.until(same);
    look_at(browser, "ticket");
    browser.click("#ticket-close");
}

#[test]
fn ten_thousand_files_are_browsed_filtered_and_unshared() {
    let Some(browser) = Browser::start() else { return };
    let (_indexers, home) = one_home();
    for n in 0..FILES - 3 {
        home.write(&format!("data/{}/f{n}.bin", n % 100), vec![b'a'; n % 1000]);
    }
    home.write_each(&["one.txt", "three.txt", "two.txt"]);
    let peer = Served::start(home, &[]);
    peer.home.done(&["share", "data", "one.txt", "two.txt", "three.txt"]);
    open_live(&browser, &peer.url);
    folders_lead_to_pages_of_files(&browser);
    filter_and_order_are_the_peers(&browser);
    assert_everything_is_named(&browser, 6);
    a_ticket_has_a_qr_code(&browser);
    assert_quiet(&browser, &[peer.host()]);
    folders_and_all_matches_are_selected(&browser);
    a_selection_is_acted_on(&browser, &peer);
    let Served { home: _home, _running: running, .. } = peer;
    drop(running);
    browser.until(&shows("live", "no answer"));
    look_at(&browser, "peer-gone");
    browser.close();
}
