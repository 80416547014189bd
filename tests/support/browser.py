"""A headless Chromium, driven through the DevTools protocol over two pipes: no other package."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 60.0  # seconds for one answer, on a machine that is busy elsewhere


class Page:
    """One tab.

    Attributes:
        complaints: uncaught errors, and what the console has as error or warning.
        requests: addresses asked for.
    """

    def __init__(self, process: subprocess.Popen[bytes], reader: int, writer: int) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self._buffer, self._last, self._session = b"", 0, None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def show(self, path: Path | str, width: int, height: int = 900, dark: bool = False) -> None:
        """Loads a file or an address into a window of so many CSS pixels; of a phone's kind where
        narrow."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        address = path if isinstance(path, str) else path.as_uri()
        self.ask("Page.navigate", url=address)
        protocol = address.partition(":")[0]
        self.wait(f"document.readyState + location.protocol == 'complete{protocol}:'")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until a JavaScript expression holds: what answers an event comes a moment after it."""
        ready = time.monotonic() + PATIENCE
        while not self.run(expression):
            assert time.monotonic() < ready, f"never true: {expression}"
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        """Presses and releases the mouse in the middle of an element."""
        find = f"document.querySelector({json.dumps(selector)})"
        x, y = self.run(
            f"(e => {{ e.scrollIntoView({{block: 'center', behavior: 'instant'}});"
            "const b = e.getBoundingClientRect();"
            f"return [b.x + b.width / 2, b.y + b.height / 2]; }})({find})"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, out: Path) -> None:
        """The whole page, as long as it is, as a PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        image = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        out.write_bytes(base64.b64decode(image["data"]))

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._reader], [], [], PATIENCE)
            data = os.read(self._reader, 1 << 16) if ready else b""
            assert data, f"Chromium does not answer (exit status {self._process.poll()})"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.complaints.append(str(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])


@contextmanager
def open_page(home: Path, *given: str) -> Iterator[Page]:
    """A fresh browser whose profile lies in `home`, with options of its own; skips the test where
    there is none."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium in the path: apt-get install chromium")
    from_us, to_browser = os.pipe()
    from_browser, to_us = os.pipe()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    options += ["--remote-debugging-pipe", "--hide-scrollbars", f"--user-data-dir={home}", *given]
    # The protocol wants to read from descriptor 3 and to write to 4.
    script = f'exec "$0" "$@" 3<&{from_us} 4>&{to_us}'
    process = subprocess.Popen(
        ["/bin/bash", "-c", script, program, *options],
        pass_fds=(from_us, to_us),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(from_us)
    os.close(to_us)
    try:
        page = Page(process, from_browser, to_browser)
        yield page
        page._session = None
        page.ask("Browser.close")
        process.wait(PATIENCE)
    finally:
        os.close(to_browser)
        os.close(from_browser)
        if process.poll() is None:
            process.kill()
            process.wait()
