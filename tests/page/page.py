#!/usr/bin/env python3
"""Every view of the admin plane's page in headless Chromium, against a server under load.

    tests/page/page.py --server target/release/cinnabar-server [--axe axe.min.js] [--screenshots docs/images]

Needs selenium, and Chromium with its driver from the system. With axe-core's script each view is also looked at by that, in the
light and in the dark.
"""
import argparse
import os
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../compat"))

import wire
from browser import KEYS, Browser

VIEWS = ["overview", "latency", "workers", "clients", "slow", "hot", "memory", "keys", "topology", "console"]

# Names that would do something if anything of them became markup.
EVIL = b"<img src=x onerror=window.harmed=1>"
EVIL_WORD = b"<img/src=x/onerror=window.harmed=1>"
BINARY = bytes([0, 1, 0xFF, 0xFE, ord('"'), ord("'"), 0x0A])


def fill(client):
    for index in range(2000):
        client("SET", f"user:{index}:name", f"name-{index}")
    for index in range(200):
        client("HSET", f"session:{index}", "user", index, "at", "2026-11-26")
    client("SET", "page:home", "x" * 300_000)
    client("RPUSH", "queue:mail", *[f"letter-{index}" for index in range(250)])
    client("HSET", "profile:1", *[word for index in range(300) for word in (f"field-{index}", f"value-{index}")])
    client("SADD", "tags", "red", "green", BINARY)
    client("ZADD", "scores", *[word for index in range(150) for word in (index, f"player-{index}")])
    client("XADD", "events", "1-1", "kind", "login", "who", "ada")
    client("XADD", "events", "1-2", "kind", "logout", "who", "ada")
    client("SET", "greeting", "hello")
    client("SET", EVIL, EVIL)
    client("HSET", b"evil:" + EVIL, EVIL, EVIL)
    client("SET", BINARY, BINARY)
    client("SET", "ünï:ключ", "wört")
    client("SELECT", 3)
    client("SET", "in-three", "3")
    client("SELECT", 0)


class Load(threading.Thread):
    """Clients that read and write, until the load is stopped."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.stopped = port, threading.Event()

    def run(self):
        client = wire.Client(self.port)
        client("CLIENT", "SETNAME", "load")
        index = 0
        while not self.stopped.is_set():
            batch = []
            for _ in range(50):
                index += 1
                batch.append(wire.request(["GET", f"user:{index % 2000}:name"]))
                batch.append(wire.request(["GET", "user:7:name"]))
                batch.append(wire.request(["SET", f"load:{index % 500}", "v" * 50]))
                batch.append(wire.request(["HGET", f"session:{index % 200}", "user"]))
            client.socket.sendall(b"".join(batch))
            for _ in batch:
                client.read()
            client("INCR", "greeting")
            time.sleep(0.01)

    def end(self):
        self.stopped.set()
        self.join(wire.PATIENCE)


def first_load(browser, address):
    browser.open(address)
    asked = browser.requests()
    pages = [(url, size) for url, size in asked if not url.endswith("/live") and not url.startswith("data:")]
    assert len(pages) == 1 and pages[0][1] < 100_000, pages
    browser.until_text("Operations / s")
    return pages[0][1]


def landmarks(browser):
    for selector in ("header", "nav[aria-label]", "main", "h1", "[role=status]"):
        assert len(browser.all(selector)) >= 1, selector
    assert browser.script("return document.documentElement.lang") == "en"
    # The first stop of the keyboard is the way past the views.
    browser.find("body").send_keys(KEYS.TAB)
    active = browser.driver.switch_to.active_element
    assert active.text == "Skip to the view", active.text
    active.send_keys(KEYS.ENTER)
    assert browser.driver.switch_to.active_element.get_attribute("id") == "view"


def overview(browser):
    browser.view("overview")
    browser.until_text("Operations / s", "Memory", "Hits", "GET", "HGET")
    rate = lambda: browser.text("#view-overview .tiles div:first-child dd")
    browser.until("operations", lambda: rate()[:1] in list("123456789"))
    label = browser.attribute("#view-overview svg[role=img]", "aria-label")
    assert label.startswith("Operations / s, last") and "now all" in label, label
    paths = browser.until("a curve", lambda: browser.all("#view-overview path.curve[d*=L]"))
    assert paths
    browser.press("Pause updates", "header")
    assert browser.button("Pause updates", "header").get_attribute("aria-pressed") == "true"
    before = browser.text("#view-overview .tiles")
    time.sleep(2.5)
    assert browser.text("#view-overview .tiles") == before, "nothing moves while it is paused"
    browser.press("Pause updates", "header")
    browser.until("numbers go on", lambda: browser.text("#view-overview .tiles") != before)


def latency(browser):
    browser.view("latency")
    browser.until_text("p99.9", "GET", "SET", "µs")
    browser.press("GET")
    browser.until("a distribution", lambda: browser.all("#view-latency svg[aria-label^='How long GET took: ']"))
    browser.choose(browser.labelled("Since"), "")
    browser.until_text("CLIENT SETNAME")
    heading = browser.button("p99")
    heading.click()
    assert browser.all("#view-latency th[aria-sort='descending']")[0].text == "p99"
    heading.click()
    assert browser.all("#view-latency th[aria-sort='ascending']")[0].text == "p99"


def workers(browser, threads):
    browser.view("workers")
    browser.until("a row a worker", lambda: len(browser.all("#view-workers tbody tr")) == threads)
    browser.until_text("Busy", "Stalls", "%")


def clients(browser, client):
    browser.view("clients")
    client("CLIENT", "SETNAME", EVIL_WORD)
    browser.press("Refresh")
    browser.until_text("load", EVIL_WORD.decode())
    browser.type(browser.labelled("Filter"), "onerror")
    browser.until("one client", lambda: len(browser.all("#view-clients tbody tr")) == 1)
    number = client("CLIENT", "ID").decode()[1:]
    button = browser.find(f"[aria-label='Disconnect client {number}']")
    button.click()
    assert browser.driver.switch_to.active_element.text == "Cancel", "what changes nothing has the focus"
    browser.press("Cancel", "dialog")
    assert client("PING") == b"+PONG"
    browser.find(f"[aria-label='Disconnect client {number}']").click()
    browser.press("Disconnect", "dialog")
    browser.until_text(f"Client {number} was disconnected.", selector="#notice")
    try:
        client("PING")
        raise AssertionError("the client is still there")
    except (EOFError, ConnectionError):
        pass
    browser.labelled("Filter").clear()


def slow(browser, client):
    client("CONFIG", "SET", "commandlog-request-larger-than", 4000, "commandlog-reply-larger-than", 4000)
    client("EVAL", "local n = 0 for i = 1, 2e7 do n = n + i end", 0, EVIL)
    client("ECHO", b"large" * 1000)
    client("CONFIG", "SET", "commandlog-request-larger-than", 1_000_000, "commandlog-reply-larger-than", 1_000_000)
    browser.view("slow")
    browser.until_text("EVAL local n = 0", EVIL.decode(), "ms")
    tabs = browser.all("#view-slow [role=tab]")
    assert [tab.get_attribute("tabindex") for tab in tabs] == ["0", "-1", "-1"]
    tabs[0].send_keys(KEYS.ARROW_RIGHT)
    browser.until("the next tab", lambda: tabs[1].get_attribute("aria-selected") == "true")
    assert browser.driver.switch_to.active_element == tabs[1]
    browser.until_text("Large requests, the newest first", "largelarge")
    tabs[1].send_keys(KEYS.ARROW_RIGHT)
    browser.until_text("Large replies, the newest first")
    browser.press("Empty this log")
    browser.press("Empty", "dialog")
    browser.until_text("The log is empty.")


def hot(browser):
    browser.view("hot")
    browser.until_text("Nothing was looked for yet.")
    browser.choose(browser.labelled("Look at"), "10")
    browser.press("Start")
    browser.until_text("Looking for", "1 of 10 commands", "By processor time", "user:7:name")
    browser.press("Stop")
    browser.until_text("Looked for")


def memory(browser, client):
    browser.view("memory")
    browser.until_text("All in use", "Replicas")
    browser.press("Scan all keys")
    browser.press("Pause")
    browser.until_text("Paused at")
    browser.press("Go on")
    keys = int(client("DBSIZE")[1:])
    browser.until_text("Done: ")
    browser.until_text("Memory by type", "string", "zset", "Memory by prefix", "user:", "session:", "The biggest keys", "page:home", "evil:")
    assert browser.script("return document.querySelector('#view-memory progress').value") == 1
    told = browser.text("#view-memory")
    number = int("".join(c for c in told.split("Done: ")[1].split(" keys")[0] if c.isdigit()))
    assert abs(number - keys) <= keys * 0.05, (number, keys)
    assert "300,000" in told or "300.0 k" in told, "the length of the biggest"
    # A key that was found leads to its content, in its own database.
    browser.script("[...document.querySelectorAll('#view-memory a')].find((it) => it.textContent === 'scores').click()")
    browser.until_text("scores", "player-0")
    browser.view("memory")
    browser.type(browser.labelled("Separator of prefixes"), "-")
    browser.press("Scan all keys")
    browser.press("Stop")
    browser.until_text("Stopped: ")


def keys(browser, client):
    browser.view("keys")
    browser.until_text(" keys")
    find(browser, "gree*", "greeting")
    client("SET", "note", "first")
    open_key(browser, "note")
    area = browser.find("#view-keys textarea")
    browser.type(area, "sécond")
    browser.press("Save")
    browser.until_text("Saved.", selector="#notice")
    assert client("GET", "note").decode() == "sécond"
    browser.until("the value anew", lambda: browser.find("#view-keys textarea") != area)
    assert browser.find("#view-keys textarea").get_attribute("value") == "sécond"
    # Other clients were faster.
    client("SET", "note", "other")
    browser.press("Save")
    browser.until_text("it was not saved", selector="#notice")
    assert client("GET", "note") == b"other"
    assert browser.find("#view-keys textarea").get_attribute("value") == "sécond", "what was typed is not lost"
    browser.press("Read again")
    browser.until("theirs", lambda: browser.find("#view-keys textarea").get_attribute("value") == "other")
    browser.type(browser.labelled("Seconds to live"), "1000")
    browser.press("Set")
    browser.until_text("expires in 16 min")
    browser.press("Keep for ever")
    browser.until_text("no expiry")
    browser.press("Delete")
    browser.press("Cancel", "dialog")
    assert client("EXISTS", "note") == b":1"
    browser.press("Delete")
    browser.press("Delete", "dialog")
    browser.until_text("The key was deleted.", selector="#notice")
    assert client("EXISTS", "note") == b":0"
    for key, parts in (("queue:mail", ["letter-0", "letter-99"]), ("profile:1", ["field-7"]), ("scores", ["player-0", "player-99"]),
                       ("events", ["1-1", "kind = login"]), ("tags", ["red", quoted(BINARY)]), ("page:home", ["xxxx"])):
        open_key(browser, key)
        browser.until_text(*parts)
    open_key(browser, "queue:mail")
    browser.until_text("letter-99")
    assert "letter-249" not in browser.text()
    for last in ("letter-199", "letter-249"):
        browser.press("More")
        browser.until_text(last)
    browser.type(browser.labelled("Pattern"), "in-*")
    browser.choose(browser.labelled("Database"), "3")
    browser.until_text("in-three")
    browser.choose(browser.labelled("Database"), "0")
    # Keys that look like markup, or are no text.
    find(browser, "*onerror*", EVIL.decode())
    browser.press(EVIL.decode())
    browser.until("the value", lambda: browser.find("#view-keys textarea").get_attribute("value") == EVIL.decode())
    browser.press("evil:" + EVIL.decode())
    browser.until_text("hash")
    find(browser, "", quoted(BINARY))
    browser.press(quoted(BINARY))
    browser.until_text("string")
    browser.until_text(quoted(BINARY)[1:-1], selector="#view-keys .value")
    find(browser, "ünï*", "ünï:ключ")
    browser.press("ünï:ключ")
    browser.until("text beyond ASCII", lambda: browser.find("#view-keys textarea").get_attribute("value") == "wört")


def long_names(browser, client):
    """Names so long that neither a reply nor a request may hold a page of them at once."""
    client("SELECT", 3)
    for index in range(300):
        client("SET", f"long:{index}:" + "n" * 20_000, "v")
    client("SET", BINARY + bytes(30_000), "v")
    browser.view("keys")
    browser.choose(browser.labelled("Database"), "3")
    find(browser, "long:7:*", "long:7:nnn")
    find(browser, "*", quoted(BINARY + bytes(20))[:-1])
    browser.until_text("… (19.5 KiB)", "… (29.3 KiB)")
    browser.choose(browser.labelled("Database"), "0")
    browser.view("memory")
    browser.choose(browser.labelled("Database"), "3")
    browser.press("Scan all keys")
    browser.until_text("Done: 302 keys")
    browser.choose(browser.labelled("Database"), "0")
    client("DELPREFIX", "long:")
    client("SELECT", 0)


def quoted(data):
    shown = {0x22: '\\"', 0x0A: "\\n"}
    return '"' + "".join(shown.get(byte, chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in data) + '"'


def find(browser, pattern, name):
    """Searches for keys, and for more of them until this one is there."""
    browser.type(browser.labelled("Pattern"), pattern)
    browser.press("Search")

    def is_there():
        if name in browser.text("#view-keys .list"):
            return True
        browser.script("[...document.querySelectorAll('#view-keys button')].find((it) => it.textContent === 'More keys').click()")
        return False

    browser.until(f"{name} among keys", is_there)


def open_key(browser, key):
    browser.script("location.hash = '#keys/0/' + encodeURIComponent(arguments[0])", key)
    browser.until(f"key {key}", lambda: browser.text("#view-keys h3") == key)


def topology(browser, port, replica_port):
    browser.view("topology")
    browser.until_text(f"127.0.0.1:{replica_port}", "replica of this server", "heard of", "no node of a cluster")
    label = browser.attribute("#view-topology svg[role=img]", "aria-label")
    assert label == "This server is a primary, follows no server, and has 1 replicas", label


def console(browser, client):
    browser.view("console")
    line = browser.find("#line")
    assert browser.driver.switch_to.active_element == line

    def says(text, *parts):
        line.clear()
        line.send_keys(text)
        # Whatever is suggested.
        line.send_keys(KEYS.ESCAPE, KEYS.ENTER)
        browser.until_text(*parts, selector="#view-console .log")

    line.send_keys("zrangeb")
    browser.until("suggestions", lambda: [li.text for li in browser.all("#completions li")] == ["ZRANGEBYLEX", "ZRANGEBYSCORE"])
    line.send_keys(KEYS.ARROW_DOWN, KEYS.ARROW_DOWN, KEYS.ENTER)
    assert line.get_attribute("value") == "ZRANGEBYSCORE "
    browser.until_text("ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]", selector="#hint")
    line.clear()
    line.send_keys("zadd")
    line.send_keys(KEYS.TAB)
    browser.until_text("ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]", selector="#hint")
    says("PING", "db0> PING\nPONG")
    says('SET "a\\x00b c" \'it is\'', "OK")
    assert client("GET", b"a\x00b c") == b"it is"
    says("lrange queue:mail 0 1", '1) "letter-0"\n2) "letter-1"')
    says("HGETALL session:1", '1# "user" => "1"\n2# "at" => "2026-11-26"')
    says("zscore scores player-3", "(double) 3")
    says("SISMEMBER tags red", "(integer) 1")
    says("GET nothing", "(nil)")
    says("NOPE", "(error) ERR unknown command")
    says('GET "open', "Invalid argument(s)")
    says(f"ECHO '{EVIL.decode()}'", f'"{EVIL.decode()}"')
    says("SELECT 3", "OK")
    says("GET in-three", 'db3> GET in-three\n"3"')
    says("SELECT 0", "OK")
    for refused in ("SUBSCRIBE c", "MONITOR", "BLPOP queue:mail 0", "MULTI", "CLIENT REPLY OFF"):
        says(refused, "use cinnabar-cli")
        browser.find("#view-console .log")
        says("CLEAR")
    says("HELP config set", "CONFIG SET parameter value [parameter value ...]", "Since 2.0.0")
    line.clear()
    line.send_keys("FLUSHALL", KEYS.ESCAPE, KEYS.ENTER)
    browser.press("Cancel", "dialog")
    browser.until_text("Not run.", selector="#view-console .log")
    assert client("EXISTS", "greeting") == b":1"

    def is_asked(text, answer, *parts):
        # Text goes to the line again only after a click, once there was a dialog.
        line.click()
        says("CLEAR")
        line.clear()
        line.send_keys(text, KEYS.ESCAPE, KEYS.ENTER)
        browser.press(answer, "dialog")
        browser.until_text(*parts, selector="#view-console .log")
        line.click()

    for dangerous in ("DELPREFIX greet", "delprefix greet", "DELPATTERN greet*", "FUNCTION FLUSH", "SCRIPT FLUSH", "CONFIG SET maxmemory 1",
                      "SHUTDOWN NOSAVE"):
        is_asked(dangerous, "Cancel", f"db0> {dangerous}\nNot run.")
    assert client("EXISTS", "greeting") == b":1"
    says("CONFIG GET maxmemory", '"maxmemory" => "0"')
    says("SET throwaway:1 x", "OK")
    is_asked("DELPREFIX throwaway:", "Run", "(integer) 1")
    is_asked("FLUSHALL", "Cancel", "Not run.")
    browser.find("#line").send_keys(KEYS.ARROW_UP)
    browser.until("an earlier line", lambda: line.get_attribute("value") == "FLUSHALL")
    line.send_keys(KEYS.ARROW_UP)
    browser.until("the one before", lambda: line.get_attribute("value") == "CLEAR")
    line.clear()


def reading_alone(admin):
    """A user who may only read sees no control for writes, and numbers although no further client is allowed."""
    browser = Browser()
    try:
        # As a user answers the browser's question for a name and a password.
        browser.open(f"http://reader:secret@127.0.0.1:{admin}/login")
        browser.until_text("as reader", selector="header")
        assert not browser.find("#sign-in").is_displayed()
        browser.view("keys")
        open_key(browser, "greeting")
        browser.until_text("The user may only read.")
        assert not [b for b in browser.all("#view-keys button") if b.is_displayed() and b.text in ("Delete", "Save", "Set")]
        assert not browser.complaints(), browser.complaints()
    finally:
        browser.close()


def hardship(browser, client, port):
    """At the limit of clients, and with an endless script, numbers are still updated, and commands are refused with a text."""
    browser.view("overview")
    others = [wire.Client(port) for _ in range(10)]
    client("CONFIG", "SET", "maxclients", 5)
    browser.view("clients")
    browser.until_text("max number of clients reached", selector="#notice")
    uptime = browser.text("header")
    browser.until("numbers go on", lambda: browser.text("header") != uptime)
    client("CONFIG", "SET", "maxclients", 1000)
    client("CONFIG", "SET", "busy-reply-threshold", 100)
    others[0].socket.sendall(wire.request(["EVAL", "while true do redis.call('GET', KEYS[1]) end", "1", "greeting"]))
    time.sleep(0.5)
    browser.view("workers")
    uptime = browser.text("header")
    browser.until("numbers go on", lambda: browser.text("header") != uptime)
    client("SCRIPT", "KILL")


def cluster(server, scratch):
    """A node of a cluster of one node draws the cluster."""
    folder = os.path.join(scratch, "node")
    os.mkdir(folder)
    admin = wire.free_port()
    process, client = wire.start(server, folder, ["--cluster-enabled", "yes", "--cluster-single", "yes", "--admin-port", str(admin)])
    browser = Browser()
    try:
        browser.open(f"http://127.0.0.1:{admin}/#topology")
        browser.until_text("Nodes of the cluster", "(this server)", "0–16383")
        label = browser.attribute("#view-topology svg[aria-label*='primaries']", "aria-label")
        assert "16384 of 16384 slots are served" in label, label
        assert not browser.complaints(), browser.complaints()
    finally:
        browser.close()
        process.terminate()
        process.wait(wire.PATIENCE)


def accessibility(browser, axe):
    """axe-core finds nothing in any view, in the light and in the dark."""
    for theme in ("light", "dark"):
        browser.choose(browser.find("#theme"), theme)
        for name in VIEWS:
            browser.view(name)
            time.sleep(0.3)
            browser.script(axe)
            found = browser.driver.execute_async_script(
                "const done = arguments[0]; axe.run(document).then((it) => done(it.violations.map((v) => v.id + ': ' + v.help"
                " + ' ' + v.nodes.map((n) => n.html.slice(0, 160)).slice(0, 3).join(' | '))))")
            assert not found, f"{theme} {name}:\n" + "\n".join(found)


def themes(browser):
    ground = lambda: browser.script("return getComputedStyle(document.body).backgroundColor")
    colors = {}
    for theme in ("light", "dark"):
        browser.choose(browser.find("#theme"), theme)
        colors[theme] = ground()
    assert colors["light"] != colors["dark"], colors
    browser.choose(browser.find("#theme"), "")
    for theme in ("dark", "light"):
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
        assert ground() == colors[theme], theme
    browser.choose(browser.find("#theme"), "dark")
    browser.driver.refresh()
    browser.until_text("ready", selector="header")
    assert ground() == colors["dark"], "the choice is kept"
    browser.choose(browser.find("#theme"), "")


def narrow(browser):
    """Nothing needs scrolling sideways on a small screen, and text can be twice as large."""
    browser.driver.set_window_size(520, 800)
    for name in VIEWS:
        browser.view(name)
        wide = browser.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 1, f"{name} is {wide} wider than the screen"
    browser.driver.set_window_size(1280, 900)


def screenshots(browser, folder):
    os.makedirs(folder, exist_ok=True)
    for theme, name in (("dark", "overview"), ("light", "latency"), ("dark", "memory"), ("light", "keys"), ("dark", "console")):
        browser.choose(browser.find("#theme"), theme)
        browser.view(name)
        if name == "keys":
            open_key(browser, "scores")
        if name == "memory":
            browser.press("Scan all keys")
            browser.until_text("Done: ")
            browser.script("document.querySelector('#view-memory .sheet:last-child').scrollIntoView()")
        else:
            browser.script("scrollTo(0, 0)")
        browser.script("document.activeElement.blur()")
        time.sleep(1.5)
        path = os.path.join(folder, f"page-{name}-{theme}.png")
        browser.driver.save_screenshot(path)
        assert os.path.getsize(path) < 150_000, (path, os.path.getsize(path))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--server", required=True)
    options.add_argument("--axe")
    options.add_argument("--screenshots")
    options = options.parse_args()
    admin = wire.free_port()
    with tempfile.TemporaryDirectory() as scratch:
        os.mkdir(os.path.join(scratch, "replica"))
        process, client = wire.start(options.server, scratch, ["--admin-port", str(admin), "--threads", "2"])
        port = client.socket.getpeername()[1]
        replica, _ = wire.start(options.server, os.path.join(scratch, "replica"), ["--replicaof", f"127.0.0.1 {port}"])
        replica_port = _.socket.getpeername()[1]
        fill(client)
        client("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+info", "+scan", "+memory|usage")
        load, browser = Load(port), Browser()
        load.start()
        try:
            size = first_load(browser, f"http://127.0.0.1:{admin}/")
            steps = [
                lambda: landmarks(browser), lambda: overview(browser), lambda: latency(browser), lambda: workers(browser, 2),
                lambda: clients(browser, wire.Client(port)), lambda: slow(browser, client), lambda: hot(browser),
                lambda: memory(browser, client), lambda: keys(browser, client), lambda: long_names(browser, client),
                lambda: topology(browser, port, replica_port),
                lambda: console(browser, client), lambda: themes(browser), lambda: narrow(browser),
            ]
            for number, step in enumerate(steps):
                began = time.monotonic()
                step()
                names = step.__code__.co_names
                print(f"{names[0]}: {time.monotonic() - began:.1f} s", flush=True)
                assert not browser.complaints(), browser.complaints()
                assert not browser.script("return window.harmed || document.querySelectorAll('img').length"), f"markup after step {number}"
            if options.axe:
                accessibility(browser, open(options.axe).read())
                print("axe-core finds nothing", flush=True)
            if options.screenshots:
                screenshots(browser, options.screenshots)
            hardship(browser, client, port)
            browser.close()
            reading_alone(admin)
            assert process.poll() is None and replica.poll() is None
        finally:
            browser.close()
            load.end()
            for server in (replica, process):
                server.terminate()
                server.wait(wire.PATIENCE)
        cluster(options.server, scratch)
    print(f"{len(VIEWS)} views; the first load is one request of {size} bytes")


if __name__ == "__main__":
    main()
