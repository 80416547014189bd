"""Memory: what does not fit goes to disk, and the result is bit-identical."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support.decoder_specs import SMALL, varied
from support.exported import Quiet
from support.quantization import content, tokens
from support.small_models import ModelWeights, random_model
from support.tiers import checked, soaked
from torch import Tensor

from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from exporter.plan.memory import plan_memory
from exporter.plan.planning import read_plan
from quant.errors import QuantError
from quant.layers.block_solver import BlockSolver
from quant.machine.memory import LOOPS
from quant.machine.ranks import Ranks
from quant.machine.resources import Resources
from quant.machine.speed import Speed, hessian_operations, update_operations
from quant.machine.spill import Batches, Spill
from quant.method import DRIFTS, Method
from quant.quantize import quantize
from quant.scheme import Scheme

ROOT = Path(__file__).resolve().parents[2]
CONFIG = varied(SMALL, num_hidden_layers=2, attention_bias=True)
FLOAT = random_model(CONFIG)
BASELINES = ("gptaq", "qronos")  # for comparison alone


@pytest.mark.parametrize("tied", [True, *checked([False])])
@pytest.mark.parametrize("drift", [*(d for d in DRIFTS if d not in BASELINES), *soaked(BASELINES)])
def test_spilled_or_not_the_bits_are_the_same(drift: str, tied: bool, tmp_path: Path) -> None:
    config = replace(CONFIG, tie_word_embeddings=tied)
    weights = ModelWeights(random_model(config))
    text = torch.randint(0, 96, (40, 64), generator=torch.Generator().manual_seed(3))
    models = []
    for spill in (Spill(), Spill(tmp_path)):
        with torch.device("meta"):
            model = CausalLM(config)
        scheme = Scheme("gptq4", method=Method(drift=drift, descent=2 * (drift == "residual")))
        report = quantize(model, scheme, weights, text, text[:4], resources=Resources(spill=spill))
        models.append((content(model), model.logits(text[:2]), report.quality))
        tied_now = model.lm_head.values.data_ptr() == model.model.embed_tokens.values.data_ptr()
        assert tied_now == tied
        assert list(tmp_path.iterdir()) == []  # the files have no names
    (ours, logits, quality), (theirs, their_logits, their_quality) = models
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert torch.equal(logits, their_logits) and quality == their_quality


@pytest.mark.parametrize("drift", ["residual", "inputs"])
def test_inputs_kept_as_integers_change_no_bit(drift: str, monkeypatch: pytest.MonkeyPatch) -> None:
    types, kept = set(), BlockSolver.kept

    def watched(place: BlockSolver, x: Tensor) -> Tensor:
        packed = kept(place, x)
        types.add(packed.dtype)
        return packed

    weights, text = ModelWeights(FLOAT), tokens(windows=40, seq_len=64, vocab_size=96)
    models = []
    for keeps in (watched, lambda _, x: x):
        monkeypatch.setattr(BlockSolver, "kept", keeps)
        with torch.device("meta"):
            model = CausalLM(CONFIG)
        quantize(model, Scheme("gptq4", method=Method(drift=drift)), weights, text)
        models.append(content(model))
    ours, theirs = models
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert types == {torch.int8}


def test_batches_in_a_file_are_read_back_and_replaced(tmp_path: Path) -> None:
    integers = torch.randint(-128, 128, (5, 3), dtype=torch.int8)
    tensors = [torch.randn(3, 4), torch.randn(2, 4), torch.randn(0, 4), integers]
    batches = Batches(tmp_path)
    for tensor in tensors:
        batches.append(tensor)
    tensors[0] = torch.randn(3, 4).T.contiguous().T
    batches[0] = tensors[0]
    assert len(batches) == 4
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(batches, tensors, strict=True))


def test_sums_over_shards_are_a_tree(tmp_path: Path) -> None:
    terms = [torch.randn(5, 5) * 10**index for index in range(8)]
    a, b, c, d, e, f, g, h = terms
    wanted = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for spill in (Spill(), Spill(tmp_path)):
        assert torch.equal(Ranks().sum((term.clone() for term in terms), spill), wanted)


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QuantError) as error:
        Spill(tmp_path / "file" / "directory").keep([torch.zeros(1)])
    assert str(error.value) == (
        f"{tmp_path}/file/directory cannot store more of what does not fit in memory (Not a "
        "directory); free some space there, choose another --cache, or allow more with "
        "--max-memory."
    )


MID = varied(
    SMALL,
    vocab_size=512,
    hidden_size=512,
    intermediate_size=2048,
    num_attention_heads=8,
    num_key_value_heads=8,
    head_dim=64,
    context_limit=256,
)
TOKENS = 24576
CHILD = """
import json, sys
from pathlib import Path
import torch
from exporter.checkpoint import open_checkpoint
from exporter.models.decoder import CausalLM
from quant.machine.resources import Resources
from quant.machine.memory import estimate_peak, resident
from quant.quantize import quantize
from quant.scheme import Scheme
from quant.machine.spill import Spill

checkpoint = open_checkpoint(sys.argv[1])
spill = Spill(Path(sys.argv[2]) if sys.argv[2] else None)
with torch.device("meta"):
    model = CausalLM(checkpoint.config)
text = torch.randint(0, 512, (int(sys.argv[3]) // 256, 256))
before = resident()
peak = estimate_peak(model, Scheme("gptq4"), text, sys.argv[2] != "")
quantize(model, Scheme("gptq4"), checkpoint, text, resources=Resources(spill=spill))
(line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(json.dumps([before, before + peak.quantizing, int(line.split()[1]) * 1024]))
"""


@pytest.fixture(scope="module")
def mid_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer of a few million random weights."""
    directory = tmp_path_factory.mktemp("mid")
    (directory / "config.json").write_text(
        json.dumps(MID.dimensions() | {"model_type": "llama", "rms_norm_eps": MID.rms_norm_eps})
    )
    save_file(
        {
            name: tensor.bfloat16()
            for name, tensor in random_model(MID).state_dict().items()
            if name != "lm_head.weight"
        },
        directory / "model.safetensors",
    )
    return directory


def measured(checkpoint: Path, spill: Path | None) -> tuple[int, int, int]:
    """Bytes before, estimated at the peak, and measured there, of a process of its own."""
    command = [sys.executable, "-c", CHILD, checkpoint, spill or "", TOKENS]
    result = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    before, estimated, peak = json.loads(result.stdout)
    return before, estimated, peak


@pytest.mark.soak
def test_spilled_it_stays_below_the_estimate(mid_checkpoint: Path, tmp_path: Path) -> None:
    before, estimated, peak = measured(mid_checkpoint, tmp_path)
    assert peak <= estimated
    states = (
        4 * TOKENS * (3 * MID.hidden_size + MID.layers[0].feed_forward.intermediate_size)
    )  # what lay on disk
    assert states > 300e6 and peak - before - LOOPS < states


@pytest.mark.soak
def test_in_memory_it_stays_below_the_estimate(mid_checkpoint: Path) -> None:
    before, estimated, peak = measured(mid_checkpoint, None)
    assert peak <= estimated
    assert peak - before > 0.6 * (estimated - before)  # and what was estimated is no fantasy


@pytest.mark.check
def test_an_export_through_the_disk_is_the_same_file(
    one_layer_checkpoint: Path,
    calibration_text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def export(name: str) -> bytes:
        options = ExportOptions(
            model=str(one_layer_checkpoint),
            out=tmp_path / name,
            calibration=calibration_text,
            calibration_tokens=2048,
        )
        return export_model(options, Quiet()).out.read_bytes()

    plain = export("plain.pte")
    (tmp_path / "spill").mkdir()
    spill = Spill(tmp_path / "spill")
    monkeypatch.setattr("exporter.plan.planning.plan_memory", lambda *_: spill)
    mapped = []
    monkeypatch.setattr(Quiet, "stage", lambda _, name: mapped.append((name, spill.mapped)))
    assert export("spilled.pte") == plain
    assert list((tmp_path / "spill").iterdir()) == []
    weights = 2 * 8  # values and scales of four linears, two of them in parts, and of the ends
    assert ("lower", weights) in mapped
    assert ("write", 0) in mapped  # lowering has given all of them back


def plan(model: Path, limit: int, delegate: str, out: Path) -> tuple[Spill, list[str]]:
    listener = Quiet()
    options = ExportOptions(model=str(model), out=out, max_memory=limit, delegate=delegate)
    planned = replace(read_plan(options, listener), file_size=400)
    return plan_memory(planned, listener), listener.notes


def test_what_never_fits_is_refused_before_the_start(
    one_layer_checkpoint: Path, tmp_path: Path
) -> None:
    for delegate, wanted in (
        (
            "xnnpack",
            "needs about 900.3 MB of memory, because it holds more than a byte of every weight, "
            "but --max-memory is 300.0 MB; allow that much, or take --delegate cpu, which keeps on "
            "disk what does not fit.",
        ),
        ("cpu", "even with the disk, but --max-memory is 300.0 MB; allow that much"),
    ):
        with pytest.raises(ExportError, match=re.escape(wanted)):
            plan(one_layer_checkpoint, 300_000_000, delegate, tmp_path / "model.pte")


def test_disk_is_used_only_where_memory_is_short(
    one_layer_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.pte"
    assert plan(one_layer_checkpoint, 50 * 10**9, "xnnpack", out)[0].directory is None
    monkeypatch.setattr("exporter.plan.memory._peaks", lambda *_, spilled: {"a": 5 - 4 * spilled})
    spill, notes = plan(one_layer_checkpoint, 3, "cpu", out)
    assert spill.directory == tmp_path / "spill" and "to stay below" in notes[-1]
    monkeypatch.setattr("exporter.plan.memory.shutil.disk_usage", lambda _: Usage(free=1000))
    with pytest.raises(
        ExportError, match=r"spill has 1.0 kB free, but what .* in addition to the file's 0.4 kB"
    ):
        plan(one_layer_checkpoint, 3, "cpu", out)


@dataclass
class Usage:
    free: int


def test_operations_are_counted_as_they_are() -> None:
    assert hessian_operations(tokens=3, columns=4) == 3 * 4 * 5 + 2 * 64 // 3
    plain = Method(drift="none", descent=0)
    assert update_operations(5, 4, plain, corrected=False) == 5 * 16
    assert update_operations(5, 4, Method(descent=2), corrected=True) == 7 * 5 * 16
    speed = Speed()
    with torch.device("meta"):
        model = CausalLM(CONFIG)
    text = torch.zeros(8, 32, dtype=torch.int64)
    quantize(model, Scheme("gptq4"), ModelWeights(FLOAT), text, resources=Resources(speed=speed))
    per_layer = sum(hessian_operations(8 * 32, columns) for columns in (64, 64, 64, 96))
    assert speed.operations["hessian"] == 2 * per_layer
    assert speed.gflops("hessian") is not None and speed.gflops("update") is not None
    assert Speed().gflops("update") is None
