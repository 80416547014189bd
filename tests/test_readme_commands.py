"""Every command that a README prints: its options exist; it is run here by `make soak`, by another
test, or its page says what it needs that tests do not have."""

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import click
import numpy
import pytest

from devtools.commands.cli import main as devtools
from exporter.commands.cli import main as exporter
from quant.commands.cli import main as quant
from runtime.commands.cli import main as runtime

ROOT = Path(__file__).resolve().parents[1]
OURS = {"exporter": exporter, "quant": quant, "runtime": runtime, "devtools": devtools}
COMMAND = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:python -m|python tests|build/\w|make|pip|thimble-\w|curl|git|cmake|adb"
    r"|torchrun|source|cc|pytest)\b.*"
)
MENTION = re.compile(r"\S+|python -m \w+( \w+)?|python -m runtime build, .*|build/runner  .*")

# Run in this order, in a folder with what `folder` makes.
HERE = (
    "python -m exporter llama3 --quant gptq4 --out build/demo.pte",
    "build/runner build/demo.pte -p 'The :mod:`json` module' -n 160 --temperature 0.6 --top-p 0.9"
    " --seed 4",
    "OMP_NUM_THREADS=1 python -m exporter llama3 --quant NAME --out model.pte",
    'build/runner model.pte -p "The capital of France is" -n 64 --temperature 0.7',
    'build/runner model.pte -p "Once upon a time" -n 64',
    "build/runner --help",
    'python -m runtime generate model.pte -p "Once upon a time"',
    "python -m runtime tokenize model.pte TEXT",
    "python -m exporter --list-delegates",
    "python -m exporter llama3 --quant rtn4 --delegate mlx --out model.pte",
    "python -m exporter --inspect model.pte",
    "python -m exporter llama3 --explain",
    "python -m exporter llama3 --quant gptq4 --out model.pte --etrecord model.etrecord",
    'build/runner model.pte -p "def add(a, b):" -n 24 --threads 1 --etdump run.etdp',
    "python -m devtools inspect run.etdp --etrecord model.etrecord --phase decode --probe"
    " --threads 1 --top 7",
    "python -m devtools bench model.pte --threads 1 --against recording",
    "python -m exporter net.py:make --out net.pte",
    "build/runner net.pte --input x.npy --output y.npy",
    "build/kernel_bench avx512vnni",
    "python -m quant cache",
)
# The beginning of a command; a test that runs such ones, and words of it.
ELSEWHERE = {
    "build/runner model.pte --embed": ("exporter/test_encoders.py", '"--embed"'),
    "build/runner w.pte --audio": ("exporter/test_hearing.py", '"--audio"'),
    "build/runner net.pte --method": ("exporter/test_module_methods.py", '"--method"'),
    "build/runner model.pte --chat --session": ("runtime/test_runner_chat_session.py", "--session"),
    "build/runner build/chat.pte --chat": ("runtime/test_runner_constraints.py", '"--choice"'),
    'build/metal_runner model.pte -p "Once"': ("delegates/test_mps.py", "metal_runner"),
    "python -m exporter DIR": ("exporter/test_real_gguf.py", "smollm2"),
    "python -m exporter MODEL": ("exporter/test_real_gguf.py", "smollm2"),
    "python -m exporter model.Q": ("exporter/test_real_gguf.py", "gguf"),
    "PYTHONPATH=tests python -m support.family_parity": (
        *("exporter/test_model_parity.py", "family_parity"),
    ),
    "python -m devtools bench model.pte --against xnnpack": ("devtools/test_bench.py", "xnnpack"),
    "python -m devtools report --method": ("exporter/test_module_methods.py", '"report"'),
    "python -m quant compare": ("devtools/test_compare.py", '"compare"'),
    "python -m exporter llama3 --out model.pte --sign": ("exporter/test_signing.py", '"--sign"'),
    "python -m exporter --sign-file": ("exporter/test_signing.py", '"--sign-file"'),
    'build/runner model.pte -p "Hello" --require-signature': (
        *("runtime/test_signed_files.py", "--require-signature"),
    ),
    "torchrun": ("quant/test_distributed.py", "torchrun"),
    "python -m runtime run MODEL": ("runtime/test_run_command.py", '"run"'),
    "thimble-run MODEL": ("runtime/test_run_command.py", '"run"'),
    "python -m runtime serve": ("support/servers.py", '"serve"'),
    "curl http://127.0.0.1:8080/v1/completions": (
        "runtime/test_server_clients.py",
        "/v1/completions",
    ),
    "python -m runtime web": ("runtime/test_web_serve.py", '"web"'),
    "cc main.c": ("runtime/test_readme.py", "From C"),
    "pip install thimble_ml-*.whl": ("runtime/test_package.py", '"install"'),
    "pip install 'thimble-ml": ("runtime/test_package.py", "[serve]"),
    "pip install ai-edge-model-explorer": ("devtools/test_model_explorer.py", "model-explorer"),
    "python -m runtime package --target aarch64": ("runtime/test_aarch64.py", '"aarch64"'),
    "python -m runtime build --target java": ("runtime/test_java.py", "java"),
    "python -m runtime build --target apple": ("runtime/test_apple.py", "apple"),
    "python -m runtime build --target wasm32": ("runtime/test_web.py", "wasm"),
    "python -m runtime build --executorch-source": ("runtime/test_executorch_source.py", "source"),
    "python -m runtime build --all": ("support/fixtures.py", "build()"),
}
# What is not run, and words of its page that say what it takes.
NOT_RUN = {
    "python -m exporter llama3 --checkpoint meta-llama": "gated",
    "python -m quant eval model.pte --against meta-llama": "gated",
    "ANDROID_NDK=": "NDK",
    "adb ": "phone",
    "cmake --preset android-arm64": "NDK",
    "git ": "clone of ExecuTorch",
    "pip install .": "builds it, in minutes",
    "pip install notebook matplotlib": "notebook",
    "pip install openai": "openai",
    "python tests/determinism.py": "bit-identical",
    "source .venv/bin/activate": "make demo",
}


@cache
def printed() -> dict[str, list[str]]:
    """The commands of each README; a name alone, without arguments, is none."""
    names = subprocess.run(
        ["git", "ls-files", "*README.md"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return {name: commands_of((ROOT / name).read_text("utf-8")) for name in names.stdout.split()}


def commands_of(text: str) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    shell = "".join(block for language, block in blocks if not language)
    lines = re.sub(r"\\\n\s*", "", shell).splitlines()
    between = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", between)]
    bare = [re.sub(r"\s+#.*", "", line.strip().removeprefix("$ ")) for line in lines]
    return [line for line in bare if COMMAND.fullmatch(line)]


def options_of(command: list[str]) -> set[str]:
    """The options of a command that one of our programs takes; what is no command is an error."""
    at = command.index("-m")
    program: click.Command = OURS[command[at + 1]]
    context = click.Context(program)
    for word in command[at + 2 :]:
        if not isinstance(program, click.Group):
            break
        found = program.get_command(context, word)
        assert found is not None, f"{' '.join(command)}: {word} is no command"
        program, context = found, click.Context(found)
    return {option for one in program.get_params(context) for option in one.opts}


@pytest.mark.parametrize("readme", sorted(printed()))
def test_programs_and_options_exist(readme: str) -> None:
    targets = re.findall(r"^([\w/.]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    usage = "".join(
        path.read_text("utf-8") for path in (ROOT / "runtime/cpp/program").glob("*.cpp")
    )
    for text in printed()[readme]:
        if text.startswith(("build/runner  ", "python -m runtime build, ")):
            continue  # a list
        command = shlex.split(text)
        given = {word.partition("=")[0] for word in command if word.startswith("--")}
        if command[0] == "make":
            assert {word for word in command[1:] if "=" not in word} <= set(targets), text
        elif command[0] == "pytest":
            patterns = [word for word in command if word.startswith("tests/")]
            assert all([*ROOT.glob(pattern.replace("NAME", ""))] for pattern in patterns), text
        elif command[0] == "build/runner":
            assert all(f'"{option}' in usage for option in given), text
        elif "-m" in command and command[command.index("-m") + 1] in OURS and len(command) > 3:
            assert given <= options_of(command) | {"--nproc-per-node"}, text


@pytest.mark.parametrize("readme", sorted(printed()))
def test_each_is_run_or_says_what_it_takes(readme: str) -> None:
    for text in printed()[readme]:
        elsewhere = [where for begin, where in ELSEWHERE.items() if text.startswith(begin)]
        takes = [words for begin, words in NOT_RUN.items() if text.startswith(begin)]
        begun = any(command.startswith(text) for command in HERE)
        if begun or text.startswith(("make ", "pytest ")) or MENTION.fullmatch(text):
            continue
        assert elsewhere or takes, f"{readme}: nothing runs {text}"
        for path, words in elsewhere:
            assert words in (ROOT / "tests" / path).read_text("utf-8"), f"{text}: {path}"
        for words in takes:
            assert words in (ROOT / readme).read_text("utf-8"), f"{readme} does not say: {words}"


@pytest.mark.soak
def test_they_run(cpp_build: Path, tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    for product in cpp_build.iterdir():
        (tmp_path / "build" / product.name).symlink_to(product)
    net = "import torch\n\ndef make():\n    return torch.nn.Linear(4, 2), (torch.ones(1, 4),)\n"
    (tmp_path / "net.py").write_text(net)
    numpy.save(tmp_path / "x.npy", numpy.ones((1, 4), numpy.float32))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    for text in HERE:
        command = text.replace("NAME", "rtn4").replace("avx512vnni", "avx2")
        result = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert result.returncode == 0, f"{text}\n{result.stderr}"
        assert result.stdout or result.stderr, text
