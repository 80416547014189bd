"""The runner as WebAssembly in node, behind runtime/web: it says what the native runner says."""

import json
import re
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from support.browser import open_page
from support.node import find_node

from runtime.build import build
from runtime.errors import BuildError
from runtime.executorch_source import find_source

pytestmark = pytest.mark.check
GENERATE = Path(__file__).parents[1] / "support" / "web_generate.mjs"
KERNELS = {"wasm32": "wasm_simd", "wasm32-relaxed": "wasm_relaxed"}
MOST_BYTES = 2 << 20


@pytest.fixture(scope="module", params=KERNELS)
def module(request: pytest.FixtureRequest, shared_data: Path) -> Path:
    """thimble.wasm, with and without relaxed SIMD."""
    find_node()
    directory = shared_data / "executorch_source"
    if not directory.is_dir():
        pytest.skip(f"{directory} is missing")
    pytest.importorskip("ziglang", reason="pip install 'thimble[zig]'")
    try:
        source = find_source(directory)
    except BuildError as error:
        pytest.skip(str(error))
    return build(request.param, ("thimble_web",), source).directory / "thimble.wasm"


def run(module: Path, model: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [find_node(), GENERATE, module, model, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def native(build: Path, model: Path, *options: str) -> str:
    command = [build / "runner", model, "-p", "Once upon a time", "--threads", "1", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("model", ["stories_cpu_pte", "stories_cpu_float_pte", "embedded_cpu_pte"])
def test_the_same_text(
    module: Path, cpp_build: Path, model: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(model)
    result = run(module, path, "generate")
    assert result.returncode == 0, result.stderr
    assert result.stdout == native(cpp_build, path, "-n", "40") != ""
    stats = json.loads(result.stderr)
    assert stats["generated_tokens"] == 40 and stats["threads"] == 1
    kernels = KERNELS[module.parent.name]
    assert stats["runs_with"].startswith(f"kernels {kernels}, 1 thread, ")
    assert stats["runs_with"].endswith("weights in place")


def test_the_same_sampled_text(module: Path, cpp_build: Path, stories_cpu_pte: Path) -> None:
    options = ["-n", "40", "--temperature", "0.8", "--top-k", "40", "--top-p", "0.9"]
    options += ["--min-p", "0.05", "--seed", "7"]
    result = run(module, stories_cpu_pte, "sample")
    assert result.stdout == native(cpp_build, stories_cpu_pte, *options) != ""


def test_a_second_answer_continues_the_first(module: Path, stories_cpu_pte: Path) -> None:
    result = run(module, stories_cpu_pte, "twice", "Once upon a time", "33")
    assert result.stdout == run(module, stories_cpu_pte, "generate").stdout
    assert json.loads(result.stderr)["cached_tokens"] > 7


def test_the_callback_stops_the_answer(module: Path, stories_cpu_pte: Path) -> None:
    result = run(module, stories_cpu_pte, "stop")
    assert result.stdout == "3"
    assert json.loads(result.stderr)["stop_reason"] == "interrupted"


def test_an_error_of_the_callback_is_the_callers(module: Path, stories_cpu_pte: Path) -> None:
    assert run(module, stories_cpu_pte, "throw").stdout == "TypeError: the page's own"


def test_files_that_cannot_run(
    module: Path, stories_cpu_pte: Path, stories_pte: Path, tmp_path: Path
) -> None:
    """One sentence each."""
    damaged = tmp_path / "damaged.pte"
    damaged.write_bytes(stories_cpu_pte.read_bytes()[:-1000])
    sentences = {
        damaged: "the model is truncated: it has",
        stories_pte: "the model runs on XnnpackBackend, which this runner does not include: ",
        GENERATE: "the model is not a Thimble program (no integrity record): ",
    }
    for path, sentence in sentences.items():
        result = run(module, path, "generate")
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(sentence) and result.stderr.count("\n") == 1


def test_the_readmes_example(module: Path, embedded_cpu_pte: Path, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    text = (root / "runtime" / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```js\n(.*?)```", text, re.DOTALL)
    (tmp_path / "example.mjs").write_text(program)
    (tmp_path / "model.pte").symlink_to(embedded_cpu_pte)
    (tmp_path / "build" / "wasm32").mkdir(parents=True)
    (tmp_path / "build" / "wasm32" / "thimble.wasm").symlink_to(module)
    (tmp_path / "runtime").symlink_to(root / "runtime")
    command = [find_node(), "example.mjs"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0 and len(result.stdout) > 20, result.stderr


class Files(SimpleHTTPRequestHandler):
    """Serves a directory, with the types that browsers ask of modules."""

    extensions_map = {".mjs": "text/javascript", ".wasm": "application/wasm", "": "text/html"}

    def log_message(self, *_: object) -> None:
        pass


PAGE = """<!doctype html>
<title>Thimble</title>
<link rel="icon" href="data:,">
<script type="module">
import { Model } from "./web/thimble.mjs";
const module = await WebAssembly.compileStreaming(fetch("thimble.wasm"));
const file = new Uint8Array(await (await fetch("model.pte")).arrayBuffer());
const model = await Model.load(module, file);
let text = "";
const show = (piece) => void (text += piece);
const stats = model.generate("Once upon a time", { maxNewTokens: 40 }, show);
window.answer = { text, runsWith: stats.runs_with };
</script>
"""


def test_in_a_browser(module: Path, cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text(PAGE)
    (site / "thimble.wasm").symlink_to(module)
    (site / "model.pte").symlink_to(stories_cpu_pte)
    (site / "web").symlink_to(Path(__file__).resolve().parents[2] / "runtime" / "web")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=site)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with open_page(tmp_path / "profile") as page:
            page.ask("Page.navigate", url=f"http://127.0.0.1:{server.server_port}/index.html")
            page.wait("typeof window.answer == 'object'")
            answer = page.run("window.answer")
            assert page.complaints == []
        server.shutdown()
    assert answer["text"] == native(cpp_build, stories_cpu_pte, "-n", "40")
    assert answer["runsWith"].startswith(f"kernels {KERNELS[module.parent.name]}, ")


def test_a_context_that_is_full(module: Path, stories_cpu_pte: Path) -> None:
    result = run(module, stories_cpu_pte, "generate", "x " * 3000)
    assert result.returncode == 1 and "but the model's context holds" in result.stderr


def test_the_size(module: Path) -> None:
    """It is downloaded."""
    assert len(module.read_bytes()) < MOST_BYTES
