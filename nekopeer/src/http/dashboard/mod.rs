//! The dashboard of a peer: pages that the program carries with it, beside those that all dashboards share, and QR codes.

use axum::{
    Router,
    extract::{Query, rejection::QueryRejection},
    http::header,
    response::IntoResponse,
    routing::get,
};
use nekoindexer::daemon::http::Problem;
use nekoproto::Ticket;
use serde::Deserialize;

use crate::util::qr::{QrFormat, draw};

/// `/`, `/assets/` and `/qr.svg`.
pub(crate) fn router() -> Router {
    let pages = nekoindexer::dashboard::pages(
        include_str!("index.html"),
        &[
            ("app.js", include_str!("app.js")),
            ("details.js", include_str!("details.js")),
            ("files.js", include_str!("files.js")),
            ("media.js", include_str!("media.js")),
            ("note.js", include_str!("note.js")),
            ("throttle.js", include_str!("throttle.js")),
            ("tickets.js", include_str!("tickets.js")),
            ("token.js", include_str!("token.js")),
            ("transfers.js", include_str!("transfers.js")),
        ],
    );
    pages.route("/qr.svg", get(qr_code))
}

#[derive(Debug, Deserialize)]
struct Drawn {
    ticket: String,
}

/// Draws a ticket as a QR code. Other texts are refused: a code of this peer leads to a file.
async fn qr_code(drawn: Result<Query<Drawn>, QueryRejection>) -> Result<impl IntoResponse, Problem> {
    let Query(Drawn { ticket }) = drawn.map_err(|error| Problem::bad_request(error.body_text()))?;
    if ticket.parse::<Ticket>().is_err() {
        return Err(Problem::bad_request("ticket is what /api/v1/ticket answers: neko:..."));
    }
    let svg = draw(&ticket, QrFormat::Svg)
        .map_err(|_| Problem::bad_request("the ticket is too long for a QR code"))?;
    Ok(([(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "no-store")], svg))
}
