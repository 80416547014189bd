"""A model with adapters in the runner: each computes what its merged model does, and what is cached
belongs to one of them."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from support.adapters import save_adapter
from support.exported import Quiet
from support.loading import loaded

from devtools.profile import load_profile
from exporter.catalogue.names import EMBEDDED
from exporter.checkpoint import open_checkpoint, with_adapter
from exporter.file.pte import read_report
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme
from runtime import Engine, Runner, RunnerError

CONFIG = {
    "model_type": "llama",
    "vocab_size": 4096,
    "hidden_size": 40,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TOKENS = torch.randint(3, 4096, (40,), generator=torch.Generator().manual_seed(3)).tolist()
HALF = 2.0**-11  # the rounding error of float16


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and two adapters of it."""
    directory = tmp_path_factory.mktemp("adapters")
    spec = decoder_spec(CONFIG)
    generator = torch.Generator().manual_seed(0)
    tensors = {
        name: 0.2 * torch.randn(parameter.shape, generator=generator)
        for name, parameter in CausalLM(spec).named_parameters()
        if name != "lm_head.weight"
    }
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(CONFIG))
    save_adapter(directory / "a", spec, 1)
    save_adapter(directory / "b", spec, 2, 5, ["q_proj", "v_proj", "gate_proj", "down_proj"])
    return directory


def export(directory: Path, scheme: Scheme) -> Path:
    out = directory / f"{scheme.name}.pte"
    options = ExportOptions(
        model=str(directory),
        out=out,
        adapters=tuple((name, str(directory / name)) for name in "ab"),
        etrecord=out.with_suffix(".etrecord"),
        scheme=scheme,
        tokenizer=EMBEDDED / "tokenizer.json",
    )
    return export_model(options, Quiet()).out


@pytest.fixture(scope="module")
def float_pte(directory: Path) -> Path:
    return export(directory, Scheme("none"))


@pytest.fixture(scope="module")
def pte(directory: Path) -> Path:
    return export(directory, Scheme("rtn4"))


@torch.no_grad()
def merged(directory: Path, adapter: str | None) -> NDArray[np.float32]:
    """The logits after each token of the model with merged weights."""
    checkpoint = open_checkpoint(directory)
    if adapter is not None:
        checkpoint = with_adapter(checkpoint, directory / adapter)
    return loaded(checkpoint).logits(torch.tensor([TOKENS]))[0].numpy()


def logits(pte: Path, adapter: str | None, first: int = 0, threads: int = 1) -> NDArray[np.float32]:
    return Runner(pte, threads=threads, adapter=adapter).logits(TOKENS, first)


@pytest.mark.parametrize("adapter", ["a", "b", None])
def test_it_computes_what_merged_weights_compute(
    cpp_build: Path, directory: Path, float_pte: Path, adapter: str | None
) -> None:
    want, have = merged(directory, adapter), logits(float_pte, adapter)
    change = np.abs(want - merged(directory, None)).max()
    assert (change > 0.1) == (adapter is not None)
    # Both matrices are rounded; what they change, the layers pass on at about its size.
    assert np.abs(have - want).max() < 8 * HALF * change + 1e-4


@pytest.mark.parametrize("adapter", ["a", "b"])
def test_the_bits_do_not_depend_on_rows_or_threads(
    cpp_build: Path, pte: Path, adapter: str
) -> None:
    want = logits(pte, adapter)
    assert not np.array_equal(want, logits(pte, None))
    for first, threads in ((39, 1), (7, 2), (20, 3)):
        assert np.array_equal(logits(pte, adapter, first, threads), want[first:])


def test_changing_the_adapter(cpp_build: Path, pte: Path) -> None:
    """An answer is that of a runner that reads the tokens for the first time."""
    runner = Runner(pte, threads=1)
    assert (runner.adapters, runner.adapter) == (["a", "b"], None)
    for adapter in ("a", "b", None, "a"):
        runner.adapter = adapter
        assert (runner.adapter, runner.length) == (adapter, 0)
        assert np.array_equal(runner.logits(TOKENS, 30), logits(pte, adapter, 30))
        assert runner.stats["adapter"] == (adapter or "")
        runner.adapter = adapter
        assert runner.length == len(TOKENS)


def test_forks_keep_the_adapter(cpp_build: Path, pte: Path) -> None:
    runner = Runner(pte, threads=1, adapter="a")
    runner.logits(TOKENS[:20], 19)
    fork = runner.fork()
    assert (fork.adapter, fork.length) == ("a", 20)
    fork.adapter = "b"
    assert (runner.adapter, runner.length, fork.length) == ("a", 20, 0)
    for _ in range(2):  # in turn: each has a cache of its own
        assert np.array_equal(fork.logits(TOKENS, 39), logits(pte, "b", 39))
        assert np.array_equal(runner.logits(TOKENS, 39), logits(pte, "a", 39))


def test_an_engine_runs_several(cpp_build: Path, pte: Path) -> None:
    """Each gets the text that it would get alone; prefixes are shared where the adapter is."""
    adapters = ("a", None, "b", "a", "", "b", "a")
    prompts = [TOKENS[: 20 + i % 3] for i in range(len(adapters))]

    def told(engine: Engine) -> list[str]:
        work = [
            engine.submit(prompt, 12, adapter=adapter, temperature=1.0, seed=3)
            for prompt, adapter in zip(prompts, adapters, strict=True)
        ]
        texts = [generation.text() for generation in work]
        names = [generation.stats["adapter"] for generation in work if generation.stats]
        assert names == ["a", "b", "b", "a", "", "b", "a"]  # the runner has b
        return texts

    runner = Runner(pte, threads=1, adapter="b")
    expected = []
    for prompt, adapter in zip(prompts, adapters, strict=True):
        name = "b" if adapter is None else adapter
        with Engine(Runner(pte, threads=1, adapter=name or None)) as alone:
            expected.append(alone.submit(prompt, 12, temperature=1.0, seed=3).text())
    assert len(set(expected)) > 3
    for sequences in (1, 3, 8):
        with Engine(runner, sequences=sequences, prompt_rows=9) as engine:
            assert told(engine) == expected
            last = engine.submit(TOKENS[:22], 1, adapter="a")
            last.text()
            assert last.stats is not None
            assert last.stats["cached_tokens"] >= (20 if sequences == 8 else 0)
            with pytest.raises(RunnerError, match="^there is no adapter c: the model has a, b$"):
                engine.submit(TOKENS, adapter="c")
    assert runner.adapter == "b"
    assert np.array_equal(runner.logits(TOKENS, 30), logits(pte, "b", 30))


def test_sessions_belong_to_an_adapter(cpp_build: Path, pte: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    writer = Runner(pte, threads=1, adapter="a")
    writer.logits(TOKENS[:30], 29)
    writer.save(path)
    reader = Runner(pte, threads=1, adapter="b")
    reader.logits(TOKENS[:10], 9)
    with pytest.raises(RunnerError) as refused:
        reader.restore(path)
    assert str(refused.value) == (
        f"cannot restore the session {path}: the saved KV cache was computed with the adapter a, "
        "and the current cache has the adapter b: choose the same adapter first, or begin another "
        "session"
    )
    assert reader.length == 10
    reader.adapter = "a"
    reader.restore(path)
    assert reader.length == 30
    assert np.array_equal(reader.logits(TOKENS, 30), writer.logits(TOKENS, 30))
    reader.adapter = None
    with pytest.raises(RunnerError, match="and the current cache has no adapter: choose the same"):
        reader.restore(path)


def run(build: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [build / "runner", *options, "-p", "Once", "-n", "5", "--threads", "1"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_command_line(
    cpp_build: Path, pte: Path, stories_cpu_pte: Path, tmp_path: Path
) -> None:
    stats, session = tmp_path / "stats.json", tmp_path / "s.session"
    result = run(cpp_build, pte, "--adapter", "b", "--json", stats, "--session", session)
    assert result.returncode == 0 and result.stderr.rstrip().endswith("in place, adapter b")
    assert json.loads(stats.read_text())["adapter"] == "b"
    result = run(cpp_build, pte, "--session", session)
    assert result.returncode == 2 and "computed with the adapter b, and the" in result.stderr
    result = run(cpp_build, pte, "--adapter", "c")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "runner: there is no adapter c: the model has a, b\n"
    result = run(cpp_build, stories_cpu_pte, "--adapter", "c")
    assert result.returncode == 2
    assert result.stderr == (
        "runner: there is no adapter c, because the model has none: export it with --adapter "
        "c=DIR, or run it without an adapter\n"
    )


def test_another_delegates_file(cpp_build: Path, stories_pte: Path) -> None:
    assert Runner(stories_pte).adapters == []
    with pytest.raises(RunnerError, match="has none: export it with --delegate cpu and --adap"):
        Runner(stories_pte, adapter="c")


def test_the_report_lists_them(directory: Path, pte: Path) -> None:
    assert read_report(pte)["model"]["adapters"] == [
        {"name": "a", "source": str(directory / "a"), "ranks": [4], "linears": 14, "bytes": 9472},
        {"name": "b", "source": str(directory / "b"), "ranks": [5], "linears": 8, "bytes": 6880},
    ]


def test_events_have_the_lines_of_linears(cpp_build: Path, pte: Path, tmp_path: Path) -> None:
    runner = Runner(pte, threads=1, adapter="a")
    runner.start_recording()
    runner.logits(TOKENS, 30)
    runner.stop_recording(tmp_path / "run.etdp")
    profile = load_profile(tmp_path / "run.etdp", pte.with_suffix(".etrecord"))
    events = [event for call in profile.calls for event in call.events]
    lines = {f"{Path(line.file).name}: {line.text}" for event in events for line in event.lines}
    assert profile.coverage.event_count == 1
    assert any("self.o_proj(" in line for line in lines)
    assert not any("low_rank" in line for line in lines)
