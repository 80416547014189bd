"""The server's page, used in a browser."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.browser import Page, open_page
from support.chats import export_chat_model
from support.encoder_models import export_embedder
from support.once import made_once
from support.pictures import picture, png
from support.servers import Server, export_caller, serving

pytestmark = pytest.mark.check

READY = "document.querySelector('h1').textContent == 'stories'"
IDLE = "document.getElementById('send').textContent == 'Send'"
TEXTS = "[...document.querySelectorAll('.message')].map(e => e.textContent.trim())"
# The template writes the last message alone, in Markdown that a page must not run.
HOSTILE = "**bold** <img src=x onerror=alert(1)> [a](javascript:alert(1)) [b](https://example.com)"


@pytest.fixture(scope="module")
def server(
    cpp_build: Path, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    source = shared_data / "stories260K"
    pte = made_once(
        tmp_path_factory,
        "page",
        lambda directory: export_chat_model(source, directory, max_context_len=160),
    )
    with serving(pte, "--name", "stories", "--threads", "1") as server:
        yield server


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("profile")) as page:
        yield page


def open_chat(page: Page, server: Server, width: int, height: int, dark: bool) -> None:
    page.show(server.address + "/", width, height, dark)
    page.wait(READY)


def write(page: Page, text: str) -> None:
    page.run(f"document.getElementById('text').value = {text!r}")
    page.click("#send")


@pytest.mark.parametrize(("width", "height", "dark"), [(360, 740, False), (1280, 800, True)])
def test_a_talk(page: Page, server: Server, width: int, height: int, dark: bool) -> None:
    open_chat(page, server, width, height, dark)
    page.click("#clear")
    write(page, "Once upon a time")
    page.wait(f"({TEXTS}).length == 2 && {IDLE}")
    question, answer = page.run(TEXTS)
    assert question == "Once upon a time" and answer
    assert "tokens" in page.run("document.getElementById('status').textContent")
    write(page, "   ")
    assert page.run("document.getElementById('status').textContent") == "Write something first."
    assert page.run("document.documentElement.scrollWidth") <= width
    page.click("summary")
    for name in ("system", "temperature", "top_p", "max_tokens"):
        inside = f"document.getElementById('{name}').getBoundingClientRect()"
        assert page.run(f"{inside}.right") <= width
        assert page.run(f"{inside}.bottom") <= height
    # It outlives a reload.
    open_chat(page, server, width, height, dark)
    page.wait(f"({TEXTS}).length == 2")
    assert page.run(TEXTS) == [question, answer]
    page.click("#clear")
    open_chat(page, server, width, height, dark)
    assert page.run(TEXTS) == []
    assert not page.complaints, page.complaints
    assert all(address.startswith(server.address) for address in page.requests)


def test_old_messages_are_dropped_and_errors_are_told_once(page: Page, server: Server) -> None:
    open_chat(page, server, 360, 740, False)
    page.run("document.getElementById('max_tokens').value = '30'")
    for count in (2, 4, 6, 8):
        write(page, "Once upon a time there was a girl who liked to play")
        page.wait(f"({TEXTS}).length == {count} && {IDLE}")
    assert page.run("document.querySelectorAll('.dropped').length") >= 2
    assert "no longer fit" in page.run("document.getElementById('status').textContent")
    page.click("#clear")
    for _ in range(2):
        write(page, "word " * 300)
        page.wait(f"{IDLE} && document.getElementById('status').textContent.startsWith('Error')")
        assert page.run(TEXTS) == []
        assert page.run("document.getElementById('text').value.length") == 1500
    assert "maximum context length" in page.run("document.getElementById('status').textContent")
    page.complaints.clear()  # the browser's own line of the refused request
    page.run("void (Storage.prototype.setItem = () => { throw new DOMException('full') })")
    write(page, "And then?")
    page.wait(f"({TEXTS}).length == 2 && {IDLE}")
    assert "keeps nothing here" in page.run("document.getElementById('status').textContent")


def test_markdown_is_shown_and_nothing_of_it_runs(page: Page, server: Server) -> None:
    open_chat(page, server, 1280, 800, False)
    page.run(
        "import('/web/page/markdown.mjs').then(m => "
        f"document.getElementById('log').append(m.render({HOSTILE!r})))"
    )
    page.wait("document.querySelector('#log strong') !== null")
    found = page.run("document.getElementById('log').innerHTML")
    assert "<img" not in found and "javascript" not in found and "onerror" not in found
    assert '<a href="https://example.com" target="_blank" rel="noopener noreferrer">b</a>' in found


def test_a_model_is_chosen(
    page: Page, cpp_build: Path, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each with a conversation of its own."""
    page.complaints.clear()  # of the tests before
    pte, rows = export_caller(shared_data, tmp_path_factory), export_embedder(tmp_path_factory)
    with serving(f"one={pte}", f"two={pte}", f"rows={rows}", "--threads", "1") as server:
        page.show(server.address + "/", 360, 740, True)
        page.wait("document.title.startsWith('one')")
        offered = "[...document.getElementById('models').options].map(e => e.value)"
        assert page.run(offered) == ["one", "two"]
        write(page, "Once upon a time")
        page.wait(f"({TEXTS}).length == 2 && {IDLE}")
        choose = "document.getElementById('models').value = '{0}';"
        choose += "document.getElementById('models').dispatchEvent(new Event('change'))"
        page.run(choose.format("two"))
        page.wait(f"document.title.startsWith('two') && ({TEXTS}).length == 0")
        write(page, "One day")
        page.wait(f"({TEXTS}).length == 2 && {IDLE}")
        assert page.run("document.documentElement.scrollWidth") <= 360
        page.show(server.address + "/", 1280, 800, False)
        page.wait(f"document.title.startsWith('two') && ({TEXTS}).length == 2")
        page.run(choose.format("one"))
        page.wait(f"({TEXTS})[0] == 'Once upon a time'")
        assert page.run("document.getElementById('model').offsetWidth") == 0
        assert not page.complaints, page.complaints


def test_only_the_pages_files_are_served(server: Server) -> None:
    for path in ("/page/index.html", "/page/../app.py", "/web/vendor/LICENSE-marked", "/page/"):
        assert httpx.get(server.address + path).status_code == 404
    headers = httpx.get(server.address + "/").headers
    assert "default-src 'self'" in headers["content-security-policy"]


def test_a_picture_is_asked_about(
    page: Page, cpp_build: Path, seeing_model: tuple[Path, Any, Path]
) -> None:
    """Chosen or pasted; a model that does not see offers nothing."""
    page.complaints.clear()  # of the tests before
    shown = "document.querySelectorAll('#pictures img').length"
    data = base64.b64encode(png(picture(40, 30))).decode()
    with serving(f"eyes={seeing_model[0]}", "--threads", "1") as server:
        page.show(server.address + "/", 360, 740, False)
        page.wait("!document.getElementById('add').hidden")
        page.run(
            "window.file = (name, type, bytes) => new File([bytes], name, {type});"
            f"window.bytes = Uint8Array.from(atob('{data}'), c => c.charCodeAt(0));"
            "window.transfer = (...files) => { const made = new DataTransfer();"
            "files.forEach(one => made.items.add(one)); return made; };"
            "window.paste = (data) => document.getElementById('text').dispatchEvent("
            "new ClipboardEvent('paste', {clipboardData: data, cancelable: true}))"
        )
        picked = "file('x.png', 'image/png', bytes)"
        page.run(
            f"document.getElementById('files').files = transfer({picked}).files;"
            "document.getElementById('files').dispatchEvent(new Event('change'))"
        )
        page.wait(f"{shown} == 1")
        assert page.run(f"paste(transfer({picked}))") is False  # the browser pastes nothing more
        page.wait(f"{shown} == 2")
        page.run("document.querySelector('#pictures button').click()")
        page.wait(f"{shown} == 1")
        # Of several files, those that are pictures are taken; text beside them is pasted too.
        page.run(
            f"window.cells = transfer(file('x.gif', 'image/gif', bytes), {picked});"
            "cells.setData('text/plain', 'cells')"
        )
        assert page.run("paste(cells)") is True
        page.wait(f"{shown} == 2")
        page.wait("document.getElementById('status').textContent.includes('x.gif is not a pic')")
        # What the server refuses comes back, before what was added meanwhile.
        page.run("paste(transfer(file('bad.png', 'image/png', 'no picture')))")
        page.wait(f"{shown} == 3")
        write(page, "What?")
        page.run(f"document.getElementById('text').value = 'And?'; paste(transfer({picked}))")
        page.wait(f"{IDLE} && document.getElementById('status').textContent.startsWith('Error: p')")
        page.wait(f"{shown} == 4")
        assert page.run("document.getElementById('text').value") == "What?\nAnd?"
        page.complaints.clear()  # the browser's own line of the refused request
        for left in (3, 2, 1):
            page.run("[...document.querySelectorAll('#pictures button')].at(-1).click()")
            page.wait(f"{shown} == {left}")
        page.run("document.getElementById('max_tokens').value = '8'")
        write(page, "What?")
        page.wait(f"({TEXTS}).length == 2 && {IDLE}")
        assert page.run("document.querySelectorAll('.user img').length") == 1
        assert "tokens" in page.run("document.getElementById('status').textContent")
        assert server.metric("thimble_tokens_total") > 40  # with the rows of the picture
        assert page.run("document.documentElement.scrollWidth") <= 360
        assert not page.complaints, page.complaints
