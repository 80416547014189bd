"""Tasks of the lm-evaluation-harness, made here of real stories, on a checkpoint and a `.pte`."""

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quant.commands.cli import main
from quant.commands.network import hub_answers

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("lm_eval") is None,
    reason="lm_eval is not installed: pip install -e '.[lm-eval]'",
)

SEPARATOR = "<|endoftext|>"
TASKS = {
    "story_endings": """
task: story_endings
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{beginning}}"
doc_to_choice: "{{endings}}"
doc_to_target: "{{right}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "story_bytes": """
task: story_bytes
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{story}}"
metric_list: [{metric: bits_per_byte}, {metric: byte_perplexity}]
""",
    "story_greedy": """
task: story_greedy
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: generate_until
doc_to_text: "Once upon a time, there was a little girl named"
doc_to_target: "{{greedy}}"
generation_kwargs: {until: ["."], do_sample: false, max_gen_toks: 40}
metric_list: [{metric: exact_match}]
""",
}


@pytest.fixture(scope="module")
def task_path(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five stories: which second half goes with a first one; how many bits a byte takes; what the
    model says by itself."""
    pytest.importorskip("lm_eval", reason="the package lm_eval is absent: pip install '.[lm-eval]'")
    directory = tmp_path_factory.mktemp("tasks")
    text = (shared_data / "text" / "tinystories_sample.txt").read_text(encoding="utf-8")
    stories = [story.strip() for story in text.split(SEPARATOR) if story.strip()]
    middles = [story.index(". ", len(story) // 2) + 1 for story in stories]
    endings = [story[at : at + 120] for story, at in zip(stories, middles, strict=True)]
    golden = (shared_data / "stories260K" / "golden.txt").read_text(encoding="utf-8")
    greedy = golden.partition("named")[2].partition(".")[0]
    rows = [
        {
            "beginning": story[:at],
            "endings": endings,
            "right": index,
            "story": story,
            "greedy": greedy,
        }
        for index, (story, at) in enumerate(zip(stories, middles, strict=True))
    ]
    data = directory / "stories.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for name, text in TASKS.items():
        (directory / f"{name}.yaml").write_text(text.replace("DATA", str(data)), encoding="utf-8")
    return directory


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def figures_of(model: Path, task_path: Path, names: str, *options: object) -> dict[str, Any]:
    """In a process of its own: the package keeps its data where the environment says when it is
    imported."""
    command = [sys.executable, "-m", "quant", "eval", model, "--tasks", names]
    command += ["--task-path", task_path, *options, "--json"]
    environment = {**os.environ, "HF_HOME": str(task_path / "cache"), "HF_HUB_OFFLINE": "1"}
    result = subprocess.run(
        [str(part) for part in command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    said = [line for line in result.stderr.splitlines() if not line.startswith("Answering: ")]
    assert said == []  # but what a slow machine is at
    return json.loads(result.stdout)["tasks"]


@pytest.mark.check
def test_tasks_run_on_a_checkpoint_and_on_its_pte_alike(
    cpp_build: Path, shared_data: Path, task_path: Path, stories_cpu_float_pte: Path
) -> None:
    checkpoint = shared_data / "stories260K"
    names = ",".join(TASKS)
    figures = figures_of(checkpoint, task_path, names)
    through_runner = figures_of(stories_cpu_float_pte, task_path, names)
    assert set(figures) == set(TASKS)
    for task, values in figures.items():
        assert values["documents"] == 5
        for name, value in values.items():
            other = through_runner[task][name]
            assert other == (value if value is None else pytest.approx(value, rel=1e-5)), name
    assert figures["story_endings"]["acc_norm"] >= 0.8  # of five endings, the story's own
    assert figures["story_endings"]["acc_norm_error"] >= 0
    assert figures["story_greedy"]["exact_match"] == 1

    text = shared_data / "text" / "tinystories_sample.txt"
    ours = run("eval", checkpoint, "--text", text, "--separator", SEPARATOR, "--json")
    bits = json.loads(ours.stdout)["bits_per_byte"]  # the same windows: no story is longer
    assert figures["story_bytes"]["bits_per_byte"] == pytest.approx(bits, rel=1e-5)


@pytest.mark.soak
def test_a_limit_and_shots_are_the_harness_own(
    cpp_build: Path, task_path: Path, stories_cpu_float_pte: Path
) -> None:
    options = ("--limit", 3, "--kv-cache", "int8")
    figures = figures_of(stories_cpu_float_pte, task_path, "story_endings", *options)
    assert figures["story_endings"]["documents"] == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        pytest.param(
            ("--tasks", "no_such_task"),
            "task 'no_such_task' is not known to lm_eval ",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ("--tasks", "story_lost"),
            "the data of story_lost cannot be loaded (",
            marks=pytest.mark.soak,
        ),
        (
            ("--tasks", "story_bytes", "--against", "llama3"),
            "--tasks cannot be used with --text or --aga",
        ),
        (
            ("--tasks", "story_bytes", "--context", "64"),
            "--context 64 has no effect without --text; leave it out.",
        ),
        ((), "no text or tasks were given; add --text FILE or --tasks NAMES."),
    ],
)
def test_tasks_that_cannot_be_run_exit_2_with_a_sentence(
    shared_data: Path, task_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    lost = TASKS["story_bytes"].replace("story_bytes", "story_lost").replace("DATA", "/no/such")
    (task_path / "story_lost.yaml").write_text(lost)
    result = run("eval", shared_data / "stories260K", "--task-path", task_path, *options)
    assert result.exit_code == 2 and result.stdout == ""
    assert f"Error: {sentence}" in result.stderr, result.stderr


@pytest.fixture
def silent_hub() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_hub_that_does_not_answer(silent_hub: str) -> None:
    assert not hub_answers(silent_hub, seconds=0.2)
    assert not hub_answers("http://127.0.0.1:9", seconds=0.5)
    assert not hub_answers("not an address", seconds=0.5)


@pytest.mark.check
def test_without_a_network_a_task_is_refused_in_seconds(
    shared_data: Path, silent_hub: str, tmp_path: Path
) -> None:
    """A download would be tried for minutes: five times, ten seconds each, for several files."""
    command = [sys.executable, "-m", "quant", "eval", str(shared_data / "stories260K")]
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_ENDPOINT": silent_hub}
    environment.pop("HF_HUB_OFFLINE", None)
    result = subprocess.run(
        [*command, "--tasks", "arc_easy"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,  # a download would be tried for longer
    )
    assert result.returncode == 2 and result.stdout == ""
    *before, last = result.stderr.splitlines()
    assert all(line.startswith("Answering: ") for line in before)
    assert re.fullmatch(
        r"Error: the data of arc_easy cannot be loaded \(.+\); run it once with a network, or "
        r"choose tasks whose data is on this machine\.",
        last,
    )


def test_without_the_package_a_sentence_says_what_to_install(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    result = run("eval", shared_data / "stories260K", "--tasks", "hellaswag")
    assert result.exit_code == 2
    assert "not installed; pip install 'thimble-ml[lm-eval]'." in result.stderr
