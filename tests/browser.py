"""Chromium without a screen, driven over a pipe with the protocol of its developer tools.

    browser.page(url, scheme="dark", width=360) ─► Page: keys, what it shows, what its console said

Needs nothing but `chromium` on the PATH.
"""

import base64
import json
import os
import shutil
import subprocess
import threading
import time
from itertools import count

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless", "--remote-debugging-pipe", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--mute-audio",
)  # fmt: skip
KEYS = {"Tab": 9, "Enter": 13, "Space": 32, "ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40,
        "ArrowUp": 38, "Home": 36, "End": 35}  # fmt: skip


class Browser:
    """One process; lasts as long as its `with` block."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        def place():  # it reads from 3 and writes to 4
            high = [os.dup2(theirs_in, 103), os.dup2(theirs_out, 104)]
            for number, one in zip((3, 4), high, strict=True):
                os.dup2(one, number)

        root = ("--no-sandbox",) if os.geteuid() == 0 else ()
        self.process = subprocess.Popen(
            [CHROMIUM, *_FLAGS, *root, f"--user-data-dir={self.folder}", "about:blank"],
            preexec_fn=place, pass_fds=(3, 4), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers, self._answers, self.events = count(1), {}, []
        self._heard = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._out)

    def _read(self):
        pending = b""
        with os.fdopen(self._in, "rb", buffering=0) as source:
            while part := source.read(65536):
                *whole, pending = (pending + part).split(b"\0")
                with self._heard:
                    for message in map(json.loads, whole):
                        if "id" in message:
                            self._answers[message["id"]] = message
                        else:
                            self.events.append(message)
                    self._heard.notify_all()

    def ask(self, method, session=None, **given):
        """What the browser answers to one command."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": given}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        with self._heard:
            assert self._heard.wait_for(lambda: number in self._answers, 30.0), method
            answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def page(self, url, scheme="light", width=1200, height=850):
        """A new page that shows `url`."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log"):
            page.ask(f"{domain}.enable")
        page.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=width < 500)  # fmt: skip
        page.ask("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": scheme}])  # fmt: skip
        page.ask("Page.navigate", url=url)
        return page


class Page:
    """One page: what a person does with a keyboard, and what is to be seen."""

    def __init__(self, browser, session):
        self._browser, self.session = browser, session

    def ask(self, method, **given):
        """One command to this page."""
        return self._browser.ask(method, self.session, **given)

    def value(self, script):
        """What an expression gives, as a JSON value; promises are waited for."""
        told = self.ask("Runtime.evaluate", expression=script, returnByValue=True,
                        awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in told, (script, told["exceptionDetails"])
        return told["result"].get("value")

    def until(self, script, seconds=20.0):
        """Wait until an expression is true; while it raises, it is not."""
        until = time.monotonic() + seconds
        tried = f"(() => {{ try {{ return Boolean({script}) }} catch {{ return false }} }})()"
        while not self.value(tried):
            shown = self.value("document.body.innerText") if time.monotonic() > until else None
            assert shown is None, f"never: {script}\n{shown}"
            time.sleep(0.03)

    def press(self, key, shift=False):
        """One key, down and up."""
        text = {"Enter": "\r", "Space": " "}.get(key, "")
        about = {"key": " " if key == "Space" else key, "code": key, "modifiers": 8 * shift,
                 "windowsVirtualKeyCode": KEYS[key]}  # fmt: skip
        self.ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text,
                 **about)  # fmt: skip
        self.ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text):
        """Write into what has the focus."""
        self.ask("Input.insertText", text=text)

    def tab_to(self, selector, most=60):
        """Press Tab until what `selector` names has the focus; it must be reachable so."""
        for _ in range(most):
            if self.value(f"document.activeElement.matches({selector!r})"):
                return
            self.press("Tab")
        raise AssertionError(f"Tab never gets to {selector}")

    def complaints(self):
        """Errors and warnings of the console, exceptions, and what could not be loaded."""
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self.session:
                continue
            told = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(told["exceptionDetails"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and told["type"] in (
                "error", "warning", "assert",
            ):  # fmt: skip
                found.append(str(told["args"]))
            elif event["method"] == "Log.entryAdded":
                found.append(told["entry"]["text"])
        return found

    def screenshot(self, path):
        """A picture of what is in view."""
        data = self.ask("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
