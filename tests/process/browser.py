"""A headless chromium, driven over WebDriver with the standard library alone."""

import base64
import json
import os
import shutil
import signal
import urllib.request
from pathlib import Path

from conftest import DEADLINE_S, SLOW, Program

START_S = 60.0

# Calls back with true once the page's text matches, or with the text when time is up.
AWAIT = """
const [pattern, flags, ms, done] = arguments, wanted = new RegExp(pattern, flags);
const watcher = new MutationObserver(look);
const timer = setTimeout(() => end(document.body.innerText), ms);
function end(result) { watcher.disconnect(); clearTimeout(timer); done(result); }
function look() { if (wanted.test(document.body.innerText)) end(true); }
watcher.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
look();
"""


def find():
    """Paths of browser and driver, or None."""
    paths = [shutil.which("chromium"), shutil.which("chromedriver")]
    return paths if all(paths) else None


class Browser:
    """Its files lie in the folder `home`."""

    def __init__(self, home, width=1000, height=1100):
        chromium, driver = find()
        env = {**os.environ, "HOME": str(home), "TMPDIR": str(home)}
        self.driver = Program([driver, "--port=0"], env=env)
        port = self.driver.wait_line(r"started successfully on port (\d+)", START_S).group(1)
        self.base = f"http://127.0.0.1:{port}"
        options = {
            "binary": chromium,
            "args": [
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                f"--user-data-dir={home}/data",
                f"--window-size={width},{height}",
            ],
        }
        asked = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": asked}})
        self.base += f"/session/{session['sessionId']}"
        self.call("POST", "/timeouts", {"script": int(2000 * DEADLINE_S * SLOW)})

    def call(self, method, path, body=None):
        data = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
        request = urllib.request.Request(
            self.base + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=START_S * SLOW) as answer:
            return json.load(answer)["value"]

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def await_text(self, pattern, flags="s", seconds=DEADLINE_S):
        """Waits until the page's text matches."""
        arguments = [pattern, flags, int(seconds * SLOW * 1000)]
        found = self.call("POST", "/execute/async", {"script": AWAIT, "args": arguments})
        assert found is True, f"no {pattern!r} on the page:\n{found}"

    def text(self):
        return self.run("return document.body.innerText")

    def devtools(self, command, **parameters):
        self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def shot(self, name):
        """A picture of the whole page, if TF_SHOTS names a folder for it."""
        folder = os.environ.get("TF_SHOTS")
        if folder:
            picture = base64.b64decode(self.call("GET", "/screenshot"))
            Path(folder, name + ".png").write_bytes(picture)

    def complaints(self):
        """What the browser wrote on its console: errors of scripts, refusals of the policy."""
        lines = self.call("POST", "/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] in ("SEVERE", "WARNING")]

    def forget(self):
        """As new for the next test."""
        self.open("about:blank")
        self.devtools("Emulation.clearDeviceMetricsOverride")
        self.devtools("Emulation.setEmulatedMedia", features=[])
        self.complaints()

    def close(self):
        self.call("DELETE", "")
        self.driver.signal(signal.SIGTERM)
        self.driver.wait()
