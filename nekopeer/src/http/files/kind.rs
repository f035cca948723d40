//! What kind of file a name stands for, and whether a browser may show it.

use hyper::{
    HeaderMap,
    header::{
        CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS,
    },
};
use nekoproto::FileName;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What a browser may do with a shared file that it opens: show it. No script runs, and the file has no origin, so that it
/// cannot reach this peer's pages. A PDF is shown by the browser's viewer, which is apart from this peer's pages too.
const SANDBOX: &str =
    "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'";
/// The same for audio and video, which keep their origin: the player of the browser asks for ranges of the file, and may not
/// without one. No script runs here either.
const PLAYED: &str =
    "sandbox allow-same-origin; default-src 'none'; media-src 'self'; style-src 'unsafe-inline'";
/// What is escaped in the name of a saved file.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
/// Kinds of texts that are shown; other texts (HTML, XML, scripts) may run.
const TEXTS_SHOWN: [&str; 5] = ["plain", "css", "csv", "markdown", "x-log"];

/// Says in `headers` what the file is, and that whoever opens it must not let it act for this peer: a file is what
/// somebody else shared, under the address of the dashboard.
pub(super) fn describe(name: &FileName, headers: &mut HeaderMap) {
    let kind = mime_guess::from_path(name.as_path()).first_or_octet_stream();
    let (top, sub) = (kind.type_().as_str(), kind.subtype().as_str());
    let is_text = top == "text" && TEXTS_SHOWN.contains(&sub);
    let is_media = matches!(top, "image" | "audio" | "video" | "font") && sub != "svg";
    let is_document = kind == mime_guess::mime::APPLICATION_JSON || kind == mime_guess::mime::APPLICATION_PDF;
    let is_shown = is_text || is_media || is_document;
    let text = if is_text { format!("{kind}; charset=utf-8") } else { kind.to_string() };
    let unknown = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, text.parse().unwrap_or(unknown));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = if matches!(top, "audio" | "video") { PLAYED } else { SANDBOX };
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    if let Ok(disposition) = disposition(name, is_shown).parse() {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
}

/// Shows the file or saves it, under the last part of its name (RFC 6266). First, in plain ASCII, for programs that
/// read no more than that, such as curl.
fn disposition(name: &FileName, is_shown: bool) -> String {
    let last = name.as_str().rsplit('/').next().unwrap_or_default();
    let is_plain = |c: char| matches!(c, ' '..='~') && !"\"\\%".contains(c);
    let plain: String = last.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let what = if is_shown { "inline" } else { "attachment" };
    format!("{what}; filename=\"{plain}\"; filename*=UTF-8''{}", utf8_percent_encode(last, &ESCAPED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        describe(&FileName::new(name).unwrap(), &mut headers);
        headers
    }

    fn is_saved(headers: &HeaderMap) -> bool {
        headers[CONTENT_DISPOSITION].as_bytes().starts_with(b"attachment;")
    }

    #[test]
    fn the_name_says_the_kind() {
        let cases = [
            ("a.txt", "text/plain; charset=utf-8"),
            ("deep/a.PNG", "image/png"),
            ("a.tar.gz", "application/gzip"),
            ("a.json", "application/json"),
            ("a", "application/octet-stream"),
            ("a.unheardof", "application/octet-stream"),
            ("a.mp4", "video/mp4"),
            ("a.webm", "video/webm"),
            ("a.wav", "audio/wav"),
            ("a.mp3", "audio/mpeg"),
            ("a.pdf", "application/pdf"),
        ];
        for (name, kind) in cases {
            assert_eq!(headers(name)[CONTENT_TYPE], kind, "{name}");
        }
    }

    #[test]
    fn what_a_browser_would_run_is_saved_and_never_runs_here() {
        let active =
            ["a.html", "a.htm", "a.xhtml", "a.svg", "a.xml", "a.js", "a.mjs", "a.xsl", "a.mht", "a.swf"];
        for name in active.into_iter().chain(["a.SVG", "a.svgz", "a.unheardof", "a.rdf", "a.vtt.html"]) {
            assert!(is_saved(&headers(name)), "{name}");
        }
        for name in ["a.png", "a.txt", "a.webm", "a.wav", "a.pdf", "a.json", "a.html"] {
            let headers = headers(name);
            let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
            let sandbox = if [".webm", ".wav"].iter().any(|end| name.ends_with(end)) {
                "sandbox allow-same-origin;"
            } else {
                "sandbox;"
            };
            assert!(policy.starts_with(&format!("{sandbox} default-src 'none'")), "{name}: {policy}");
            assert!(!policy.contains("script"), "{name}: {policy}");
            assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert_eq!(is_saved(&headers), name == "a.html", "{name}");
        }
    }

    #[test]
    fn the_name_of_a_saved_file_cannot_leave_its_header() {
        let cases = [
            ("deep/my model.bin", "attachment; filename=\"my model.bin\"; filename*=UTF-8''my%20model.bin"),
            (
                "a \"b\"; ü%41.bin",
                "attachment; filename=\"a _b_; __41.bin\"; filename*=UTF-8''a%20%22b%22%3B%20%C3%BC%2541.bin",
            ),
            ("a b.txt", "inline; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt"),
        ];
        for (name, said) in cases {
            assert_eq!(headers(name)[CONTENT_DISPOSITION], said);
        }
    }
}
