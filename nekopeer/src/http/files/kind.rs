//! What kind of file a name stands for, and whether a browser may show it.

use hyper::{
    HeaderMap,
    header::{
        CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS,
    },
};
use nekoproto::FileName;

/// What a browser may do with a shared file that it opens: nothing but show it. It has no origin, so it cannot reach
/// this peer's other pages.
const SANDBOX: &str =
    "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'";
/// Kinds of texts that are shown; other texts (HTML, XML, scripts) may run.
const TEXTS_SHOWN: [&str; 5] = ["plain", "css", "csv", "markdown", "x-log"];

/// Says in `headers` what the file is, and that whoever opens it must not let it act for this peer: a file is what
/// somebody else shared, under the address of the dashboard.
pub(super) fn describe(name: &FileName, headers: &mut HeaderMap) {
    let kind = mime_guess::from_path(name.as_path()).first_or_octet_stream();
    let (top, sub) = (kind.type_().as_str(), kind.subtype().as_str());
    let is_text = top == "text" && TEXTS_SHOWN.contains(&sub);
    let is_media = matches!(top, "image" | "audio" | "video" | "font") && sub != "svg";
    let is_shown = is_text || is_media || kind == mime_guess::mime::APPLICATION_JSON;
    let text = if is_text { format!("{kind}; charset=utf-8") } else { kind.to_string() };
    let unknown = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, text.parse().unwrap_or(unknown));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    if !is_shown && let Ok(disposition) = attachment(name).parse() {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
}

/// Saves the file under the last part of its name (RFC 6266).
fn attachment(name: &FileName) -> String {
    let last = name.as_str().rsplit('/').next().unwrap_or_default();
    let mut text = "attachment; filename*=UTF-8''".to_owned();
    for byte in last.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        describe(&FileName::new(name).unwrap(), &mut headers);
        headers
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
        ];
        for (name, kind) in cases {
            assert_eq!(headers(name)[CONTENT_TYPE], kind, "{name}");
        }
    }

    #[test]
    fn what_a_browser_would_run_is_saved_and_never_runs_here() {
        let active =
            ["a.html", "a.htm", "a.xhtml", "a.svg", "a.xml", "a.js", "a.mjs", "a.xsl", "a.mht", "a.swf"];
        for name in
            active.into_iter().chain(["a.SVG", "a.svgz", "a.pdf", "a.unheardof", "a.rdf", "a.vtt.html"])
        {
            assert!(headers(name).contains_key(CONTENT_DISPOSITION), "{name}");
        }
        for name in ["a.png", "a.txt", "a.webm", "a.json", "a.html"] {
            let headers = headers(name);
            assert!(headers[CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("sandbox;"), "{name}");
            assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert_eq!(headers.contains_key(CONTENT_DISPOSITION), name == "a.html", "{name}");
        }
    }

    #[test]
    fn the_name_of_a_saved_file_cannot_leave_its_header() {
        let said = headers("deep/a \"b\"; ü.bin");
        let said = said[CONTENT_DISPOSITION].to_str().unwrap();
        assert_eq!(said, "attachment; filename*=UTF-8''a%20%22b%22%3B%20%C3%BC.bin");
    }
}
