//! Clients with TLS: replies, certificates on both sides, changes of them, and peers that do not know how.

use crate::dialogue::dialogue;
use crate::harness::{
    Folder, PATIENCE, Server, bytes_of, eventually, expect_bytes, free_port, read_to_close, run_to_end, send,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, SerialNumber};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// A certificate authority, and its certificates: files `ca.crt`, `NAME.crt` and `NAME.key` in a folder.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: Folder,
}

impl Authority {
    pub fn new() -> Authority {
        // Rustls needs its cryptography to be chosen, once.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = Folder::new();
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        folder.write("ca.crt", &parameters.self_signed(&key).expect("a certificate").pem());
        let authority = Authority { issuer: Issuer::new(parameters, key), folder };
        authority.sign("server", 0x1234, &[]);
        authority
    }

    /// Makes a certificate with a name that is its file's, too.
    fn sign(&self, name: &str, serial: u64, uris: &[&str]) {
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.serial_number = Some(SerialNumber::from(serial));
        for uri in uris {
            parameters.subject_alt_names.push(SanType::URI((*uri).try_into().expect("a URI")));
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        self.folder.write(&format!("{name}.crt"), &certificate.pem());
        self.folder.write(&format!("{name}.key"), &key.serialize_pem());
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    /// Returns the settings of a server with the certificate of `localhost`.
    pub fn server_settings(&self) -> Arc<ServerConfig> {
        let certificate = CertificateDer::from_pem_file(self.path("server.crt")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(self.path("server.key")).expect("a key");
        let builder = ServerConfig::builder().with_no_client_auth();
        Arc::new(builder.with_single_cert(vec![certificate], key).expect("a pair"))
    }

    /// A client's side of a connection, without a certificate.
    pub fn client_over(&self, socket: TcpStream) -> Client {
        over(socket, self.client_settings(None))
    }

    fn client_settings(&self, certificate: Option<&str>) -> ClientConfig {
        let pem = |name: &str| CertificateDer::from_pem_file(self.path(name)).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(pem("ca.crt")).expect("an authority");
        let builder = ClientConfig::builder().with_root_certificates(roots);
        match certificate {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).expect("a key");
                builder.with_client_auth_cert(vec![pem(&format!("{name}.crt"))], key).expect("a pair")
            }
        }
    }

    fn start(&self, threads: usize, options: &[&str]) -> TlsServer<'_> {
        let port = free_port();
        let (number, certificate, key) = (port.to_string(), self.path("server.crt"), self.path("server.key"));
        let authority = self.path("ca.crt");
        let mut all = vec!["--tls-port", &number, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        all.extend(["--tls-ca-cert-file", &authority]);
        all.extend(options);
        TlsServer { server: Server::start_with_threads(threads, &all), authority: self, port }
    }
}

pub struct TlsServer<'a> {
    server: Server,
    authority: &'a Authority,
    port: u16,
}

pub type Client = StreamOwned<ClientConnection, TcpStream>;

impl TlsServer<'_> {
    fn socket(&self) -> TcpStream {
        TlsServer::socket_to(self.port)
    }

    fn socket_to(port: u16) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.set_nodelay(true).expect("no delay");
        socket
    }

    fn client_with(&self, settings: ClientConfig) -> Client {
        over(self.socket(), settings)
    }

    /// A client of another port that shows this certificate.
    pub fn client_at(&self, port: u16, certificate: Option<&str>) -> Client {
        over(TlsServer::socket_to(port), self.authority.client_settings(certificate))
    }

    /// A client without TLS.
    pub fn plain_client(&self, password: &str) -> redis::Connection {
        self.server.client_with_password(&["--requirepass", password])
    }

    /// A client that shows this certificate.
    pub fn client(&self, certificate: Option<&str>) -> Client {
        self.client_with(self.authority.client_settings(certificate))
    }

    /// Whether a client with this certificate is served.
    pub fn serves(&self, certificate: Option<&str>) -> bool {
        let mut client = self.client(certificate);
        let mut reply = [0; 7];
        client.write_all(b"PING\r\n").is_ok() && client.read_exact(&mut reply).is_ok() && reply == *b"+PONG\r\n"
    }

    pub fn config(&self, pair: &str) -> Result<(), String> {
        let words: Vec<&str> = pair.split(' ').collect();
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg(&words).query::<()>(&mut self.server.client()).map_err(|error| error.to_string())
    }

    pub fn info(&self, field: &str) -> String {
        let info: String = redis::cmd("INFO").arg("everything").query(&mut self.server.client()).expect("INFO");
        let found = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.expect("a field").to_owned()
    }
}

fn over(socket: TcpStream, settings: ClientConfig) -> Client {
    let name = ServerName::try_from("localhost").expect("a name");
    StreamOwned::new(ClientConnection::new(Arc::new(settings), name).expect("a client"), socket)
}

/// The answer to one inline command, of one line.
fn ask(client: &mut Client, command: &str) -> String {
    client.write_all(format!("{command}\r\n").as_bytes()).expect("to send");
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend(bytes_of(client, 1));
    }
    String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
}

fn bulk(client: &mut Client, command: &str) -> String {
    let len: usize = ask(client, command)[1..].parse().expect("a length");
    String::from_utf8(bytes_of(client, len + 2)).expect("text").trim_end().to_owned()
}

pub fn with_each_thread_count(options: &[&str], test: impl Fn(&TlsServer<'_>)) {
    let authority = Authority::new();
    authority.sign("client", 7, &["urn:first", "urn:second"]);
    for threads in [1, 4] {
        test(&authority.start(threads, options));
    }
}

pub const ANYONE: &[&str] = &["--tls-auth-clients", "no"];

#[test]
fn commands_and_pipelines_are_answered() {
    with_each_thread_count(ANYONE, |server| {
        let mut clients: Vec<Client> = (0..8).map(|_| server.client(None)).collect();
        for (n, client) in clients.iter_mut().enumerate() {
            assert_eq!(ask(client, &format!("SET k{n} v{n}")), "+OK");
        }
        for (n, client) in clients.iter_mut().enumerate() {
            // More than a record, and more than a reading.
            let requests = format!("APPEND k{n} x\r\n").repeat(20_000);
            client.write_all(requests.as_bytes()).expect("to send");
            let replies: String = (3..20_003).map(|len| format!(":{len}\r\n")).collect();
            expect_bytes(client, replies.as_bytes());
        }
        assert_eq!(ask(&mut clients[0], "CLIENT NO-EVICT on"), "+OK");
        assert_eq!(len_of(server, "k1"), 20_002);
    });
}

fn len_of(server: &TlsServer<'_>, key: &str) -> usize {
    redis::cmd("STRLEN").arg(key).query(&mut server.server.client()).expect("a length")
}

/// Sends what TLS has to say in small parts.
struct Dribble(TcpStream);

impl Write for Dribble {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(1009)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Read for Dribble {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let most = bytes.len().min(1013);
        self.0.read(&mut bytes[..most])
    }
}

#[test]
fn large_values_go_both_ways_in_small_fragments() {
    with_each_thread_count(ANYONE, |server| {
        let value: Vec<u8> = (0..1u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for fragment in [None, Some(64), Some(1500)] {
            let mut settings = server.authority.client_settings(None);
            settings.max_fragment_size = fragment;
            let name = ServerName::try_from("localhost").expect("a name");
            let tls = ClientConnection::new(Arc::new(settings), name).expect("a client");
            let mut client = StreamOwned::new(tls, Dribble(server.socket()));
            let header = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len());
            client.write_all(&[header.as_bytes(), &value, b"\r\n"].concat()).expect("to send");
            expect_bytes(&mut client, b"+OK\r\n");
            // The second reply waits until the first has been read.
            client.write_all(&b"GET k\r\n".repeat(8)).expect("to send");
            for _ in 0..8 {
                expect_bytes(&mut client, format!("${}\r\n", value.len()).as_bytes());
                assert!(bytes_of(&mut client, value.len()) == value);
                expect_bytes(&mut client, b"\r\n");
            }
        }
    });
}

#[test]
fn a_connection_ends_with_a_word() {
    with_each_thread_count(ANYONE, |server| {
        let mut client = server.client(None);
        assert_eq!(ask(&mut client, "QUIT"), "+OK");
        // Without the word of TLS that there is no more, this would be an error.
        assert_eq!(client.read(&mut [0; 8]).expect("the end"), 0);
        let mut other = server.client(None);
        assert_eq!(ask(&mut other, "CLIENT SETNAME gone"), "+OK");
        other.conn.send_close_notify();
        other.flush().expect("to send");
        assert_eq!(other.read(&mut [0; 8]).expect("the end"), 0, "who says that nothing more comes is let go");
    });
}

#[test]
fn clients_show_certificates_where_they_must() {
    with_each_thread_count(&[], |server| {
        let stranger = Authority::new();
        stranger.sign("stranger", 9, &[]);
        for file in ["stranger.crt", "stranger.key"] {
            server.authority.folder.write(file, &stranger.folder.read(file));
        }
        for (mode, nobody) in [("yes", false), ("optional", true), ("no", true), ("yes", false)] {
            server.config(&format!("tls-auth-clients {mode}")).expect("a mode");
            assert_eq!([server.serves(None), server.serves(Some("client"))], [nobody, true], "{mode}");
            assert_eq!(server.serves(Some("stranger")), mode == "no", "{mode}");
        }
        assert_eq!(server.info("tls_server_cert_serial"), "1234");
        assert_eq!(server.info("tls_client_cert_serial"), "none");
    });
}

#[test]
fn certificates_change_while_the_server_runs() {
    with_each_thread_count(ANYONE, |server| {
        let mut early = server.client(None);
        assert_eq!(ask(&mut early, "PING"), "+PONG");
        let authority = server.authority;
        authority.sign("other", 0xABCD, &[]);
        authority.folder.write("broken.crt", "-----BEGIN CERTIFICATE-----\nMTIz\n-----END CERTIFICATE-----\n");
        let (other, key) = (authority.path("other.crt"), authority.path("other.key"));
        for bad in [
            format!("tls-cert-file {}", authority.path("broken.crt")),
            format!("tls-cert-file {other}"),
            format!("tls-key-file {}", authority.path("missing.key")),
            "tls-ciphers AES128-SHA256".to_owned(),
            "tls-ciphersuites TLS_AES_128_CCM_SHA256".to_owned(),
            "tls-protocols TLSv1.1".to_owned(),
        ] {
            let error = server.config(&bad).expect_err(&bad);
            assert!(error.contains("Unable to update TLS configuration. Check server logs."), "{error}");
            assert!(server.serves(None));
        }
        assert_eq!(server.info("tls_server_cert_serial"), "1234");
        server.config(&format!("tls-cert-file {other} tls-key-file {key}")).expect("another certificate");
        assert_eq!(server.info("tls_server_cert_serial"), "ABCD");
        let mut late = server.client(None);
        assert_eq!(ask(&mut late, "PING"), "+PONG");
        let shown = late.conn.peer_certificates().expect("a chain")[0].clone();
        assert_eq!(shown, CertificateDer::from_pem_file(&other).expect("a certificate"));
        assert_eq!(ask(&mut early, "PING"), "+PONG");

        // Files that change under their names.
        authority.sign("other", 0xEF01, &[]);
        server.config("tls-auto-reload-interval 1").expect("a number");
        assert!(eventually(|| server.serves(None) && server.info("tls_server_cert_serial") == "EF01"));
        let mut settings = server.authority.client_settings(None);
        settings.enable_early_data = false;
        for (protocols, version) in [("TLSv1.2", "TLSv1_2"), ("TLSv1.3", "TLSv1_3")] {
            server.config(&format!("tls-protocols {protocols}")).expect("protocols");
            let mut client = server.client_with(settings.clone());
            assert_eq!(ask(&mut client, "PING"), "+PONG");
            assert_eq!(format!("{:?}", client.conn.protocol_version()), format!("Some({version})"));
        }
    });
}

/// A certificate of version 1, and its key. rcgen makes none.
const OLD: &str = include_str!("../certificates/version_1.crt");
const OLD_KEY: &str = include_str!("../certificates/version_1.key");

#[test]
fn a_certificate_of_version_1_is_named_by_the_log() {
    let authority = Authority::new();
    let files = [authority.folder.write("old.crt", OLD), authority.folder.write("old.key", OLD_KEY)];
    let [certificate, key] = files.map(|path| path.to_string_lossy().into_owned());
    let expected = format!("Failed to load certificate: {certificate}: its version of X.509 is 1");
    let server = authority.start(2, ANYONE);
    for directives in ["tls-cert-file", "tls-client-cert-file"].map(|name| (name, name.replace("cert-", "key-"))) {
        let (certificates, keys) = directives;
        let pair = format!("{certificates} {certificate} {keys} {key}");
        let error = server.config(&pair).expect_err(&pair);
        assert!(error.contains("Unable to update TLS configuration. Check server logs."), "{error}");
    }
    assert_eq!(server.server.folder.read("stdout").matches(&expected).count(), 2);
    assert!(server.serves(None));
    server.config(&format!("tls-ca-cert-file {certificate}")).expect("an authority of version 1");

    let folder = Folder::new();
    let port = free_port().to_string();
    let options = ["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no"];
    let (status, log) =
        run_to_end(&folder, &[&options[..], &["--tls-cert-file", &certificate, "--tls-key-file", &key]].concat());
    let log = log + &folder.read("stdout");
    assert!(!status.success() && log.contains(&expected), "{log}");
}

#[test]
fn sessions_are_taken_up_again_unless_that_is_off() {
    with_each_thread_count(ANYONE, |server| {
        for (caching, expected) in [("yes", "Resumed"), ("no", "Full")] {
            server.config(&format!("tls-session-caching {caching}")).expect("a mode");
            let settings = server.authority.client_settings(None);
            let kind = |client: &Client| format!("{:?}", client.conn.handshake_kind().expect("a handshake"));
            let mut first = server.client_with(settings.clone());
            assert_eq!((ask(&mut first, "PING").as_str(), kind(&first).as_str()), ("+PONG", "Full"));
            let mut second = server.client_with(settings);
            assert_eq!((ask(&mut second, "PING").as_str(), kind(&second).as_str()), ("+PONG", expected));
        }
    });
}

#[test]
fn a_client_that_cannot_shake_hands_stalls_no_other_and_is_closed() {
    with_each_thread_count(ANYONE, |server| {
        let mut silent: Vec<TcpStream> = (0..40).map(|_| server.socket()).collect();
        // The beginning of a handshake's record, and no more.
        silent[1..].iter_mut().for_each(|socket| send(socket, &[22, 3, 1, 2, 0, 1, 0, 1]));
        let mut plain = server.socket();
        send(&mut plain, b"PING\r\n*1\r\n$4\r\nPING\r\n");
        assert_eq!(read_to_close(&mut plain), "", "who speaks something else is told nothing");
        assert!((0..20).all(|_| server.serves(None)));
        silent.iter_mut().for_each(|socket| assert_eq!(read_to_close(socket), ""));
        assert!(server.serves(None));
        assert!(eventually(|| server.info("connected_clients") == "1"));
    });
}

#[test]
fn certificates_name_users() {
    with_each_thread_count(&["--acllog-max-len", "10"], |server| {
        let mut plain = server.server.client();
        dialogue(
            &mut plain,
            &[
                ("ACL SETUSER client on +@all ~*", "OK"),
                ("ACL SETUSER urn:first off +@all ~*", "OK"),
                ("ACL SETUSER urn:second on +@all ~*", "OK"),
                ("ACL SETUSER default resetpass >secret", "OK"),
            ],
        );
        drop(plain);
        let config = |pair: &str| {
            let mut plain = server.server.socket();
            send(&mut plain, format!("AUTH secret\r\nCONFIG SET {pair}\r\n").as_bytes());
            expect_bytes(&mut plain, b"+OK\r\n+OK\r\n");
        };
        let mut client = server.client(Some("client"));
        assert!(ask(&mut client, "PING").starts_with("-NOAUTH"));
        config("tls-auth-clients-user CN");
        assert_eq!(bulk(&mut server.client(Some("client")), "ACL WHOAMI"), "client");
        config("tls-auth-clients-user URI");
        let mut client = server.client(Some("client"));
        assert_eq!(bulk(&mut client, "ACL WHOAMI"), "urn:second");
        assert_eq!(ask(&mut client, "ACL SETUSER urn:second off"), "+OK");
        let mut client = server.client(Some("client"));
        assert!(ask(&mut client, "PING").starts_with("-NOAUTH"));
        assert_eq!(ask(&mut client, "AUTH default secret"), "+OK");
        let log = [ask(&mut client, "ACL LOG 1"), (0..8).map(|_| ask(&mut client, "")).collect()].concat();
        assert!(log.contains("tls-cert"), "{log}");
    });
}

#[test]
fn ports_change_while_the_server_runs() {
    with_each_thread_count(ANYONE, |server| {
        let mut client = server.client(None);
        assert_eq!(ask(&mut client, "CONFIG SET port 0"), "+OK");
        assert!(bulk(&mut client, "INFO server").contains(&format!("tcp_port:{}\r\n", server.port)));
        assert_eq!(ask(&mut client, "CONFIG SET tls-port 0"), "+OK");
        assert!(bulk(&mut client, "INFO tls").contains("tls_server_cert_serial:none\r\n"));
        assert!(TcpStream::connect(("127.0.0.1", server.port)).is_err());
        assert_eq!(ask(&mut client, &format!("CONFIG SET port {}", server.port)), "+OK");
        let mut plain = server.socket();
        send(&mut plain, b"PING\r\n");
        expect_bytes(&mut plain, b"+PONG\r\n");
        assert_eq!(ask(&mut client, "CONFIG SET port 0"), "+OK");
        assert_eq!(ask(&mut client, &format!("CONFIG SET tls-port {}", server.port)), "+OK");
        assert!(server.serves(None));
    });
}

#[test]
fn keys_leave_for_another_server_with_tls() {
    with_each_thread_count(&["--tls-cluster", "yes"], |server| {
        let other = server.authority.start(2, &["--tls-cluster", "yes"]);
        let mut client = server.server.client();
        dialogue(&mut client, &[("SET k v", "OK"), ("SET stays v", "OK")]);
        let migrate = |key: &str, port: u16| {
            let mut command = redis::cmd("MIGRATE");
            command.arg("127.0.0.1").arg(port).arg(key).arg(0).arg(2000);
            command.query::<String>(&mut server.server.client()).map_err(|error| error.to_string())
        };
        assert_eq!(migrate("k", other.port), Ok("OK".to_owned()));
        let error = migrate("stays", other.server.port).expect_err("a server without TLS");
        assert!(error.contains("IOERR"), "{error}");
        assert_eq!([len_of(&other, "k"), len_of(&other, "stays"), len_of(server, "stays")], [1, 0, 1]);
        // A connection without TLS is not used again when there is to be TLS.
        server.config("tls-cluster no").expect("a mode");
        dialogue(&mut client, &[("SET plain v", "OK")]);
        assert_eq!(migrate("plain", other.server.port), Ok("OK".to_owned()));
        server.config("tls-cluster yes").expect("a mode");
        let error = migrate("stays", other.server.port).expect_err("a server without TLS");
        assert!(error.contains("IOERR"), "{error}");
        assert_eq!(len_of(server, "stays"), 1);
    });
}
