"""A page in headless Chromium, and the functions by which tests use it.

Chromium and its driver are the system's (Debian: chromium, chromium-driver).
"""
import json
import time

from selenium import webdriver
from selenium.common.exceptions import SessionNotCreatedException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PATIENCE = 30


def started(options, tries=3):
    """Starts Chromium, again if it ends at once, as happens on a busy machine."""
    for left in reversed(range(tries)):
        try:
            return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        except SessionNotCreatedException:
            if left == 0:
                raise
            time.sleep(2)


class Browser:
    def __init__(self, width=1280, height=900):
        options = webdriver.ChromeOptions()
        # Without a sandbox, which a container's root cannot have; the page is ours.
        for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = started(options)

    def close(self):
        self.driver.quit()

    def open(self, address):
        self.driver.get(address)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def text(self, selector="main"):
        """Returns the visible text of elements, also of those out of view."""
        return self.script("return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText).join('\\n')", selector)

    def attribute(self, selector, name):
        """Returns an attribute of the first element, in one step: views are redrawn meanwhile."""
        return self.script("return document.querySelector(arguments[0]).getAttribute(arguments[1])", selector, name)

    def until(self, what, condition):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                value = condition()
            except Exception as error:  # An element that is replaced during a check is checked again.
                value = None
                if "stale" not in str(error) and "no such element" not in str(error):
                    raise
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not within {PATIENCE} s; the page says:\n{self.text('body')[-1500:]}")
            time.sleep(0.1)

    def until_text(self, *parts, selector="main"):
        self.until(f"{parts} in {selector}", lambda: all(part in self.text(selector) for part in parts))

    def view(self, name):
        """Goes to a view by its link."""
        self.find(f"nav a[href='#{name}']").click()
        self.until(f"view {name}", lambda: self.find(f"#view-{name}").is_displayed())
        current = self.all("nav a[aria-current='page']")
        assert [link.get_attribute("href").split("#")[1] for link in current] == [name], name

    def button(self, text, within="main"):
        """Returns the visible button with this text."""
        find = """return [...document.querySelectorAll(arguments[0] + ' button')].find((it) => it.offsetParent && it.innerText.trim() === arguments[1])"""
        return self.until(f"a button {text}", lambda: self.script(find, within, text))

    def choose(self, select, value):
        self.script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))", select, value)

    def type(self, element, text):
        element.clear()
        element.send_keys(text)

    def labelled(self, text, within="main"):
        """Returns the visible control with this label."""
        find = """const labels = [...document.querySelectorAll(arguments[0] + ' label')];
                  const is = (label) => label.offsetParent && [...label.childNodes].some((node) => node.nodeType === 3 && node.data === arguments[1]);
                  return labels.find(is)?.querySelector('input, select, textarea')"""
        return self.until(f"a control {text}", lambda: self.script(find, within, text))

    def press(self, text, within="main"):
        """Presses the visible button with this text. A button that is replaced meanwhile is searched again."""
        def pressed():
            self.button(text, within).click()
            return True
        self.until(f"a button {text} to press", pressed)

    def complaints(self):
        """Returns the errors of the browser's console, except refusals that tests cause."""
        expected = ("502 (Bad Gateway)", "503 (Service Unavailable)", "422 (Unprocessable", "504 (Gateway", "401 (Unauthorized)", "ERR_CONNECTION_REFUSED")
        lines = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [line for line in lines if not any(word in line for word in expected)]

    def requests(self):
        """Returns the requests since the last call: address, and bytes received."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked, came = {}, {}
        for event in events:
            of = event["params"]
            if event["method"] == "Network.requestWillBeSent":
                asked[of["requestId"]] = of["request"]["url"]
            if event["method"] == "Network.loadingFinished":
                came[of["requestId"]] = of["encodedDataLength"]
        return [(address, came.get(name, 0)) for name, address in asked.items()]


KEYS = Keys
