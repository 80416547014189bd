"""`python -m runtime web`: what it serves and what it says."""

import http.client
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.node import find_node
from support.web import served

from runtime.build import PACKAGED
from runtime.commands.cli import main
from runtime.errors import BuildError, RunnerError
from runtime.packaging.web_site import MODULES, WEB_DIR, Site, find_site
from runtime.web_server import open_server

MOST_VENDORED_BYTES = 90_000  # what renders Markdown
MOST_BYTES = 74_000  # of the page, without the modules
Answer = tuple[int, dict[str, str], bytes]


def ask(url: str, path: str, method: str = "GET", **headers: str) -> Answer:
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=60)
    connection.request(method, path, headers={"Range": headers["range"]} if headers else {})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, dict(response.getheaders()), body


def test_files_and_ranges(tmp_path: Path) -> None:
    model = tmp_path / "model.pte"
    data = bytes(range(256)) * 9000  # more than a block
    model.write_bytes(data)
    with served({"models/my model.pte": model}) as url:
        path = "/models/my%20model.pte?x=1"
        status, headers, body = ask(url, path)
        assert (status, body) == (200, data)
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
        assert headers["Accept-Ranges"] == "bytes"
        for asked, start, end in [("10-19", 10, 20), ("2303990-", -10, None), ("-5", -5, None)]:
            status, headers, body = ask(url, path, range=f"bytes={asked}")
            assert (status, body) == (206, data[start:end])
            first = len(data) + start if start < 0 else start
            content = f"bytes {first}-{first + len(body) - 1}/{len(data)}"
            assert headers["Content-Range"] == content
        status, headers, body = ask(url, path, range="bytes=9999999-")
        assert (status, headers["Content-Range"], body) == (416, f"bytes */{len(data)}", b"")
        assert ask(url, path, range="bytes=0-1,3-4")[::2] == (200, data)
        assert ask(url, path, "HEAD")[1]["Content-Length"] == str(len(data))
        for nothing in ("/../runtime/serve.py", "/models/", "/%00", "/etc/passwd"):
            assert ask(url, nothing)[::2] == (404, b"")


NAME = """
const { openSource } = await import(process.argv[1]);
console.log((await openSource(process.argv[2])).name);
"""


def test_a_name_with_a_percent_sign(tmp_path: Path) -> None:
    model = tmp_path / "model.pte"
    model.write_bytes(b"x")
    with served({"50%.pte": model}) as url:
        command = [find_node(), "--input-type=module", "-e", NAME]
        for name in ("50%.pte", "50%25.pte"):
            arguments = [WEB_DIR / "source.mjs", url + name]
            result = subprocess.run([*command, *arguments], capture_output=True, text=True)
            assert result.stdout == "50%.pte\n", result.stderr


def test_the_page_is_small() -> None:
    kinds = (".mjs", ".js", ".html", ".css")
    sizes = {path: path.stat().st_size for path in WEB_DIR.rglob("*") if path.suffix in kinds}
    vendored = sum(size for path, size in sizes.items() if path.parent.name == "vendor")
    assert len(sizes) > 10
    assert sum(sizes.values()) - vendored < MOST_BYTES and vendored < MOST_VENDORED_BYTES


def test_a_port_that_is_in_use() -> None:
    with open_server({}, 0) as first:
        sentence = f"port {first.server_port}: Address already in use: choose another with --port"
        with pytest.raises(RunnerError, match=f"^{sentence}$"):
            open_server({}, first.server_port)


def test_modules_that_are_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a wheel, which cannot build, but was not asked to."""
    monkeypatch.setattr("runtime.build.BUILD_DIR", PACKAGED)
    sentence = "the browser's runner is built from a checkout; there run thimble-runtime build "
    with pytest.raises(BuildError, match=f"thimble.wasm is missing: {sentence}--target wasm32"):
        find_site(tmp_path)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """The page, with modules that hold nothing."""
    for name in MODULES.values():
        (tmp_path / "build" / name).mkdir(parents=True)
        (tmp_path / "build" / name / "thimble.wasm").touch()
    return find_site(tmp_path / "build")


def test_the_service_worker_keeps_all_that_the_page_needs(site: Site) -> None:
    text = (WEB_DIR / "service-worker.js").read_text(encoding="utf-8")
    kept = set(text.split("FILES = [")[1].split("]")[0].replace('"', "").replace(",", " ").split())
    licences = {"LICENSE", "vendor/LICENSE-marked", "vendor/LICENSE-dompurify"}
    unneeded = {*licences, "README.md", "index.d.ts", "package.json", "service-worker.js"}
    assert kept == set(site.files) - unneeded - {"index.html"} | {"./"}


def test_packing(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.commands.web.find_site", lambda: site)
    out = tmp_path / "out" / "site"
    result = CliRunner().invoke(main, ["web", "--pack", str(out)])
    assert (result.exit_code, result.output) == (0, f"wrote {out}\n")
    written = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert written == set(site.files) >= {"index.html", "page/page.mjs", "thimble.wasm"}
    result = CliRunner().invoke(main, ["web", "--pack", str(out), "--open"])
    assert result.exit_code == 2 and "leave out MODEL and --open" in result.output


PROGRAM = """
import sys
from pathlib import Path
from runtime.__main__ import run
from runtime.packaging.web_site import find_site
import runtime.commands.web
site = find_site(Path(sys.argv.pop(1)))
sys.modules["runtime.commands.web"].find_site = lambda: site
run()
"""


def test_the_command_serves_until_ctrl_c(site: Site, tmp_path: Path) -> None:
    model = tmp_path / "my model.pte"
    model.write_bytes(b"weights")
    command = [sys.executable, "-c", PROGRAM, tmp_path / "build", "web", model, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url, _, rest = line.partition(" ")
        assert rest == "(Ctrl-C ends)\n"
        assert url.endswith("/?model=models/my%2520model.pte")
        assert ask(url, "/models/my%20model.pte")[2] == b"weights"
        assert b"<title>Thimble</title>" in ask(url, "/")[2]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (out, err.strip(), process.returncode) == ("", "", 130)
