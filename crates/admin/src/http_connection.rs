//! One connection: a handshake where there is TLS, one request, one answer, and the end.
//!
//! A connection has a few seconds for all of it, and a second for each handshake and head. A request has a few
//! kilobytes of head, and a body is read only where it is commands. So a connection's resources are bounded, whatever
//! its peer does.

use crate::answers::plain;
use crate::backend::Backend;
use crate::command_permits::CommandPermits;
use crate::connection_limit::Place;
use crate::routes::{Arrival, answer, is_probe};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Bytes and headers of a request's head, at most. The bytes are the fewest that the library takes.
const HEAD_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

/// Time of a handshake, and then of a request's head.
const HEAD_TIME: Duration = Duration::from_secs(1);

/// State that all connections share.
pub(crate) struct Site {
    pub backend: Arc<dyn Backend>,
    pub handle: CommandPermits,
}

/// Answers the request of a connection. Errors of the connection are its peer's affair.
pub(crate) async fn serve(socket: TcpStream, peer: SocketAddr, site: &Site, place: &Place) {
    // An answer's last part does not wait for more: there is none.
    let _ = socket.set_nodelay(true);
    let address = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let local_address = socket.local_addr().unwrap_or(address);
    let local_address = SocketAddr::new(local_address.ip().to_canonical(), local_address.port());
    let arrival = |certificate, is_encrypted| Arrival { address, local_address, certificate, is_encrypted };
    match site.backend.tls() {
        Ok(None) => converse(socket, &arrival(None, false), site, place).await,
        Ok(Some(settings)) => {
            if let Ok(Ok(stream)) = timeout(HEAD_TIME, TlsAcceptor::from(settings).accept(socket)).await {
                let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
                let certificate = shown.map(CertificateDer::into_owned);
                converse(stream, &arrival(certificate, true), site, place).await;
            }
        }
        Err(error) => site.backend.warn(&format!("The admin port cannot encrypt: {error}")),
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, arrival: &Arrival, site: &Site, place: &Place) {
    let service = |request: Request<Incoming>| async move {
        if !is_probe(&request) && !place.work() {
            return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "too many requests at a time\n"));
        }
        Ok::<_, Infallible>(answer(request, arrival, site).await)
    };
    let mut protocol = http1::Builder::new();
    protocol.keep_alive(false).max_buf_size(HEAD_MAX).max_headers(HEADERS_MAX);
    protocol.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    // An error has been answered, or there is no peer to answer.
    let _ = protocol.serve_connection(TokioIo::new(stream), service_fn(service)).await;
}
