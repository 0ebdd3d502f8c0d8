//! Listeners, sockets and the threads behind them.

use crate::config::apply::Apply::Server;
use crate::config::directive::{Directive, directives};
use crate::config::entry::{Entry, INT_MAX, Kind, PORT_MAX, UINT_MAX, Unmet, flag, integer, octal, special, text};

directives! { after 0;
    AVAILABILITY_ZONE = text("availability-zone", "").keeps_empty();
    BIND = special("bind", Kind::Bind, "* -::*").applied(Server(|server| server.bind()));
    BIND_SOURCE_ADDR = text("bind-source-addr", "");
    BOOK_IDLE_TIMEOUT = integer("book-idle-timeout", 5, 0, INT_MAX);
    BOOK_PORT = integer("book-port", 0, 0, PORT_MAX).applied(Server(|server| server.book_port()));
    EVENTS_PER_IO_THREAD = integer("events-per-io-thread", 2, 0, INT_MAX).hidden().unsupported("Every thread of Cinnabar reads and writes for itself");
    IO_THREADS = integer("io-threads", 1, 1, 256).immutable();
    MPTCP = flag("mptcp", false).immutable().confirmed();
    PORT = integer("port", 6379, 0, PORT_MAX).applied(Server(|server| server.port()));
    PREFETCH_BATCH_MAX_SIZE = integer("prefetch-batch-max-size", 16, 0, 128).unsupported("Cinnabar looks ahead as far as requests have arrived");
    RDMA_BIND = text("rdma-bind", "").unsupported("No RDMA building support.").unmet(Unmet::Refused);
    RDMA_COMPLETION_VECTOR = integer("rdma-completion-vector", -1, -1, 1024).immutable().unsupported("No RDMA building support.");
    RDMA_PORT = integer("rdma-port", 0, 0, PORT_MAX).unsupported("No RDMA building support.").unmet(Unmet::Refused);
    RDMA_RX_SIZE = integer("rdma-rx-size", 1048576, 65536, 16777216).immutable().unsupported("No RDMA building support.");
    SOCKET_MARK_ID = integer("socket-mark-id", 0, 0, UINT_MAX).immutable();
    TCP_BACKLOG = integer("tcp-backlog", 511, 0, INT_MAX).immutable();
    TCP_KEEPALIVE = integer("tcp-keepalive", 300, 0, INT_MAX).applied(Server(|server| server.keepalive()));
    THREADS = integer("threads", 0, 0, 1024).immutable().confirmed();
    UNIXSOCKET = text("unixsocket", "").immutable();
    UNIXSOCKETGROUP = text("unixsocketgroup", "").immutable();
    UNIXSOCKETPERM = octal("unixsocketperm", 0, 0, 0o777).immutable();
}
