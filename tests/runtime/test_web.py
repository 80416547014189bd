"""Each build of the runner as WebAssembly, in node: it says what the native runner says."""

import json
import subprocess
from pathlib import Path

import pytest
from support.browser import open_page
from support.node import find_node
from support.web import build_modules, served

from runtime.web_site import WEB_DIR

pytestmark = pytest.mark.check
GENERATE = Path(__file__).parents[1] / "support" / "web_generate.mjs"
KERNELS = {"wasm32": "wasm_simd", "wasm32-relaxed": "wasm_relaxed"}
MOST_BYTES = 2 << 20


@pytest.fixture(scope="module", params=KERNELS)
def module(request: pytest.FixtureRequest, shared_data: Path) -> Path:
    """thimble.wasm, with and without relaxed SIMD."""
    return build_modules(shared_data, [request.param])[0]


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


def test_settings(module: Path, cpp_build: Path, stories_cpu_pte: Path) -> None:
    options = ["--presence-penalty", "1.5", "--repetition-penalty", "1.1", "--logit-bias", "260=3"]
    result = run(module, stories_cpu_pte, "settings")
    assert json.loads(result.stderr)["stop_reason"] == "stop"
    changed = native(cpp_build, stories_cpu_pte, "-n", "40", *options, "--stop", " the")
    plain = native(cpp_build, stories_cpu_pte, "-n", "40")
    assert result.stdout == f"{changed}|{plain}" and changed != plain


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
        damaged: "damaged.pte is truncated: it has",
        stories_pte: "stories.pte runs on XnnpackBackend, which this runner does not include: ",
        GENERATE: "web_generate.mjs is not a Thimble program (no integrity record): ",
        tmp_path / "nothing.pte": f"cannot read {tmp_path / 'nothing.pte'}: there is no such file",
    }
    for path, sentence in sentences.items():
        result = run(module, path, "generate")
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(sentence) and result.stderr.count("\n") == 1


PAGE = """<!doctype html>
<title>Thimble</title>
<link rel="icon" href="data:,">
<script type="module">
import { Runner } from "./runner.mjs";
import { openSource } from "./source.mjs";
const module = await WebAssembly.compileStreaming(fetch("thimble.wasm"));
const file = await openSource(new URL("model.pte", location.href).href);
const model = await Runner.load(module, file);
let text = "";
const show = (piece) => void (text += piece);
const stats = model.generate("Once upon a time", { maxNewTokens: 40 }, show);
window.answer = { text, runsWith: stats.runs_with };
</script>
"""


def test_in_a_browser(module: Path, cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path) -> None:
    page_file = tmp_path / "index.html"
    page_file.write_text(PAGE)
    files = {path.name: path for path in WEB_DIR.glob("*.mjs")}
    files |= {"index.html": page_file, "thimble.wasm": module, "model.pte": stories_cpu_pte}
    with served(files) as url:
        with open_page(tmp_path / "profile") as page:
            page.ask("Page.navigate", url=url)
            page.wait("typeof window.answer == 'object'")
            answer = page.run("window.answer")
            assert page.complaints == []
    assert answer["text"] == native(cpp_build, stories_cpu_pte, "-n", "40")
    assert answer["runsWith"].startswith(f"kernels {KERNELS[module.parent.name]}, ")


def test_a_context_that_is_full(module: Path, stories_cpu_pte: Path) -> None:
    result = run(module, stories_cpu_pte, "generate", "x " * 3000)
    assert result.returncode == 1 and "but the model's context holds" in result.stderr


def test_the_size(module: Path) -> None:
    """It is downloaded."""
    assert len(module.read_bytes()) < MOST_BYTES
