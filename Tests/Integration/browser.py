"""Headless Chromium, driven by the DevTools protocol over one WebSocket: enough to type, look and wait."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find():
    """The browser's path; HUB_TEST_BROWSER names another one."""
    for name in (os.environ.get("HUB_TEST_BROWSER"), *NAMES):
        path = name and shutil.which(name)
        if path:
            return path
    raise RuntimeError(f"no browser for the page's test: install one of {', '.join(NAMES)}, or name it in HUB_TEST_BROWSER")


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="hub-browser-")
        self.process = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--remote-debugging-port=0", f"--user-data-dir={self.folder}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.folder})
        try:
            port, path = self._address(time.monotonic() + 30)
            self.socket = connect(f"ws://127.0.0.1:{port}{path}", max_size=None, compression=None)
        except BaseException:
            self.close()
            raise
        self.ids = itertools.count(1)

    def _address(self, deadline):
        port_file = os.path.join(self.folder, "DevToolsActivePort")
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the browser ended with {self.process.returncode} at its start")
            if os.path.exists(port_file):
                lines = open(port_file, encoding="utf-8").read().split("\n")
                if len(lines) >= 2:
                    return lines[0], lines[1]
            time.sleep(0.05)
        raise RuntimeError("the browser opened no DevTools port within 30 s")

    def call(self, method, session=None, **parameters):
        number = next(self.ids)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.recv(timeout=30))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def tab(self, url, width=1000, height=700, dark=False):
        return Tab(self, url, width, height, dark)

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Tab:
    """One page in a profile of its own."""

    def __init__(self, browser, url, width, height, dark):
        self.browser = browser
        context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        # What goes wrong in the page is collected, so that a test can say that nothing did.
        self.call("Page.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source="""
            window.faults = [];
            addEventListener("error", (event) => faults.push(String(event.message)));
            addEventListener("unhandledrejection", (event) => faults.push(String(event.reason?.message ?? event.reason)));""")
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def call(self, method, **parameters):
        return self.browser.call(method, session=self.session, **parameters)

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(f"{expression}: {details.get('exception', {}).get('description', details['text'])}")
        return answer["result"].get("value")

    def wait(self, expression, seconds=15):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.value(f"Boolean({expression})"):
                return
            time.sleep(0.05)
        text = self.value("document.body.innerText")
        raise AssertionError(f"not within {seconds} s: {expression}\nthe page says:\n{text}")

    def type(self, selector, text):
        """Focuses the element and types as a keyboard does."""
        self.value(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def enter(self):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r" if kind == "keyDown" else "")

    def hide(self, hidden):
        """As if another tab came to the front."""
        self.value(f"""
            Object.defineProperty(document, "hidden", {{ configurable: true, get: () => {str(hidden).lower()} }});
            document.dispatchEvent(new Event("visibilitychange")); true""")

    def pdf(self):
        """The page as it's printed on A4 by its own margins."""
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True, paperWidth=8.27, paperHeight=11.69)["data"])

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
