"""The cache of quantized layers: nothing is made twice, nothing damaged is believed."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.decoder_specs import SMALL, varied
from support.exported import Quiet
from support.quantization import content
from support.small_disk import small_disk
from support.small_models import ModelWeights, random_model
from torch import Tensor

from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.cache.store import DEFAULT_SIZE, Cache, default_directory, default_size
from quant.errors import QuantError
from quant.machine.memory_size import parse_size
from quant.machine.resources import Resources
from quant.method import Method
from quant.progress import Progress
from quant.quantize import quantize
from quant.report import QuantReport
from quant.scheme import SCHEMES, Scheme

ROOT = Path(__file__).resolve().parents[2]
CONFIG = varied(SMALL, num_hidden_layers=3, attention_bias=True)
FLOAT = random_model(CONFIG)
LAYERS = CONFIG.num_hidden_layers


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


@pytest.mark.parametrize("drift", ["none", "gptaq", "inputs", "residual"])
def test_a_lost_layer_is_computed_again_from_the_ones_before(drift: str, cache: Cache) -> None:
    """After layers from the cache, the streams are bit-identical to those when they were made."""
    scheme = Scheme("gptq4", method=Method(drift=drift))
    whole = Run(cache, scheme)
    order = sorted(files(cache), key=lambda path: path.stat().st_mtime_ns)
    for path in order[1:3]:  # the second layer and the last; the measured quality stays
        path.unlink()
    again = Run(cache, scheme)
    assert again.made == 2
    assert_same(again, whole)


def test_awq_and_rotations_go_through_the_cache(cache: Cache) -> None:
    for scheme in (
        Scheme("awq4"),
        Scheme("gptq4", method=Method(rotation="hadamard")),
        Scheme("gptq4", method=Method(rotation="learned")),
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


def test_what_decides_the_result_is_in_the_key(cache: Cache) -> None:
    scheme = Scheme("gptq4")
    assert Run(cache, scheme).made == LAYERS
    assert Run(cache, Scheme("gptq4", 64)).made == LAYERS
    assert Run(cache, Scheme("gptq4", head_bits=4)).made == LAYERS
    assert Run(cache, Scheme("gptq4", method=Method(descent=1))).made == LAYERS
    assert Run(cache, scheme, calibration=tokens(seed=2)).made == LAYERS
    # A weight of the second layer decides it and, through its outputs, the third.
    other = random_model(CONFIG)
    other.model.layers[1].mlp.up_proj.weight[3, 5] += 1e-4
    assert Run(cache, scheme, weights=ModelWeights(other)).made == 2
    assert Run(cache, scheme).made == 0


def flip_a_bit(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", ["header", "length", "tensor", "cut", "empty", "longer"])
def test_a_damaged_entry_is_noticed_and_computed_again(
    damage: str, cache: Cache, notes: list[str]
) -> None:
    scheme = Scheme("gptq4")
    whole = Run(cache, scheme)
    for path in files(cache):
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
    assert {entry.sound for entry in cache.entries()} == {False}
    again = Run(cache, scheme)
    assert again.made == LAYERS
    assert_same(again, whole)
    assert sum("damaged" in note for note in notes) >= LAYERS
    assert {entry.sound for entry in cache.entries()} == {True}
    assert Run(cache, scheme).made == 0


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


def test_a_full_disk_costs_only_the_cache(cache: Cache, notes: list[str]) -> None:
    with small_disk(10_000):  # a layer takes 19,000 here
        run = Run(cache, Scheme("gptq4"))
    assert_same(run, Run(None, Scheme("gptq4")))
    assert notes == [
        f"Nothing more is cached: {cache.directory} cannot store more (File too large). The run "
        "continues; after an interruption, layers that are not cached are computed again."
    ]
    assert list((cache.directory / "layers").iterdir()) == []


def test_the_room_that_a_file_will_need_is_left(tmp_path: Path) -> None:
    notes: list[str] = []
    cache = Cache(tmp_path, note=notes.append, leaves_free=10**18)
    assert_same(Run(cache, Scheme("gptq4")), Run(None, Scheme("gptq4")))
    assert cache.refused and cache.entries() == [] and len(notes) == 1
    assert f"{tmp_path} has " in notes[0]
    assert "and the file that is being made needs 1000000000.0 GB of that disk" in notes[0]


def test_a_place_that_cannot_be_written_costs_only_the_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    notes: list[str] = []
    cache = Cache(tmp_path / "file" / "cache", note=notes.append)
    assert_same(Run(cache, Scheme("gptq4")), Run(None, Scheme("gptq4")))
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
        return result.out.read_bytes(), result.quantization.cached_layers, listener.notes

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


def test_where_and_how_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("THIMBLE_CACHE", str(tmp_path))
    assert default_directory() == tmp_path
    monkeypatch.delenv("THIMBLE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_directory() == Path("/somewhere/thimble")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_directory() == Path("/home/me/.cache/thimble")
    monkeypatch.delenv("THIMBLE_CACHE_SIZE", raising=False)
    assert default_size() == DEFAULT_SIZE
    monkeypatch.setenv("THIMBLE_CACHE_SIZE", "1.5 GiB")
    assert default_size() == 3 * 2**29


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "6 apples",
            "--max-memory '6 apples' is not a valid size; write a number and a unit of kB, MB, GB, "
            "TB, KiB, MiB, GiB or TiB, such as 6GB or 700MB.",
        ),
        (
            "5",
            "--max-memory '5' has no unit; write a number and a unit, such as 5GB, or nothing.",
        ),
        ("0GB", "--max-memory '0GB' is not a valid size; give one above 0, such as 6GB."),
    ],
)
def test_sizes_that_are_none(text: str, sentence: str) -> None:
    with pytest.raises(QuantError) as error:
        parse_size(text, "--max-memory", ", or nothing")
    assert str(error.value) == sentence


def test_the_command_looks_into_it(cache: Cache) -> None:
    Run(cache, Scheme("gptq4"))
    flip_a_bit(files(cache)[0], -1)

    def command(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "quant", "cache", "--cache", str(cache.directory), *options],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    listed = command("--list")
    assert listed.returncode == 0 and listed.stderr == ""
    assert "layer 2 of small by gptq4, groups of 32" in listed.stdout
    assert listed.stdout.count("damaged") == 1 and "4 entries" in listed.stdout
    assert "left" in command("--prune", "60kB").stdout and cache.size() <= 60_000
    refused = command("--prune", "5")
    assert refused.returncode == 2 and cache.size() > 0
    assert refused.stderr == (
        "Error: --prune '5' has no unit; write a number and a unit, such as 5GB, or use --clear to "
        "remove everything.\n"
    )
    assert command("--clear").stdout.startswith("removed ") and cache.size() == 0
    assert command("--clear", "--list").returncode == 2
