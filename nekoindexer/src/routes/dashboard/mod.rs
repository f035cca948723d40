//! The dashboard: pages that the program carries with it. They load nothing from elsewhere and have no inline script or
//! style, so that the strict content security policy of [`crate::daemon::http`] holds.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::{
    Router,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

pub(crate) fn router() -> Router {
    pages(
        include_str!("index.html"),
        &[("app.js", include_str!("app.js")), ("charts.js", include_str!("charts.js"))],
    )
}

/// A dashboard: `index` at `/`, `scripts` by their names below `/assets/`, and there what all dashboards share: the style
/// sheet, the icon, and the scripts `common.js` and `theme.js`.
pub fn pages(index: &'static str, scripts: &[(&str, &'static str)]) -> Router {
    let shared = [("common.js", include_str!("common.js")), ("theme.js", include_str!("theme.js"))];
    let mut router = Router::new()
        .route("/", file(HTML, index))
        .route("/assets/style.css", file("text/css; charset=utf-8", include_str!("style.css")))
        .route("/assets/icon.svg", file("image/svg+xml", include_str!("icon.svg")));
    for (name, text) in shared.iter().chain(scripts) {
        router = router.route(&format!("/assets/{name}"), file(SCRIPT, text));
    }
    router
}

/// A file that does not change while the program runs: a browser keeps it, and asks each time whether it still holds.
fn file(kind: &'static str, text: &'static str) -> MethodRouter {
    let tag = tag(text);
    get(async move |headers: HeaderMap| -> Response {
        let is_known = headers.get_all(header::IF_NONE_MATCH).iter().any(|known| holds(known, &tag));
        let head = [(header::ETAG, tag), (header::CACHE_CONTROL, "no-cache".to_owned())];
        if is_known {
            return (StatusCode::NOT_MODIFIED, head).into_response();
        }
        (head, [(header::CONTENT_TYPE, kind)], text).into_response()
    })
}

fn tag(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

/// Whether `tag` is among the tags of an `If-None-Match`; weak ones count.
fn holds(known: &HeaderValue, tag: &str) -> bool {
    let known = known.to_str().unwrap_or_default();
    known.split(',').map(str::trim).any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_tag_is_recognised_in_a_list() {
        let holds = |known| holds(&HeaderValue::from_static(known), "\"b\"");
        assert!(["\"b\"", "W/\"b\"", "\"a\", \"b\"", "\"a\",W/\"b\"", "*"].into_iter().all(holds));
        assert!(!["b", "\"a\"", "", "\"bb\""].into_iter().any(holds));
    }

    /// The content security policy forbids inline scripts, styles and listeners, and other hosts.
    #[test]
    fn the_page_has_nothing_inline_and_nothing_from_elsewhere() {
        let page = include_str!("index.html");
        for forbidden in ["<style", "style=", " onclick", " onload", "http:", "https:", "//"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert_eq!(page.matches("<script").count(), page.matches("<script src=").count());
    }
}
