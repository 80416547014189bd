"""Each build of the runner as WebAssembly, in node: it says what the native runner says."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from support.browser import open_page
from support.node import find_node
from support.web import build_modules, served

from runtime.packaging.web_site import WEB_DIR

pytestmark = pytest.mark.soak
GENERATE = Path(__file__).parents[1] / "support" / "web_generate.mjs"
RELAXED = r"wasm_(relaxed|pairs)"  # the second on x86 without AVX-VNNI
KERNELS = {"wasm32": "wasm_simd", "wasm32-relaxed": RELAXED, "wasm32-threads": RELAXED}
THREADS = {"wasm32-threads": 3}  # the others have one
MOST_BYTES = 2_400_000  # with three kinds of kernels; gzip makes it a third


@pytest.fixture(scope="module", params=KERNELS)
def module(request: pytest.FixtureRequest, shared_data: Path) -> Path:
    """thimble.wasm: plain, with relaxed SIMD, and with threads too."""
    return build_modules(shared_data, [request.param])[0]


def threads_of(module: Path) -> int:
    return THREADS.get(module.parent.name, 1)


def run(
    module: Path,
    model: Path,
    what: str,
    prompt: str = "Once upon a time",
    tokens: int = 40,
    threads: int | None = None,
) -> subprocess.CompletedProcess[str]:
    numbers = [str(tokens), str(threads or threads_of(module))]
    command = [find_node(), GENERATE, module, model, what, prompt, *numbers]
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
    threads = threads_of(module)
    assert stats["generated_tokens"] == 40 and stats["threads"] == threads
    begins = f"kernels {KERNELS[module.parent.name]}, {threads} thread{'s' * (threads > 1)}, "
    assert re.match(begins, stats["runs_with"])
    assert stats["runs_with"].endswith("weights in place")


def test_any_number_of_threads(cpp_build: Path, chat_pte: Path, shared_data: Path) -> None:
    """Also more than the model has heads, for a prompt of many rows."""
    (module,) = build_modules(shared_data, ["wasm32-threads"])
    prompt = "Once upon a time, there was a little girl. " * 5
    texts = {run(module, chat_pte, "generate", prompt, 60, n).stdout for n in (1, 2, 4, 7)}
    command = [cpp_build / "runner", chat_pte, "-p", prompt, "-n", "60", "--threads", "1"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert texts == {text} != {""}


def test_a_thread_that_fails(shared_data: Path, stories_cpu_pte: Path) -> None:
    """The others do not wait for it."""
    (module,) = build_modules(shared_data, ["wasm32-threads"])
    result = run(module, stories_cpu_pte, "trap", threads=3)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "the model has ended (one of its threads has failed: there may be too little memory): "
        "load it again, or use a smaller one\n"
    )


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


def test_log_probabilities(
    module: Path, cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path
) -> None:
    result = run(module, stories_cpu_pte, "logprobs", tokens=12)
    assert json.loads(result.stderr) == []
    file = tmp_path / "stats.json"
    options = ["--presence-penalty", "1.5", "--logprobs", "2", "--json", str(file)]
    native(cpp_build, stories_cpu_pte, "-n", "12", *options)
    tokens = json.loads(file.read_text())["logprobs"]
    found = json.loads(result.stdout)
    assert len(found) == 12 and len(tokens) == 12
    for token, expected in zip(found, tokens, strict=True):
        for one, other in zip([token, *token["top"]], [expected, *expected["top"]], strict=True):
            assert (one["id"], one["bytes"]) == (other["id"], other["bytes"])
            assert one["logprob"] == pytest.approx(other["logprob"], abs=1e-4)


def test_a_second_answer_continues_the_first(module: Path, stories_cpu_pte: Path) -> None:
    result = run(module, stories_cpu_pte, "twice", tokens=33)
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
import { sharedMemory } from "./builds.mjs";
import { Runner } from "./runner.mjs";
import { openSource } from "./source.mjs";
const module = await WebAssembly.compileStreaming(fetch("thimble.wasm"));
const file = await openSource(new URL("model.pte", location.href).href);
const memory = SHARED ? sharedMemory() : undefined;
const model = await Runner.load({ module, threads: 1, memory }, file);
let text = "";
const show = (piece) => void (text += piece);
const stats = model.generate("Once upon a time", { maxNewTokens: 40 }, show);
window.answer = { text, runsWith: stats.runs_with };
</script>
"""


def test_in_a_browser(module: Path, cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path) -> None:
    page_file = tmp_path / "index.html"
    page_file.write_text(PAGE.replace("SHARED", str(threads_of(module) > 1).lower()))
    files = {path.name: path for path in WEB_DIR.glob("*.mjs")}
    files |= {"index.html": page_file, "thimble.wasm": module, "model.pte": stories_cpu_pte}
    with served(files) as url:
        with open_page(tmp_path / "profile") as page:
            page.ask("Page.navigate", url=url)
            page.wait("typeof window.answer == 'object'")
            answer = page.run("window.answer")
            assert page.complaints == []
    assert answer["text"] == native(cpp_build, stories_cpu_pte, "-n", "40")
    assert re.match(f"kernels {KERNELS[module.parent.name]}, 1 thread, ", answer["runsWith"])


def test_a_context_that_is_full(module: Path, stories_cpu_pte: Path) -> None:
    result = run(module, stories_cpu_pte, "generate", "x " * 3000)
    assert result.returncode == 1 and "but the model's context holds" in result.stderr


def test_the_size(module: Path) -> None:
    """It is downloaded."""
    assert len(module.read_bytes()) < MOST_BYTES
