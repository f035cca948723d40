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

/// The REST route of a command: the structure is the request, which a function may check, and the rows are the answer.
macro_rules! route {
    ($(#[$doc:meta])* get $path:literal $name:ident($request:ident $($check:ident)?) -> $($answer:tt)*) => {
        route!(@ $(#[$doc])* get $path [params($request)] $name([] Asked<$request> $($check)?) -> $($answer)*);
    };
    ($(#[$doc:meta])* delete $path:literal $name:ident($request:ident) -> $($answer:tt)*) => {
        route!(@ $(#[$doc])* delete $path [params($request), security(("token" = []))]
            $name([_: Authorized,] Asked<$request>) -> $($answer)*);
    };
    ($(#[$doc:meta])* post $path:literal $name:ident($request:ident $($check:ident)?) -> $($answer:tt)*) => {
        route!(@ $(#[$doc])* post $path [request_body = $request, security(("token" = []))]
            $name([_: Authorized,] Json<$request> $($check)?) -> $($answer)*);
    };
    (@ $(#[$doc:meta])* $method:ident $path:literal [$($described:tt)*]
        $name:ident([$($token:tt)*] $extractor:ident<$request:ident> $($check:ident)?) -> $answer:ident, $said:literal
    ) => {
        $(#[$doc])*
        #[utoipa::path(
            $method,
            path = $path,
            responses((status = 200, description = $said, body = $answer), Refused),
            $($described)*
        )]
        pub(super) async fn $name(
            $($token)*
            State(inside): State<Arc<Inside>>,
            $extractor(request): $extractor<$request>,
        ) -> Result<Response, Problem> {
            $(let request = $check(&inside, request)?;)?
            answered(&inside, request).await
        }
    };
}
pub(super) use route;
