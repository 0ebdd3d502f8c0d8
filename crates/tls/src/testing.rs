//! A server's records and a client that talk to each other, for tests and fuzzing. Steps that cannot fail there are
//! expected.

use crate::peer_verifier::PeerVerifier;
use crate::records::Records;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig};
use std::io::Read;
use std::sync::{Arc, LazyLock};

static SETTINGS: LazyLock<(Arc<ServerConfig>, ClientConfig)> = LazyLock::new(settings);

/// Returns both sides' settings, with a certificate made for them.
fn settings() -> (Arc<ServerConfig>, ClientConfig) {
    let provider = Arc::new(ring::default_provider());
    let key = KeyPair::generate().expect("a key");
    let parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = parameters.self_signed(&key).expect("a certificate").der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("an authority");
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let server = server.expect("versions").with_no_client_auth().with_single_cert(vec![certificate], key);
    let algorithms = provider.signature_verification_algorithms;
    let verifier = PeerVerifier { roots: Some(Arc::new(roots)), algorithms };
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let client = client.expect("versions").dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    (Arc::new(server.expect("a pair")), client.with_no_client_auth())
}

/// Returns both sides before their handshake; `fragment`: bytes of the client's records at most.
pub fn pair(fragment: Option<usize>) -> (Records, ClientConnection) {
    let (server, client) = &*SETTINGS;
    let mut client = client.clone();
    client.max_fragment_size = fragment;
    let name = ServerName::try_from("localhost").expect("a name");
    let client = ClientConnection::new(Arc::new(client), name).expect("a client");
    (Records::new(Arc::clone(server)).expect("a server"), client)
}

/// Returns the bytes that the client has to send.
pub fn sent(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).expect("a vector takes everything");
    }
    bytes
}

/// Gives records to the client, and returns their plaintext.
///
/// # Errors
/// The records are not the server's.
pub fn give(client: &mut ClientConnection, mut bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).map_err(|error| Error::General(error.to_string()))?;
        let state = client.process_new_packets()?;
        let at = plain.len();
        plain.resize(at + state.plaintext_bytes_to_read(), 0);
        client.reader().read_exact(&mut plain[at..]).expect("so many bytes are there");
    }
    Ok(plain)
}

/// Gives records to the server in parts of `part` bytes, and takes plaintext in parts of `room`.
///
/// # Errors
/// The records are not the client's.
pub fn open(records: &mut Records, bytes: &[u8], part: usize, room: usize) -> Result<Vec<u8>, Error> {
    let (mut plain, mut to) = (Vec::new(), vec![0; room]);
    for came in bytes.chunks(part) {
        let n = records.open(&mut [records.partial(), came].concat(), &mut to)?;
        plain.extend_from_slice(&to[..n]);
        while records.has_plain() {
            let n = records.take_plain(&mut to);
            plain.extend_from_slice(&to[..n]);
        }
    }
    Ok(plain)
}
