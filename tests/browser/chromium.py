"""Chromium without a screen, by ChromeDriver's W3C protocol: standard library only.

    with Browser() as browser:
        browser.open("file:///tmp/report.html")
        title = browser.run("return document.title")
        assert browser.console() == []

A machine without Chromium or ChromeDriver raises Missing, which tests turn into a skip.
"""
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

START_SECONDS = 30
START_TRIES = 5
CALL_SECONDS = 60
# As root Chromium has no sandbox; the others keep it from asking for hosts of its own.
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--disable-dev-shm-usage", "--window-size=1200,900"]


class Missing(Exception):
    """The machine has no browser."""


class Browser:
    def __init__(self, dark=False):
        self.chromium = shutil.which("chromium")
        driver = shutil.which("chromedriver")
        if not self.chromium or not driver:
            raise Missing("chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
        self.profile = tempfile.mkdtemp(prefix="troupe-chromium-")
        self.dark = dark
        self.session = None
        self.driver = None
        try:
            self.address = "http://127.0.0.1:%d" % self._start_driver(driver)
            self._start()
        except BaseException:
            self.close()
            raise

    def _start_driver(self, driver):
        """The port of a driver. It takes a free one of IPv4 and wants the same of IPv6, which another program may hold:
        then it ends at once, and the next one takes another port."""
        signal.alarm(START_SECONDS)  # a driver that says nothing ends the test
        for _ in range(START_TRIES):
            self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                           text=True, start_new_session=True)
            said = []
            for line in self.driver.stdout:
                said.append(line)
                found = re.search(r"started successfully on port (\d+)", line)
                if found:
                    signal.alarm(0)
                    return int(found.group(1))
            self._end_driver()
        raise RuntimeError("chromedriver ended %d times before it had a port: %s" % (START_TRIES, "".join(said)))

    def _end_driver(self):
        try:
            os.killpg(self.driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.driver.wait()
        self.driver.stdout.close()
        self.driver = None

    def _start(self):
        arguments = ARGUMENTS + ["--user-data-dir=" + self.profile]
        if self.dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"binary": self.chromium, "args": arguments}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options,
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = "/session/" + answer["sessionId"]
        self.open("about:blank")  # in place of the browser's own start page, which asks for a lot
        self.console()
        self.requests()

    def _call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=CALL_SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError("%s %s: %s" % (method, path, error.read().decode(errors="replace")[:2000])) from None

    def open(self, url):
        self._call("POST", self.session + "/url", {"url": url})

    def run(self, script, *arguments):
        """The value that `script`, the body of a function, returns."""
        return self._call("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def screenshot(self):
        """PNG bytes of the window."""
        return base64.b64decode(self._call("GET", self.session + "/screenshot"))

    def resize(self, width, height):
        self._call("POST", self.session + "/window/rect", {"width": width, "height": height})

    def _log(self, kind):
        return self._call("POST", self.session + "/se/log", {"type": kind})

    def console(self):
        """What the console says since the last call: warnings, errors, refusals by the page's policy."""
        return ["%s: %s" % (entry["level"], entry["message"]) for entry in self._log("browser")
                if entry["level"] in ("WARNING", "SEVERE")]

    def requests(self):
        """Addresses asked for since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        return [message["params"]["request"]["url"] for message in messages
                if message["method"] == "Network.requestWillBeSent"]

    def close(self):
        try:
            if self.session:
                self._call("DELETE", self.session)
        except Exception:  # it is ended below
            pass
        if self.driver:
            self._end_driver()
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
