//! Listeners, sockets and the threads behind them.

use crate::config::apply::Apply::Server;
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{
    DirectiveEntry, DirectiveKind, INT_MAX, PORT_MAX, UINT_MAX, Unmet, choices, flag, integer, octal, special, text,
};

const COPIES: &str = "`min-string-size-avoid-copy-reply` counts with any number of threads";

directives! { after 0;
    /// The addresses that the admin plane listens on, as `bind` has them.
    ADMIN_BIND = special("admin-bind", DirectiveKind::Bind, "127.0.0.1 -::1").immutable().confirmed();
    /// Names under which browsers reach the page of the admin plane, with spaces between them. It is shown under these,
    /// under names that `admin-bind` has, and by its address.
    ADMIN_HOST_NAMES = text("admin-host-names", "");
    /// The port of the admin plane: a page, metrics and probes over HTTP. 0: there is none.
    ADMIN_PORT = integer("admin-port", 0, 0, PORT_MAX).immutable().confirmed();
    /// Seconds without a word from its primary after which a replica is not ready; 0 does not look at that.
    ADMIN_READY_MAX_LAG = integer("admin-ready-max-lag", 30, 0, INT_MAX);
    /// The zone that this server runs in, as HELLO and INFO tell clients.
    AVAILABILITY_ZONE = text("availability-zone", "").keeps_empty();
    /// The addresses that are listened on. A `-` before one: it is no error if the machine does not have it.
    /// `*` stands for all of IPv4, `::*` for all of IPv6; an empty text stops listening on TCP.
    BIND = special("bind", DirectiveKind::Bind, "* -::*").applied(Server(|server| server.bind()));
    /// The address that connections to other servers come from.
    BIND_SOURCE_ADDR = text("bind-source-addr", "");
    /// Seconds after which a silent connection of the book protocol is closed; 0 keeps it.
    BOOK_IDLE_TIMEOUT = integer("book-idle-timeout", 5, 0, INT_MAX);
    /// The port of the book protocol; 0 switches it off.
    BOOK_PORT = integer("book-port", 0, 0, PORT_MAX).applied(Server(|server| server.book_port()));
    /// Events of the loop for each thread of input and output.
    EVENTS_PER_IO_THREAD = integer("events-per-io-thread", 2, 0, INT_MAX).hidden().unsupported("Every thread of Cinnabar reads and writes for itself").unmet(Unmet::Shown);
    /// Valkey's name of `threads`: it counts where `threads` is not given. A change is one of `threads` too.
    IO_THREADS = integer("io-threads", 1, 1, 256).always_applied().applied(Server(|server| server.threads()));
    /// Let threads of input and output work when they have little to do.
    IO_THREADS_ALWAYS_ACTIVE = flag("io-threads-always-active", false).hidden().unsupported("Every thread of Cinnabar reads and writes for itself").unmet(Unmet::Shown);
    /// With how many threads of input and output replies are not copied.
    MIN_IO_THREADS_AVOID_COPY_REPLY = integer("min-io-threads-avoid-copy-reply", 7, 0, INT_MAX).hidden().unsupported(COPIES).unmet(Unmet::Shown);
    /// Bytes from which on a string is not copied into the reply; 0 copies all. Strings below 16 KiB are copied.
    MIN_STRING_SIZE_AVOID_COPY_REPLY = integer("min-string-size-avoid-copy-reply", 16384, 0, INT_MAX).hidden();
    /// Bytes from which on a string is not copied into the reply, with threads of input and output.
    MIN_STRING_SIZE_AVOID_COPY_REPLY_THREADED = integer("min-string-size-avoid-copy-reply-threaded", 65536, 0, INT_MAX).hidden().unsupported(COPIES).unmet(Unmet::Shown);
    /// Listen with Multipath TCP, where the system has it.
    MPTCP = flag("mptcp", false).immutable();
    /// Certificates of the authorities that a collector's certificate may be signed by. Empty: the system's. It has to
    /// have the name of the endpoint.
    OTLP_CA_CERT_FILE = text("otlp-ca-cert-file", "").immutable().confirmed();
    /// Endpoint to which metrics are sent as OTLP over HTTP: `http://host:4318` or `https://host`, with a path where it
    /// is not `/v1/metrics`. Empty sends none. Metrics are sent whether there is an `admin-port` or not.
    OTLP_ENDPOINT = text("otlp-endpoint", "").immutable().confirmed();
    /// Further headers of each request: `api-key=secret,other=value`. Values may have bytes as `%2C`.
    OTLP_HEADERS = text("otlp-headers", "").immutable().sensitive().confirmed();
    /// Seconds between two transmissions of metrics over OTLP.
    OTLP_INTERVAL = integer("otlp-interval", 60, 1, 86_400).immutable().confirmed();
    /// The TCP port for RESP clients; 0 does not listen on TCP.
    PORT = integer("port", 6379, 0, PORT_MAX).applied(Server(|server| server.port()));
    /// How many commands are looked ahead for.
    PREFETCH_BATCH_MAX_SIZE = integer("prefetch-batch-max-size", 16, 0, 128).unsupported("Cinnabar looks ahead as far as requests have arrived").unmet(Unmet::Shown);
    /// Listeners whose connections begin with a header of the PROXY protocol, version 2, even before TLS: any of
    /// `port`, `tls-port`, `book-port` and `unixsocket`. Only proxies may reach these, as a client can name any
    /// address. Connections without the header are closed.
    PROXY_PROTOCOL = choices("proxy-protocol", &["no", "port", "tls-port", "book-port", "unixsocket"], "no");
    /// The addresses that are listened on for RDMA.
    RDMA_BIND = text("rdma-bind", "").unsupported("No RDMA building support.").unmet(Unmet::Refused);
    /// The completion vector of RDMA connections.
    RDMA_COMPLETION_VECTOR = integer("rdma-completion-vector", -1, -1, 1024).immutable().unsupported("No RDMA building support.");
    /// The port for RDMA.
    RDMA_PORT = integer("rdma-port", 0, 0, PORT_MAX).unsupported("No RDMA building support.").unmet(Unmet::Refused);
    /// Bytes of an RDMA connection's receive buffer.
    RDMA_RX_SIZE = integer("rdma-rx-size", 1048576, 65536, 16777216).immutable().unsupported("No RDMA building support.");
    /// The port of a Sentinel within the server's process, which `sentinel` lines of the configuration file tell what
    /// to watch, and which writes there what it remembers. 0: there is none.
    SENTINEL_PORT = integer("sentinel-port", 0, 0, PORT_MAX).immutable().confirmed();
    /// The mark that the system's firewall sees on connections (SO_MARK); 0 sets none.
    SOCKET_MARK_ID = integer("socket-mark-id", 0, 0, UINT_MAX).immutable();
    /// Connections that may wait to be accepted; the system may allow fewer.
    TCP_BACKLOG = integer("tcp-backlog", 511, 0, INT_MAX).immutable();
    /// Seconds of silence after which the system asks whether a client is still there; 0 never does.
    TCP_KEEPALIVE = integer("tcp-keepalive", 300, 0, INT_MAX).applied(Server(|server| server.keepalive()));
    /// Workers, each of which executes commands; 0 is one for each processor.
    THREADS = integer("threads", 0, 0, 1024).applied(Server(|server| server.threads()));
    /// The path of a Unix socket to listen on.
    UNIXSOCKET = text("unixsocket", "").immutable();
    /// The group that the Unix socket belongs to.
    UNIXSOCKETGROUP = text("unixsocketgroup", "").immutable();
    /// The permissions of the Unix socket, in octal; 0 leaves them to the umask.
    UNIXSOCKETPERM = octal("unixsocketperm", 0, 0, 0o777).immutable();
}
