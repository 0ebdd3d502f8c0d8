//! `POST /command`: from a request's body to the replies of the server.
//!
//! Only a few requests of this kind are under way at a time, each for a few seconds: while the server does not reply,
//! there is room for requests for numbers.

use crate::answers::{Answer, JSON, failed, said};
use crate::backend::{Backend, Caller};
use crate::command_request::{self, CommandRequest};
use crate::command_session::{self, Outcome};
use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Body;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Bytes of a body.
pub(crate) const BODY_MAX: usize = 1 << 20;

/// Requests with commands at a time. Each needs a file beside those of clients.
pub const REQUESTS_MAX: usize = 4;

/// Time that the server has for the commands of a request: less than the connection has for all.
const REPLY_TIME: Duration = Duration::from_secs(5);

/// The error of a body that is cut short.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The entry of commands.
pub(crate) struct CommandPermits(Semaphore);

impl CommandPermits {
    pub fn new() -> CommandPermits {
        CommandPermits(Semaphore::new(REQUESTS_MAX))
    }

    /// Runs the commands of a body for a caller with this user.
    pub async fn answer<B: Body<Error: Into<Failure>>>(
        &self,
        body: B,
        caller: &Caller,
        user: Option<&[u8]>,
        backend: &dyn Backend,
    ) -> Answer {
        // A body that is announced as too large is not waited for.
        if body.size_hint().lower() > BODY_MAX as u64 {
            return failed(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");
        }
        let Ok(body) = Limited::new(body, BODY_MAX).collect().await else {
            return failed(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large, or its end is missing");
        };
        let request = match command_request::parse(&body.to_bytes()) {
            Ok(request) => request,
            Err(why) => return failed(StatusCode::BAD_REQUEST, why),
        };
        if let Some(why) = request.commands.iter().find_map(|command| backend.unsuitable(command)) {
            return failed(StatusCode::UNPROCESSABLE_ENTITY, &why);
        }
        let mut outcome = Outcome::default();
        let work = self.run(&request, caller, user, backend, &mut outcome);
        let status = match timeout(REPLY_TIME, work).await {
            Ok(status) => status,
            Err(_) => {
                outcome.failure = Some("the server has not replied in time; the command may still run".to_owned());
                StatusCode::GATEWAY_TIMEOUT
            }
        };
        told(status, &outcome)
    }

    async fn run(
        &self,
        request: &CommandRequest,
        caller: &Caller,
        user: Option<&[u8]>,
        backend: &dyn Backend,
        outcome: &mut Outcome,
    ) -> StatusCode {
        let _place = self.0.acquire().await;
        match backend.connect(caller, user) {
            Err(why) => {
                outcome.failure = Some(why);
                StatusCode::SERVICE_UNAVAILABLE
            }
            Ok(stream) => {
                command_session::run(stream, request, outcome).await;
                if outcome.failure.is_none() { StatusCode::OK } else { StatusCode::BAD_GATEWAY }
            }
        }
    }
}

fn told(status: StatusCode, outcome: &Outcome) -> Answer {
    let replies: Vec<Value> = outcome.replies.iter().map(command_request::json).collect();
    let mut body = json!({ "replies": replies });
    if let Some(failure) = &outcome.failure {
        body["error"] = json!(failure);
    }
    said(status, JSON, format!("{body}\n"))
}
