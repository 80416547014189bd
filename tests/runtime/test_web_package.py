"""The npm package, packed and installed, in node: it says what the native runner says."""

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.node import find_node
from support.once import made_once
from support.web import built_site, npm, served

from runtime.packaging.web_site import MODULES, WEB_DIR

pytestmark = pytest.mark.soak
USES = Path(__file__).parents[1] / "support" / "web_package.mjs"
MOST_BYTES = 2_100_000  # of the archive
Use = Callable[..., Any]


@pytest.fixture(scope="module")
def installed(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the package is installed, beside its archive."""
    site = built_site(shared_data)

    def make(directory: Path) -> Path:
        site.write(directory / "package")
        npm(directory, "pack", directory / "package")
        project = directory / "project"
        project.mkdir()
        (archive,) = directory.glob("*.tgz")
        (project / "package.json").write_text('{"type": "module"}')
        npm(project, "install", archive)
        shutil.copy(USES, project)
        return project

    return made_once(tmp_path_factory, "thimble_web", make)


@pytest.fixture
def use(installed: Path) -> Use:
    def run(*arguments: str | Path) -> Any:
        command = [find_node(), USES.name, *arguments]
        result = subprocess.run(command, cwd=installed, capture_output=True, text=True, timeout=200)
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
        return json.loads(result.stdout)

    return run


def native(build: Path, model: Path, *options: str, lines: str = "") -> str:
    command = [build / "runner", model, "--threads", "1", *options]
    result = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return result.stdout


def test_what_is_in_the_archive(installed: Path) -> None:
    """The library and its modules, not the page."""
    (archive,) = installed.parent.glob("*.tgz")
    with tarfile.open(archive) as tar:
        names = {name.removeprefix("package/") for name in tar.getnames()}
    library = {path.name for path in WEB_DIR.glob("*.mjs")}
    others = {"LICENSE", "README.md", "index.d.ts", "package.json"}
    assert names == library | others | set(MODULES)
    assert archive.stat().st_size < MOST_BYTES


def test_the_native_text_in_pieces(use: Use, cpp_build: Path, embedded_cpu_pte: Path) -> None:
    found = use("generate", embedded_cpu_pte)
    assert found["text"] == native(
        cpp_build, embedded_cpu_pte, "-p", "Once upon a time", "-n", "40"
    )
    assert found["again"] == found["text"] and found["pieces"] > 20
    size = embedded_cpu_pte.stat().st_size
    assert found["info"] == {"name": "model.pte", "size": size, "hasTemplate": False}
    assert found["end"] == {"loaded": size, "total": size}
    assert found["stats"]["cached_tokens"] > 0 and found["stats"]["stop_reason"] == "length"
    assert re.match("kernels wasm_(relaxed|pairs), ", found["stats"]["runs_with"])
    assert 1 <= found["stats"]["threads"] <= 4


def test_threads(use: Use, cpp_build: Path, stories_cpu_pte: Path) -> None:
    """The same text with any number; node ends though they wait."""
    found = use("threads", stories_cpu_pte)
    text = native(cpp_build, stories_cpu_pte, "-p", "Once upon a time", "-n", "40")
    assert found["texts"] == [text] * 3 and found["threads"] == [1, 2, 5]
    allowed = "must be a whole number from 1 to 16, or left out"
    assert found["refused"] == [f"threads is {n}, but {allowed}" for n in ("0", "1.5", "17")]


def test_bytes_buffers_and_blobs(use: Use, cpp_build: Path, stories_cpu_pte: Path) -> None:
    expected = native(cpp_build, stories_cpu_pte, "-p", "Once upon a time", "-n", "40")
    assert use("bytes", stories_cpu_pte) == [expected] * 3


def test_a_url(use: Use, cpp_build: Path, stories_cpu_pte: Path) -> None:
    with served({"a model.pte": stories_cpu_pte}) as url:
        found = use("url", "", f"{url}a%20model.pte")
    text = native(cpp_build, stories_cpu_pte, "-p", "Once upon a time", "-n", "40")
    assert (found["text"], found["name"]) == (text, "a model.pte")
    missing = f"cannot load {url}a%20model.pte.none: the server answers 404 Not Found"
    assert found["missing"] == missing


LATE = """
const { openSource, readAll } = await import(process.argv[1]);
const file = await openSource(process.argv[2]);
for (let i = 0; i < 5; ++i) {
  globalThis.gc();
  await new Promise((resolve) => setTimeout(resolve, 1));
}
let bytes = 0;
await readAll(file, (piece) => void (bytes += piece.length));
console.log(bytes);
"""


def test_a_url_that_is_read_late(stories_cpu_pte: Path) -> None:
    """The answer of the server is garbage by then, its bytes are not."""
    with served({"model.pte": stories_cpu_pte}) as url:
        command = [find_node(), "--expose-gc", "--input-type=module", "-e", LATE]
        command += [WEB_DIR / "source.mjs", f"{url}model.pte"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert result.stdout == f"{stories_cpu_pte.stat().st_size}\n", result.stderr


def test_a_conversation(use: Use, cpp_build: Path, chat_pte: Path) -> None:
    found = use("chat", chat_pte)
    options = ["--chat", "--system", "Be nice.", "-n", "12"]
    lines = "Once upon a time\nWho was it?\n/reset\nOnce upon a time\n"
    said = native(cpp_build, chat_pte, *options, lines=lines)
    assert "".join(f"{answer}\n" for answer in found["answers"]) == said
    assert found["hasTemplate"] and found["cached"] > 20


def test_conversations_beside_each_other(use: Use, cpp_build: Path, chat_pte: Path) -> None:
    found = use("chats", chat_pte)
    options = ["--chat", "--system", "Be nice.", "-n", "12"]
    lines = "Once upon a time\nWho was it?\nWhy?\nAnd?\n"
    said = native(cpp_build, chat_pte, *options, lines=lines)
    *both, last = found["answers"]
    assert both[::2] == both[1::2]
    assert "".join(f"{answer}\n" for answer in [*both[::2], last]) == said
    assert found["resumed"] == last
    too_long, not_in_turn = found["refused"]
    assert too_long.startswith("the system prompt has ")
    assert not_in_turn.startswith("the roles of messages are assistant, user, assistant, user")
    assert found["freed"] == "the model was freed: load it again"


def test_stopping_and_freeing(use: Use, embedded_cpu_pte: Path) -> None:
    busy = "the model is at work: stop() it, or wait for its end"
    freed = ["the model was freed", "the model was freed: load it again"]
    reasons = [busy, busy, "interrupted", "interrupted", *freed]
    assert use("stop", embedded_cpu_pte) == reasons


def test_constraints(use: Use, cpp_build: Path, stories_cpu_pte: Path) -> None:
    found = use("constraints", stories_cpu_pte)
    assert found["choice"] in ("red", "green")
    assert json.loads(found["json"]) in ({"a": True}, {"a": False})
    assert found["free"] == native(cpp_build, stories_cpu_pte, "-p", "Once upon a time", "-n", "8")


def test_options_that_are_not_possible(use: Use, stories_cpu_pte: Path) -> None:
    most = 2**31 - 1
    assert use("options", stories_cpu_pte) == [
        f"maxNewTokens is 0, but must be a whole number from 1 to {most}",
        f"topK is -1, but must be a whole number from 0 to {most}",
        "temperature is nan, but must be from 0 to 100",
        f"seed is 1.5, but must be a whole number from 0 to {2**53 - 1}",
        f"seed is {2**64}, but must be from 0 to {2**64 - 1}",
        "the regular expression '(' is refused at offset 0: a group is not closed",
        "regex and choice are given, but an answer can have one constraint",
        "stories.pte has no chat template: run it with -p instead of --chat, or export a "
        "checkpoint that has one",
    ]


def test_a_flipped_byte(use: Use, stories_cpu_pte: Path, tmp_path: Path) -> None:
    """Also among the weights, which load() checks if it is asked to."""
    data = bytearray(stories_cpu_pte.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = tmp_path / "damaged.pte"
    damaged.write_bytes(data)
    assert re.fullmatch(
        r"damaged.pte is damaged in its \S+ \(bytes \d+ to \d+\): copy or export it again",
        use("refused", damaged),
    )


def test_more_than_an_address_can_name(use: Use, tmp_path: Path) -> None:
    """Told before a byte is read."""
    large = tmp_path / "large.pte"
    with large.open("wb") as file:
        file.truncate(5 << 30)
    assert use("refused", large) == (
        "large.pte needs at least 5.4 GB of memory, but a page can have 4.3 GB: use a smaller model"
    )


def test_too_little_memory(installed: Path, stories_cpu_pte: Path) -> None:
    """Of 32 MB in all."""
    options = ["--wasm-max-mem-pages=500", USES.name, "refused", str(stories_cpu_pte)]
    result = subprocess.run(
        [find_node(), *options], cwd=installed, capture_output=True, text=True, timeout=200
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == (
        "there is no memory for stories.pte, which needs at least 51 MB: close other pages, or "
        "use a smaller model"
    )


def test_the_readmes_example(installed: Path, stories_cpu_pte: Path) -> None:
    text = (WEB_DIR / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```js\n(.*?)```", text, re.DOTALL)
    example = installed / "example.mjs"
    example.write_text(program)
    (installed / "model.pte").symlink_to(stories_cpu_pte)
    result = subprocess.run(
        [find_node(), example], cwd=installed, capture_output=True, text=True, timeout=200
    )
    assert result.returncode == 0 and "tokens a second" in result.stdout, result.stderr
