//! Listeners, sockets and the threads behind them.

use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, Kind, PORT_MAX, Row, UINT_MAX, Unmet, flag, integer, octal, special, text};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    text(AvailabilityZone, "availability-zone", "").keeps_empty(),
    special(Bind, "bind", Kind::Bind, "* -::*"),
    text(BindSourceAddr, "bind-source-addr", ""),
    integer(BookIdleTimeout, "book-idle-timeout", 5, 0, INT_MAX),
    integer(BookPort, "book-port", 0, 0, PORT_MAX),
    integer(EventsPerIoThread, "events-per-io-thread", 2, 0, INT_MAX).hidden().unsupported("Every thread of Cinnabar reads and writes for itself"),
    integer(IoThreads, "io-threads", 1, 1, 256).immutable(),
    flag(Mptcp, "mptcp", false).immutable().confirmed(),
    integer(Port, "port", 6379, 0, PORT_MAX),
    integer(PrefetchBatchMaxSize, "prefetch-batch-max-size", 16, 0, 128).unsupported("Cinnabar looks ahead as far as requests have arrived"),
    text(RdmaBind, "rdma-bind", "").unsupported("No RDMA building support.").unmet(Unmet::Refused),
    integer(RdmaCompletionVector, "rdma-completion-vector", -1, -1, 1024).immutable().unsupported("No RDMA building support."),
    integer(RdmaPort, "rdma-port", 0, 0, PORT_MAX).unsupported("No RDMA building support.").unmet(Unmet::Refused),
    integer(RdmaRxSize, "rdma-rx-size", 1048576, 65536, 16777216).immutable().unsupported("No RDMA building support."),
    integer(SocketMarkId, "socket-mark-id", 0, 0, UINT_MAX).immutable(),
    integer(TcpBacklog, "tcp-backlog", 511, 0, INT_MAX).immutable(),
    integer(TcpKeepalive, "tcp-keepalive", 300, 0, INT_MAX),
    integer(Threads, "threads", 0, 0, 1024).immutable().confirmed(),
    text(UnixSocket, "unixsocket", "").immutable(),
    text(UnixSocketGroup, "unixsocketgroup", "").immutable(),
    octal(UnixSocketPerm, "unixsocketperm", 0, 0, 0o777).immutable(),
];
