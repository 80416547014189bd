"""The cache of quantized layers: nothing is made twice, nothing damaged is believed."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from support.decoder_specs import SMALL, varied
from support.exported import Quiet
from support.quantization import content
from support.small_disk import small_disk
from support.small_models import ModelWeights, random_model
from support.tiers import checked
from torch import Tensor

from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.cache.store import Cache
from quant.commands.cli import main
from quant.machine.resources import Resources
from quant.method import Method
from quant.progress import Progress
from quant.quantize import quantize
from quant.report import QuantReport
from quant.rotation.learned import learn_rotation
from quant.scheme import SCHEMES, Scheme

ROOT = Path(__file__).resolve().parents[2]
CONFIG = varied(SMALL, num_hidden_layers=3, attention_bias=True)
FLOAT = random_model(CONFIG)
LAYERS = CONFIG.num_hidden_layers
# Without the descent's many small steps, where what is tested is not what they choose.
SHORT = Scheme("gptq4", method=Method(descent=0))


def tokens(windows: int = 8, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, CONFIG.vocab_size, (windows, 16), generator=generator)


class Run:
    """One quantization of a small random model, and what it said."""

    def __init__(
        self,
        cache: Cache | None,
        scheme: Scheme,
        calibration: Tensor | None = None,
        weights: ModelWeights | None = None,
    ) -> None:
        self.cache = cache
        with torch.device("meta"):
            self.model = CausalLM(CONFIG)
        self.steps: list[Progress] = []
        self.report: QuantReport = quantize(
            self.model,
            scheme,
            weights or ModelWeights(FLOAT),
            tokens() if calibration is None else calibration,
            tokens(seed=9),
            self.steps.append,
            Resources(cache, "small"),
        )

    @property
    def made(self) -> int:
        """Layers that were quantized and not found."""
        return LAYERS - self.report.cached_layers


def assert_same(run: Run, wanted: Run) -> None:
    ours, theirs = content(run.model), content(wanted.model)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert run.report.quality == wanted.report.quality
    assert run.report.layer_errors == wanted.report.layer_errors


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def cache(tmp_path: Path, notes: list[str]) -> Cache:
    return Cache(tmp_path / "cache", note=notes.append)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nothing has hindered."""
    run = Run(Cache(tmp_path_factory.mktemp("whole")), SHORT)
    assert run.made == LAYERS
    return run


@pytest.fixture
def filled(cache: Cache, whole: Run) -> Cache:
    """What that run has left, to be damaged."""
    assert whole.cache is not None
    shutil.copytree(whole.cache.directory, cache.directory)
    return cache


def files(cache: Cache) -> list[Path]:
    return sorted(cache.directory.rglob("*.safetensors"))


@pytest.mark.parametrize("name", [name for name in SCHEMES if name != "keep"])
def test_off_cold_and_warm_are_bit_identical(name: str, cache: Cache, notes: list[str]) -> None:
    scheme = Scheme(name)
    off = Run(None, scheme)
    cold, warm = Run(cache, scheme), Run(cache, scheme)
    assert_same(cold, off)
    assert_same(warm, off)
    assert cold.made == LAYERS
    assert warm.made == (LAYERS if name == "none" else 0)
    if name != "none":
        assert "model.layers.2, from the cache" in [step.what for step in warm.steps]
        assert warm.steps[-1].done == warm.steps[-1].total
        assert notes == [
            f"From the cache: 3 of 3 layers, quantized before ({cache.directory})",
        ]


@pytest.mark.parametrize("drift", ["residual", *checked(["none", "gptaq", "inputs"])])
def test_a_lost_layer_is_computed_again_from_the_ones_before(drift: str, cache: Cache) -> None:
    """After layers from the cache, the streams are bit-identical to those when they were made."""
    scheme = Scheme("gptq4", method=Method(drift=drift, descent=0))
    first = Run(cache, scheme)
    order = sorted(files(cache), key=lambda path: path.stat().st_mtime_ns)
    for path in order[1:3]:  # the second layer and the last; the measured quality stays
        path.unlink()
    again = Run(cache, scheme)
    assert again.made == 2
    assert_same(again, first)


@pytest.mark.check
def test_awq_and_rotations_go_through_the_cache(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quant.quantize.learn_rotation", partial(learn_rotation, steps=4))
    for scheme in (
        Scheme("awq4"),
        Scheme("gptq4", method=Method(rotation="hadamard", descent=0)),
        Scheme("gptq4", method=Method(rotation="learned", descent=0)),
    ):
        cold = Run(cache, scheme)
        sorted(files(cache), key=lambda path: path.stat().st_mtime_ns)[-2].unlink()
        again = Run(cache, scheme)
        assert again.made == 1
        assert_same(again, cold)


@pytest.mark.parametrize("tied", [True, False])
def test_ends_of_4_bits_are_kept_too(tied: bool, tmp_path: Path) -> None:
    """They take a pass over all layers, so that they are found again with the layers."""
    config, cache = replace(CONFIG, tie_word_embeddings=tied), Cache(tmp_path)
    scheme = Scheme("gptq4", head_bits=4, method=Method(descent=0))
    weights = CountedWeights(random_model(config))

    def run() -> tuple[dict[str, Tensor], QuantReport]:
        with torch.device("meta"):
            model = CausalLM(config)
        report = quantize(
            model, scheme, weights, tokens(), tokens(seed=9), resources=Resources(cache)
        )
        shared = model.lm_head.values.data_ptr() == model.model.embed_tokens.values.data_ptr()
        assert shared == tied
        return content(model), report

    cold, report = run()
    layers = weights.loaded
    assert len(cache.entries()) == LAYERS + 2  # the ends, and what was measured
    warm, found = run()
    assert weights.loaded == layers  # of no layer was a float weight needed
    assert cold.keys() == warm.keys() and found.quality == report.quality
    assert all(torch.equal(cold[name], warm[name]) for name in cold)
    (ends,) = (entry for entry in cache.entries() if entry.what.startswith("embedding and head"))
    flip_a_bit(tmp_path / "layers" / f"{ends.key}.safetensors", -3)
    again, _ = run()
    assert weights.loaded == 2 * LAYERS + LAYERS  # for the head's statistics alone
    assert all(torch.equal(cold[name], again[name]) for name in cold)


class CountedWeights(ModelWeights):
    """Counts the decoder layers that are loaded."""

    loaded = 0

    def load_into(self, module: torch.nn.Module, prefix: str) -> None:
        self.loaded += prefix.startswith("model.layers.")
        super().load_into(module, prefix)


@pytest.mark.check
def test_what_decides_the_result_is_in_the_key(filled: Cache) -> None:
    assert Run(filled, replace(SHORT, group_size=64)).made == LAYERS
    assert Run(filled, replace(SHORT, head_bits=4)).made == LAYERS
    assert Run(filled, replace(SHORT, method=Method(descent=1))).made == LAYERS
    assert Run(filled, SHORT, calibration=tokens(seed=2)).made == LAYERS
    # A weight of the second layer decides it and, through its outputs, the third.
    other = random_model(CONFIG)
    other.model.layers[1].mlp.up_proj.weight[3, 5] += 1e-4
    assert Run(filled, SHORT, weights=ModelWeights(other)).made == 2
    assert Run(filled, SHORT).made == 0


def flip_a_bit(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "damage", ["header", "tensor", "cut", *checked(["length", "empty", "longer"])]
)
def test_a_damaged_entry_is_noticed_and_computed_again(
    damage: str, filled: Cache, whole: Run, notes: list[str]
) -> None:
    for path in files(filled):
        data = path.read_bytes()
        if damage == "cut":
            path.write_bytes(data[: len(data) // 2])
        elif damage == "empty":
            path.write_bytes(b"")
        elif damage == "longer":
            path.write_bytes(data + b"x")
        else:
            flip_a_bit(
                path, {"header": data.index(b"data_offsets"), "length": 5, "tensor": -3}[damage]
            )
    assert {entry.sound for entry in filled.entries()} == {False}
    again = Run(filled, SHORT)
    assert again.made == LAYERS
    assert_same(again, whole)
    assert sum("damaged" in note for note in notes) >= LAYERS
    assert {entry.sound for entry in filled.entries()} == {True}
    assert Run(filled, SHORT).made == 0


def test_every_flipped_bit_of_an_entry_is_noticed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.store("key", {"x": torch.arange(6, dtype=torch.int8), "y": torch.ones(1)}, "")
    (path,) = files(cache)
    whole = path.read_bytes()
    assert cache.load("key") is not None
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(data))
        found = cache.load("key")
        if found is not None:  # a bit of the header's blanks
            assert torch.equal(found["x"], torch.arange(6, dtype=torch.int8))
            assert torch.equal(found["y"], torch.ones(1))
            assert sorted(found) == ["x", "y"]


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for index, key in enumerate("abcd"):
        cache.store(key, {"x": torch.zeros(1000)}, key)
        os.utime(tmp_path / "layers" / f"{key}.safetensors", (index, index))
    size = cache.size() // 4
    assert cache.load("a") is not None  # and so is used last
    small = Cache(tmp_path, limit=4 * size)
    small.store("e", {"x": torch.zeros(1000)}, "e")
    assert [entry.what for entry in small.entries()] == ["c", "d", "a", "e"]
    assert small.prune(2 * size) == 2 * size
    assert [entry.what for entry in small.entries()] == ["a", "e"]
    assert small.clear() == 2 * size and small.entries() == []


def test_an_entry_larger_than_the_limit_is_not_kept(tmp_path: Path) -> None:
    notes: list[str] = []
    cache = Cache(tmp_path, limit=100, note=notes.append)
    cache.store("key", {"x": torch.zeros(1000)}, "layer 0")
    assert cache.entries() == [] and len(notes) == 1
    assert "layer 0 alone is larger than the cache's limit of 100 bytes" in notes[0]


def test_a_full_disk_costs_only_the_cache(cache: Cache, whole: Run, notes: list[str]) -> None:
    with small_disk(10_000):  # a layer takes 19,000 here
        run = Run(cache, SHORT)
    assert_same(run, whole)
    assert notes == [
        f"Nothing more is cached: {cache.directory} cannot store more (File too large). The run "
        "continues; after an interruption, layers that are not cached are computed again."
    ]
    assert list((cache.directory / "layers").iterdir()) == []


def test_the_room_that_a_file_will_need_is_left(
    tmp_path: Path, whole: Run, notes: list[str]
) -> None:
    cache = Cache(tmp_path, note=notes.append, leaves_free=10**18)
    assert_same(Run(cache, SHORT), whole)
    assert cache.refused and cache.entries() == [] and len(notes) == 1
    assert f"{tmp_path} has " in notes[0]
    assert "and the file that is being made needs 1000000000.0 GB of that disk" in notes[0]


def test_a_place_that_cannot_be_written_costs_only_the_cache(
    tmp_path: Path, whole: Run, notes: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache", note=notes.append)
    assert_same(Run(cache, SHORT), whole)
    assert len(notes) == 1 and "cannot store more (Not a directory)" in notes[0]


def test_files_half_written_by_killed_runs_are_swept(cache: Cache) -> None:
    (cache.directory / "layers").mkdir(parents=True)
    stale, fresh = (cache.directory / "layers" / f".{name}.1.tmp" for name in ("a", "b"))
    for path in (stale, fresh):
        path.write_bytes(b"half")
    os.utime(stale, (0, 0))
    cache.store("key", {"x": torch.zeros(1)}, "")
    assert not stale.exists() and fresh.exists()


@pytest.mark.check
def test_another_delegate_requantizes_nothing(
    one_layer_checkpoint: Path, calibration_text: Path, tmp_path: Path
) -> None:
    def export(delegate: str, cache: Path | None) -> tuple[bytes, int, list[str]]:
        listener = Quiet()
        options = ExportOptions(
            model=str(one_layer_checkpoint),
            out=tmp_path / f"{delegate}.pte",
            calibration=calibration_text,
            calibration_tokens=2048,
            delegate=delegate,
            cache=cache,
        )
        result = export_model(options, listener)
        told = [note for note in listener.notes if "tokenizer_class" not in note]
        return result.out.read_bytes(), result.quantization.cached_layers, told

    plain, _, _ = export("cpu", None)
    cold, found, notes = export("cpu", tmp_path / "cache")
    assert found == 0 and notes == []
    warm, found, _ = export("cpu", tmp_path / "cache")
    assert found == 1
    assert plain == cold == warm
    _, found, notes = export("mps", tmp_path / "cache")
    assert found == 1
    assert notes == [f"From the cache: 1 of 1 layers, quantized before ({tmp_path / 'cache'})"]
    _, found, notes = export("xnnpack", tmp_path / "cache")  # whose linears rotate nothing
    assert found == 0
    assert notes == [
        "xnnpack cannot rotate the inputs of linears at run time, so the weights are chosen "
        "without rotation; --delegate cpu can, and loses less quality."
    ]


@pytest.mark.check
def test_the_command_looks_into_it(filled: Cache) -> None:
    flip_a_bit(files(filled)[0], -1)
    arguments = ["cache", "--cache", str(filled.directory)]
    listed = subprocess.run(
        [sys.executable, "-m", "quant", *arguments, "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert listed.returncode == 0 and listed.stderr == ""
    assert "layer 2 of small by gptq4, groups of 32" in listed.stdout
    assert listed.stdout.count("damaged") == 1 and "4 entries" in listed.stdout

    def command(*options: str) -> Result:
        return CliRunner().invoke(main, [*arguments, *options])

    assert filled.size() > 50_000
    assert "left" in command("--prune", "50kB").stdout and filled.size() <= 50_000
    refused = command("--prune", "5")
    assert refused.exit_code == 2 and filled.size() > 0
    assert refused.stderr == (
        "Error: --prune '5' has no unit; write a number and a unit, such as 5GB, or use --clear to "
        "remove every layer.\n"
    )
    assert command("--clear").stdout.startswith("removed ") and filled.size() == 0
    assert command("--clear", "--list").exit_code == 2
