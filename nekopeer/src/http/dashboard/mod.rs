//! The dashboard of a peer: pages that the program carries with it, beside those that all dashboards share.

use axum::Router;

/// `/` and `/assets/`.
pub(crate) fn router() -> Router {
    nekoindexer::dashboard::pages(
        include_str!("index.html"),
        &[
            ("app.js", include_str!("app.js")),
            ("details.js", include_str!("details.js")),
            ("token.js", include_str!("token.js")),
            ("transfers.js", include_str!("transfers.js")),
        ],
    )
}
