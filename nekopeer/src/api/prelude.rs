//! What most commands use, and [`route!`].

pub(super) use std::sync::Arc;

pub(super) use axum::{Json, extract::State, response::Response};
pub(super) use nekoindexer::daemon::http::{Authorized, Problem};
pub(super) use nekoproto::FileName;
pub(super) use serde::{Deserialize, Serialize};
pub(super) use utoipa::{IntoParams, ToSchema};

pub(super) use super::{
    About, Answer, Api, Command, Done, Failure, FailureKind, Host, Input, Need, NoCommand, Outcome, Saying,
    Shape,
    rest::{
        Asked, Inside, answered,
        described::{Name, Refused},
    },
    rows::*,
    said,
    views::{Lines, View},
};

/// The REST route of a command: the structure is the request, and its rows are the answer.
macro_rules! route {
    ($(#[$doc:meta])* get $path:literal $name:ident($request:ident) -> $answer:ident, $said:literal) => {
        $(#[$doc])*
        #[utoipa::path(
            get,
            path = $path,
            params($request),
            responses((status = 200, description = $said, body = $answer), Refused),
        )]
        pub(super) async fn $name(
            State(inside): State<Arc<Inside>>,
            Asked(request): Asked<$request>,
        ) -> Result<Response, Problem> {
            answered(&inside, request).await
        }
    };
    ($(#[$doc:meta])* delete $path:literal $name:ident($request:ident) -> $answer:ident, $said:literal) => {
        $(#[$doc])*
        #[utoipa::path(
            delete,
            path = $path,
            params($request),
            responses((status = 200, description = $said, body = $answer), Refused),
            security(("token" = [])),
        )]
        pub(super) async fn $name(
            _: Authorized,
            State(inside): State<Arc<Inside>>,
            Asked(request): Asked<$request>,
        ) -> Result<Response, Problem> {
            answered(&inside, request).await
        }
    };
    ($(#[$doc:meta])* post $path:literal $name:ident($request:ident) -> $answer:ident, $said:literal) => {
        $(#[$doc])*
        #[utoipa::path(
            post,
            path = $path,
            request_body = $request,
            responses((status = 200, description = $said, body = $answer), Refused),
            security(("token" = [])),
        )]
        pub(super) async fn $name(
            _: Authorized,
            State(inside): State<Arc<Inside>>,
            Json(request): Json<$request>,
        ) -> Result<Response, Problem> {
            answered(&inside, request).await
        }
    };
}
pub(super) use route;
