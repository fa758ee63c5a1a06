"""Headless Chromium through its own driver's HTTP interface: open a page, run script, press keys, take a picture."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,1000",
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that the WebDriver standard gives elements


class Browser:
    """Use as a context manager; `profile` is an empty folder for the browser's own files."""

    def __init__(self, profile: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._driver = subprocess.Popen(
            [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._base = f"http://127.0.0.1:{port}"
        try:
            self._wait()
            options = {"binary": BROWSER, "args": [*FLAGS, f"--user-data-dir={profile}"]}
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self._session = f"/session/{made['sessionId']}"
        except BaseException:
            self._driver.kill()
            self._driver.wait()
            raise

    def _wait(self) -> None:
        for _ in range(200):
            try:
                if self._call("GET", "/status")["ready"]:
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
        raise RuntimeError("the driver does not answer")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from None

    def open(self, path: Path) -> None:
        self._call("POST", f"{self._session}/url", {"url": path.as_uri()})

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": f"return {script}", "args": []})

    def wait_for(self, expression: str, seconds: float = 10) -> None:
        end = time.monotonic() + seconds
        while not self.run(expression):
            if time.monotonic() > end:
                raise AssertionError(f"still false after {seconds} s: {expression}")
            time.sleep(0.02)

    def _find(self, selector: str) -> str:
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        return str(found[ELEMENT])

    def click(self, selector: str) -> None:
        self._call("POST", f"{self._session}/element/{self._find(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        self._call("POST", f"{self._session}/element/{self._find(selector)}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Keys to whatever has the focus."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", f"{self._session}/actions", {"actions": [{"type": "key", "id": "k", "actions": strokes}]})

    def errors(self) -> list[str]:
        """What the console has said since the last time, at level SEVERE."""
        log = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait(10)
