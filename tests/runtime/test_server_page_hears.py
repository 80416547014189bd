"""The server's page of models that hear: files, and the microphone."""

import base64
import io
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browser import Page, open_page
from support.hearing import RATE, spoken, write_wav
from support.servers import Server, serving

from runtime import Transcriber

pytestmark = pytest.mark.check

TONE = 440  # Hz, of what the microphone hears
TEXTS = "[...document.querySelectorAll('.message')].map(e => e.textContent)"
STATUS = "document.getElementById('status').textContent"
IDLE = "document.getElementById('stop').hidden"
CHOOSE = """
window.transfer = (...texts) => {
  const made = new DataTransfer();
  for (const [name, text] of texts) {
    made.items.add(new File([Uint8Array.from(atob(text), c => c.charCodeAt(0))], name));
  }
  return made;
};
window.choose = (...texts) => {
  document.getElementById('sounds').files = transfer(...texts).files;
  document.getElementById('sounds').dispatchEvent(new Event('change'));
};
window.files = [];
window.made = URL.createObjectURL;
URL.createObjectURL = file => { files.push(file); return made(file); };
"""


@pytest.fixture(scope="module")
def server(hearing_model: tuple[Path, Any], cpp_build: Path) -> Iterator[Server]:
    with serving(f"ears={hearing_model[0]}", "--threads", "1") as server:
        yield server


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    home = tmp_path_factory.mktemp("browser")
    tone = np.sin(2 * np.pi * TONE * np.arange(5 * RATE) / RATE)
    with wave.open(str(home / "tone.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((0.5 * 2**15 * tone).astype("<i2").tobytes())
    options = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    options += [f"--use-file-for-fake-audio-capture={home / 'tone.wav'}"]
    with open_page(home / "profile", *options) as page:
        yield page


def open_form(page: Page, server: Server, width: int) -> None:
    page.show(server.address + "/", width, 740, False)
    page.wait("!document.getElementById('sound').hidden")
    page.run(CHOOSE)
    page.click("#clear")


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_files(page: Page, server: Server, hearing_model: tuple[Path, Any], tmp_path: Path) -> None:
    """Chosen or dropped; their texts outlive a reload."""
    open_form(page, server, 360)
    assert page.run("document.getElementById('form').offsetWidth") == 0
    data = write_wav(tmp_path / "x.wav", spoken(3.5, 500)).read_bytes()
    with Transcriber(hearing_model[0]) as transcriber:
        plain = transcriber.transcribe(data)
        timed = transcriber.transcribe(data, language="de", timestamps=True)
    page.run(f"choose(['x.wav', '{base64_of(data)}'], ['y.wav', '{base64_of(data)}'])")
    page.wait(f"({TEXTS}).length == 4 && {IDLE}")
    assert page.run(TEXTS) == ["x.wav", plain.text, "y.wav", plain.text]
    page.wait("Math.abs(document.querySelector('audio').duration - 3.5) < 0.01")
    page.click("#clear")
    page.click("#times")
    page.run("document.getElementById('language').value = 'de'")
    page.run(
        "document.dispatchEvent(new DragEvent('drop', "
        f"{{dataTransfer: transfer(['x.wav', '{base64_of(data)}']), cancelable: true}}))"
    )
    page.wait(f"({TEXTS}).length == 2 && {IDLE}")
    lines = page.run(TEXTS)[1].split("\n")
    first = timed.segments[0]
    assert lines[0] == f"0:{first.start:04.1f} – 0:{first.end:04.1f}  {first.text.strip()}"
    assert page.run("document.documentElement.scrollWidth") <= 360
    before = page.run(TEXTS)
    page.show(server.address + "/", 1280, 740, True)
    page.wait(f"({TEXTS}).length == 2")
    assert page.run(TEXTS) == before
    assert not page.complaints, page.complaints


def test_what_cannot_be_heard(page: Page, server: Server) -> None:
    open_form(page, server, 360)
    page.run(f"choose(['x.txt', '{base64_of(b'no sound')}'])")
    page.wait(f"{STATUS}.startsWith('Error: ')")
    assert "is not a WAV file" in page.run(STATUS)
    assert page.run(TEXTS) == ["x.txt"] and page.run(IDLE)
    page.complaints.clear()  # the browser's own line of the refused request


def test_the_microphone(page: Page, server: Server) -> None:
    """What it hears is what is sent, and can be heard again."""
    open_form(page, server, 360)
    page.click("#record")
    page.wait(f"{STATUS} >= 'Recording: 0:01.5' && {STATUS}.startsWith('Recording')")
    page.click("#stop")
    page.wait(f"({TEXTS}).length == 2 && {IDLE}")
    assert page.run(TEXTS)[0] == "recording.wav" and page.run(TEXTS)[1]
    page.run(
        "files[0].arrayBuffer().then(data => "
        "(window.data = btoa(String.fromCharCode(...new Uint8Array(data).subarray(0, 120000)))))"
    )
    page.wait("window.data")
    sent = base64.b64decode(page.run("data"))
    rate = int.from_bytes(sent[24:28], "little")
    samples = np.frombuffer(sent[44:], "<i2").astype(float)[rate // 2 :][: rate // 2]
    power = np.abs(np.fft.rfft(samples)) ** 2  # half a second: steps of 2 Hz
    # A busy browser loses pieces of its fake microphone's sound, which widens the tone's line.
    near = slice(TONE // 2 - 40, TONE // 2 + 40)
    assert power[near].sum() > 0.5 * power[10:].sum()
    assert wave.open(io.BytesIO(sent)).getnchannels() == 1
    page.run(
        "navigator.mediaDevices.getUserMedia = () => Promise.reject("
        "new DOMException('no', 'NotAllowedError'))"
    )
    page.click("#record")
    page.wait(f"{STATUS}.includes('allow it in the browser')")
    assert not page.complaints, page.complaints


@pytest.mark.soak
def test_the_microphone_while_it_records(
    page: Page, streaming_model: Path, cpp_build: Path
) -> None:
    """A model that reads sound that arrives writes before the recording ends."""
    pytest.importorskip("websockets")
    page.complaints.clear()  # of the tests before
    with serving(f"ears={streaming_model}", "--threads", "1") as server:
        open_form(page, server, 360)
        assert page.run("document.getElementById('timed').offsetWidth") == 0
        page.click("#record")
        page.wait(f"({TEXTS}).length == 2 && ({TEXTS})[1]")
        assert page.run(STATUS).startswith("Recording")
        page.click("#stop")
        page.wait(f"{IDLE} && document.querySelector('audio') && {STATUS} == ''")
        page.wait("localStorage.getItem('thimble: ears')?.includes('recording.wav')")
        assert page.run(TEXTS)[0] == "recording.wav" and page.run(TEXTS)[1]
        page.click("#clear")
        page.click("#record")
        page.wait(f"{STATUS}.startsWith('Recording')")
        page.click("#clear")
        page.wait(f"{IDLE} && ({TEXTS}).length == 0")
        assert not page.complaints, page.complaints
