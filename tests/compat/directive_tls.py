"""Experiments of directive_effects.py with TLS. openssl makes the authorities and certificates."""
import atexit
import functools
import os
import shutil
import ssl
import socket
import subprocess
import tempfile
import time

from directive_experiments import BRIEFLY, Scene, until
from wire import TextClient, free_port


@functools.cache
def folder():
    """Makes two authorities, each with a certificate that it has signed; returns their folder."""
    made = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, made)

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=made, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(made, "extensions"), "w") as text:
        text.write("basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1\n")
    for name in ("one", "two"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9", "-subj", "/CN=authority " + name,
                "-keyout", name + "-ca.key", "-out", name + "-ca.crt")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-keyout", name + ".key", "-out", name + ".csr")
        openssl("x509", "-req", "-days", "9", "-in", name + ".csr", "-CA", name + "-ca.crt", "-CAkey", name + "-ca.key",
                "-CAcreateserial", "-extfile", "extensions", "-out", name + ".crt")
        os.mkdir(os.path.join(made, name))
        shutil.copy(os.path.join(made, name + "-ca.crt"), os.path.join(made, name, "ca.pem"))
        openssl("rehash", name)
    return made


def file(name):
    return os.path.join(folder(), name)


def tls_options(authority=True):
    """The options of a server with TLS at PORT, which asks nobody for a certificate."""
    return ["--tls-port", "PORT", "--tls-cert-file", file("one.crt"), "--tls-key-file", file("one.key"), "--tls-auth-clients", "no",
            *(["--tls-ca-cert-file", file("one-ca.crt")] if authority else [])]


def at(port, options):
    return [word.replace("PORT", str(port)) for word in options]


def context(name=None, version=None, ciphers=None):
    """How a client with this certificate connects; it does not look at the server's."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if name:
        made.load_cert_chain(file(name + ".crt"), file(name + ".key"))
    if version:
        made.maximum_version = version
    if ciphers:
        made.set_ciphers(ciphers)
    return made


class TlsClient(TextClient):
    """A client with TLS."""

    def __init__(self, port, how, session=None):
        plain = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket = how.wrap_socket(plain, session=session)
        self.file = self.socket.makefile("rb")


def with_tls(look, authority=True, options=()):
    """A look at a server's port with TLS."""
    def scene(start, option):
        port = free_port()
        with start(*at(port, tls_options(authority)), *options, *option):
            return look(port)
    return scene


def slots(text):
    """A look: whether CLUSTER SLOTS names it to a client with TLS."""
    def look(port):
        client = TlsClient(port, context())
        client("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        return text in str(until(lambda: client("CLUSTER", "SLOTS")))
    return look


def is_trusted(port):
    """Whether a client of the first authority may come."""
    try:
        return TlsClient(port, context("one"))("PING")
    except (OSError, EOFError):
        return False


def trusts_folder(start, option):
    port = free_port()
    with start(*at(port, tls_options(False)), "--tls-auth-clients", "yes", option[0], file(option[1])):
        return is_trusted(port)


def links_with_key(start, option):
    """Whether a primary that trusts the first authority only has the replica with this key."""
    ports = [free_port(), free_port()]
    own = ["--tls-replication", "yes", "--tls-auth-clients", "yes"]
    with start(*at(ports[0], tls_options()), "--tls-auth-clients", "yes"), \
            start(*at(ports[1], tls_options()), *own, "--tls-client-cert-file", file(option[1] + ".crt"), option[0],
                  file(option[1] + ".key")) as replica:
        replica("REPLICAOF", "127.0.0.1", str(ports[0]))
        return until(lambda: replica.info("master_link_status") == "up", 2 * BRIEFLY)


STRONG, WEAK = "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"


def cipher(port):
    return TlsClient(port, context(version=ssl.TLSVersion.TLSv1_2, ciphers=WEAK + ":" + STRONG)).socket.cipher()[0]


def first_of_many_resumed(port):
    """Whether the first of many sessions that the server has to remember is resumed."""
    how = context(version=ssl.TLSVersion.TLSv1_2)
    how.options |= ssl.OP_NO_TICKET
    # A session whose connection ended without the words for it is not resumed: all of them stay open.
    clients = [TlsClient(port, how) for _ in range(30)]
    for client in clients:
        client("PING")
    return is_resumed(port, how, clients[0].socket.session)


def is_resumed(port, how, session):
    client = TlsClient(port, how, session)
    client("PING")
    return client.socket.session_reused


def resumed_later(port):
    """Whether a session of some seconds ago is resumed, and whether one of this moment is."""
    how = context(version=ssl.TLSVersion.TLSv1_2)
    client = TlsClient(port, how)
    client("PING")
    session = client.socket.session
    now = is_resumed(port, how, session)
    time.sleep(2 * BRIEFLY)
    return now, is_resumed(port, how, session)


EXPERIMENTS = {
    "cluster-announce-tls-port": Scene(("0", "7005"), with_tls(slots("7005"), options=("--cluster-enabled", "yes"))),
    "cluster-announce-client-tls-port": Scene(("0", "7006"), with_tls(slots("7006"), options=("--cluster-enabled", "yes"))),
    "tls-ca-cert-dir": Scene(("one", "two"), trusts_folder),
    "tls-client-key-file": Scene(("one", "two"), links_with_key),
    "tls-prefer-server-ciphers": Scene(("no", "yes"), with_tls(cipher, options=("--tls-ciphers", STRONG + ":" + WEAK))),
    "tls-session-cache-size": Scene(("1", "1000"), with_tls(first_of_many_resumed)),
    "tls-session-cache-timeout": Scene(("1", "300"), with_tls(resumed_later)),
}
