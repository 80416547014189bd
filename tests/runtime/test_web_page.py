"""The page in Chromium, on a phone's screen and a desk's: it says what the native runner says."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from support.browser import Page, open_page
from support.once import made_once
from support.real_models import smollm2
from support.web import built_site, served

from runtime.packaging.web_site import Site

pytestmark = pytest.mark.soak
PROMPT = "Once upon a time"
SCREENS = {"phone": (360, 740), "desk": (1280, 800)}
READY = "document.querySelector('#models')?.inert === false"
LOADED = "!document.querySelector('#talk').hidden"
REFUSED = "!document.querySelector('#error').hidden"
ANSWERED = "document.querySelector('#speed').textContent != ''"


@pytest.fixture(scope="module")
def site(shared_data: Path) -> Site:
    return built_site(shared_data)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with open_page(tmp_path / "profile") as page:
        show(page, *SCREENS["phone"])
        yield page
        assert page.complaints == []


def show(page: Page, width: int, height: int) -> None:
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    page.ask("Emulation.setDeviceMetricsOverride", **screen)


def go(page: Page, url: str) -> None:
    page.ask("Page.navigate", url=url)
    page.wait(READY)


def choose(page: Page, path: Path) -> None:
    """As in the system's dialog."""
    root = page.ask("DOM.getDocument")["root"]["nodeId"]
    node = page.ask("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    page.ask("DOM.setFileInputFiles", files=[str(path)], nodeId=node)


def write(page: Page, text: str) -> None:
    page.run("document.querySelector('#text').focus()")
    page.ask("Input.insertText", text=text)
    page.click("#send")


def ask(page: Page, text: str, tokens: int = 40) -> str:
    """The answer to a prompt."""
    page.run(f"document.querySelector('#tokens').value = {tokens}")
    write(page, text)
    page.wait(f"{ANSWERED} || {REFUSED}")
    return page.run("[...document.querySelectorAll('.answer')].at(-1).dataset.said")


def fits(page: Page) -> bool:
    """Whether nothing is wider than the screen."""
    return page.run("document.documentElement.scrollWidth <= innerWidth")


def native(build: Path, model: Path, *options: str) -> str:
    command = [build / "runner", model, "--threads", "1", "-p", PROMPT, "-n", "40", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def open_model(page: Page, url: str, name: str) -> None:
    go(page, f"{url}?model=models/{name}")
    page.wait(LOADED)


def texts(page: Page, kind: str) -> list[str]:
    return page.run(f"[...document.querySelectorAll('.{kind}')].map(e => e.textContent)")


@pytest.fixture(scope="module")
def smollm2_pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct of PyPI's package, quantized by rtn4."""

    def make(directory: Path) -> Path:
        gguf = smollm2(directory)
        out = directory / "smollm2.pte"
        command = [sys.executable, "-m", "exporter", gguf, "--quant", "rtn4", "--out", out]
        subprocess.run(command, check=True, capture_output=True)
        gguf.unlink()
        return out

    return made_once(tmp_path_factory, "smollm2_web", make)


@pytest.mark.parametrize("screen", ["phone", "desk"])
def test_smollm2_from_a_file_and_from_a_url(
    screen: str, page: Page, site: Site, cpp_build: Path, smollm2_pte: Path
) -> None:
    expected = native(cpp_build, smollm2_pte, "--chat").removesuffix("\n")
    show(page, *SCREENS[screen])
    with served({**site.files, "models/smollm2.pte": smollm2_pte}) as url:
        go(page, url)
        choose(page, smollm2_pte)
        page.wait(LOADED)
        assert ask(page, PROMPT) == expected
        assert fits(page)
        open_model(page, url, "smollm2.pte")
        page.click("#clear")
        assert ask(page, PROMPT) == expected
        if (directory := os.environ.get("THIMBLE_SCREENSHOTS")) is not None:
            page.screenshot(Path(directory) / f"smollm2-{screen}.png")


@pytest.mark.parametrize("screen", SCREENS)
def test_a_file_then_offline(
    screen: str, page: Page, site: Site, cpp_build: Path, embedded_cpu_pte: Path
) -> None:
    expected = native(cpp_build, embedded_cpu_pte)
    show(page, *SCREENS[screen])
    with served(site.files) as url:
        go(page, url)
        assert fits(page)
        page.run("document.documentElement.dataset.pieces = 0")
        choose(page, embedded_cpu_pte)
        page.wait(LOADED)
        page.run(
            "new MutationObserver(changes => { document.documentElement.dataset.pieces ="
            "+document.documentElement.dataset.pieces + changes.length })"
            ".observe(document.querySelector('#log'), {childList: true, subtree: true})"
        )
        assert ask(page, PROMPT) == expected
        assert int(page.run("document.documentElement.dataset.pieces")) > 20  # streamed
        assert "tokens a second" in page.run("document.querySelector('#speed').textContent")
        assert fits(page)
        page.wait("navigator.serviceWorker.controller?.state == 'activated'")
    page.run("window.isOld = true")
    page.ask("Page.reload")  # the server has ended
    page.wait(f"window.isOld === undefined && {READY}")
    page.click(".open")
    page.wait(LOADED)
    assert ask(page, PROMPT) == expected
    page.complaints.clear()  # of addresses that did not answer


def test_a_url_and_a_conversation(
    page: Page, site: Site, cpp_build: Path, chat_pte: Path, stories_cpu_pte: Path
) -> None:
    files = {**site.files, "models/chat.pte": chat_pte, "models/plain.pte": stories_cpu_pte}
    with served(files) as url:
        open_model(page, url, "chat.pte")
        assert page.run("crossOriginIsolated")
        expected = native(cpp_build, chat_pte, "--chat").removesuffix("\n")
        assert ask(page, PROMPT) == expected
        page.click("#clear")
        page.wait("document.querySelector('#log').childNodes.length == 0")
        assert ask(page, PROMPT) == expected
        page.click("#to-models")
        page.wait(f"{READY} && document.querySelectorAll('.open').length == 1")
        page.run(f"document.querySelector('#url').value = {json.dumps(f'{url}models/plain.pte')}")
        page.click("#from-url button")
        page.wait(LOADED)
        assert ask(page, PROMPT) == native(cpp_build, stories_cpu_pte)
        page.click("#to-models")
        page.wait(f"{READY} && document.querySelectorAll('.open').length == 2")
        assert fits(page)
        page.run("window.confirm = () => true")
        page.click("#list li:first-child .quiet")
        page.wait("document.querySelectorAll('.open').length == 1")
        assert page.run("document.querySelector('.open span').textContent") == "plain.pte"


LINES = [f"Tell me more about number {number}" for number in range(12)]


def test_a_talk_outlives_a_reload(page: Page, site: Site, cpp_build: Path, chat_pte: Path) -> None:
    """The model reads what was said before, as long as it fits."""
    command = [cpp_build / "runner", chat_pte, "--threads", "1", "--chat", "--system", "Be nice."]
    lines = "".join(f"{line}\n" for line in LINES)
    result = subprocess.run([*command, "-n", "20"], input=lines, capture_output=True, text=True)
    with served({**site.files, "models/chat.pte": chat_pte}) as url:
        open_model(page, url, "chat.pte")
        page.run("document.querySelector('#system').value = 'Be nice.'")
        answers = [ask(page, line, 20) for line in LINES[:2]]
        for _ in range(2):
            shown = texts(page, "answer")
            open_model(page, url, "chat.pte")
            assert texts(page, "mine") == LINES[:2] and texts(page, "answer") == shown
        assert page.run("document.querySelector('#system').value") == "Be nice."
        answers += [ask(page, line, 20) for line in LINES[2:]]
        assert "".join(f"{answer}\n" for answer in answers) == result.stdout
        assert texts(page, "dropped")[0] == LINES[0]
        assert "no longer fit" in page.run("document.querySelector('#speed').textContent")
        page.click("#clear")
        open_model(page, url, "chat.pte")
        assert texts(page, "mine") == []
        hint = "getComputedStyle(document.querySelector('#log'), '::before').content"
        assert "Ask something." in page.run(hint)


def test_what_is_refused_leaves_the_talk_alone(page: Page, site: Site, chat_pte: Path) -> None:
    """An option, and the browser's storage."""
    with served({**site.files, "models/chat.pte": chat_pte}) as url:
        open_model(page, url, "chat.pte")
        said = ask(page, PROMPT, 8)
        page.run("document.querySelector('#temperature').value = -1")
        ask(page, "And then?", 8)
        assert "temperature is -1" in page.run("document.querySelector('#error').textContent")
        assert texts(page, "mine") == [PROMPT]
        assert page.run("document.querySelector('#text').value") == "And then?"
        page.run("document.querySelector('#temperature').value = ''")
        page.run("document.querySelector('#text').value = ''")
        full = "() => { throw new DOMException('', 'QuotaExceededError') }"
        page.run(f"void (Storage.prototype.setItem = {full})")
        assert ask(page, "Who was it?", 8) != ""
        assert "keeps nothing here" in page.run("document.querySelector('#speed').textContent")
        assert texts(page, "mine") == [PROMPT, "Who was it?"]
        page.click("summary")
        for name in ("temperature", "tokens", "system", "text"):
            inside = f"document.querySelector('#{name}').getBoundingClientRect()"
            assert page.run(f"{inside}.right <= innerWidth && {inside}.bottom <= innerHeight")
        open_model(page, url, "chat.pte")
        assert texts(page, "mine") == [PROMPT] and said != ""


class Plain(SimpleHTTPRequestHandler):
    """A web server that knows nothing of the page, so that it cannot share memory."""

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def plainly_served(directory: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Plain, directory=directory)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("isolated", [True, False])
def test_stopping(
    isolated: bool, page: Page, site: Site, embedded_cpu_pte: Path, tmp_path: Path
) -> None:
    site.write(tmp_path / "site")
    with served(site.files) if isolated else plainly_served(tmp_path / "site") as url:
        go(page, url)
        choose(page, embedded_cpu_pte)
        page.wait(LOADED)
        assert page.run("crossOriginIsolated") is isolated
        page.run(
            "new MutationObserver(() => document.querySelector('#stop').click())"
            ".observe(document.querySelector('#log'), {childList: true, subtree: true})"
        )
        page.run("document.querySelector('#tokens').value = ''")
        write(page, PROMPT)
        page.wait(ANSWERED)
        assert "stopped" in page.run("document.querySelector('#speed').textContent")
        assert page.run("document.querySelector('#stop').hidden")


def damaged(tmp_path: Path, stories: Path, _: Path) -> tuple[Path, str]:
    data = bytearray(stories.read_bytes())
    data[len(data) // 2] ^= 1
    path = tmp_path / "damaged.pte"
    path.write_bytes(data)
    return path, "damaged.pte is damaged in its "


def of_another_delegate(_: Path, __: Path, xnnpack: Path) -> tuple[Path, str]:
    return xnnpack, f"{xnnpack.name} runs on XnnpackBackend, which this runner does not include: "


def too_large(tmp_path: Path, *_: Path) -> tuple[Path, str]:
    path = tmp_path / "large.pte"
    with path.open("wb") as file:
        file.truncate(5 << 30)
    return path, "large.pte needs at least 5.4 GB of memory, but "


@pytest.mark.parametrize("make", [damaged, of_another_delegate, too_large])
def test_files_that_cannot_run(
    make: Callable[..., tuple[Path, str]],
    page: Page,
    site: Site,
    stories_cpu_pte: Path,
    stories_pte: Path,
    tmp_path: Path,
) -> None:
    """One sentence each, on the page."""
    path, beginning = make(tmp_path, stories_cpu_pte, stories_pte)
    with served(site.files) as url:
        go(page, url)
        choose(page, path)
        page.wait(REFUSED)
        sentence = page.run("document.querySelector('#error').textContent")
        assert sentence.startswith(beginning) and "\n" not in sentence
        page.wait(READY)
        assert fits(page)
