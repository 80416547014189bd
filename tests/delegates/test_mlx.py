"""MLX: the program in the file, parsed back with its own schema and run in numpy, computes what
the model computes; its weights are the model's integers."""

import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.decoder_specs import SMALL, varied
from support.exported import feed
from support.mlx_evaluator import MLXEvaluator, MLXProgram
from support.small_models import PLAIN_RTN8, float_twin, quantized_model, random_model
from torch import Tensor

from delegates import DelegateError, Lowered
from delegates.limits_of.mlx import missing
from delegates.mlx import load, lower
from delegates.mlx.schema import generated, import_mlx
from exporter.capture.program import capture
from exporter.models.decoder import CausalLM
from quant.modules import QuantizedLinear
from quant.scheme import Scheme

pytestmark = pytest.mark.check

LAYERS = 2
CONFIG = varied(SMALL, num_hidden_layers=LAYERS)
CONTEXT = 40
LENGTHS = [11, 1, 1, 2, 1, 9, 1]  # prefill, decode, and a longer call in the middle

# The evaluator and the model differ in the order of float32 additions alone.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Case:
    """One lowered model: eager, in the file, and ExecuTorch's view of it."""

    model: CausalLM
    path: Path
    program: MLXProgram
    lowered: Lowered


def mlx(model: CausalLM, directory: Path) -> Case:
    lowered = lower(capture(model, CONTEXT, 16), {}, {}, with_etrecord=False)
    path = directory / "model.pte"
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    return Case(model, path, MLXProgram(path), lowered)


@pytest.fixture(scope="module")
def int4(tmp_path_factory: pytest.TempPathFactory) -> Case:
    model = quantized_model(random_model(CONFIG), Scheme("rtn4"))
    return mlx(model, tmp_path_factory.mktemp("int4"))


def require_agreement(case: Case, lengths: list[int] = LENGTHS) -> None:
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(CONFIG.vocab_size, (sum(lengths),), generator=generator)
    twin = float_twin(case.model)
    twin.setup_cache(CONTEXT)
    evaluator = MLXEvaluator(case.program)
    want, have = feed(twin, tokens, lengths), feed(evaluator, tokens, lengths)
    torch.testing.assert_close(have, want, rtol=TOLERANCE, atol=TOLERANCE * float(want.std()) * 10)
    for index, layer in enumerate(twin.model.layers):
        for name in ("k_cache", "v_cache"):
            cache = evaluator.caches()[f"model.layers.{index}.self_attn.{name}"]
            wanted = getattr(layer.self_attn, name).transpose(1, 2).numpy()
            np.testing.assert_allclose(cache, wanted, rtol=1e-4, atol=1e-5)


def test_prefill_and_decode_agree_through_the_caches(int4: Case) -> None:
    require_agreement(int4)


def test_the_last_position_of_the_context_and_the_longest_call(int4: Case) -> None:
    lengths = [16, 16, 7, 1]
    assert sum(lengths) == CONTEXT
    require_agreement(int4, lengths)


@pytest.mark.parametrize("scheme", [Scheme("none"), Scheme("rtn4", 32, 4)], ids=["float", "head4"])
def test_other_widths(scheme: Scheme, tmp_path: Path) -> None:
    model = random_model(SMALL)
    if scheme.name != "none":
        model = quantized_model(model, scheme)
    require_agreement(mlx(model, tmp_path))


def test_8_bit_layers_and_biases(tmp_path: Path) -> None:
    config = varied(SMALL, intermediate_size=96, attention_bias=True, qk_norm="heads")
    require_agreement(mlx(quantized_model(random_model(config), PLAIN_RTN8), tmp_path))


@pytest.mark.soak
def test_windows(tmp_path: Path) -> None:
    """Of several positions, of one, and none."""
    (layer,) = SMALL.layers
    windows = (5, None, 1)
    layers = (replace(layer, mixer=replace(layer.mixer, window=window)) for window in windows)
    case = mlx(random_model(replace(SMALL, layers=tuple(layers))), tmp_path)
    require_agreement(case)
    require_agreement(case, [16, 16, 7, 1])
    counted = Counter(case.program.operators())
    assert (counted["SdpaNode"], counted["ExpandDimsNode"]) == (3, 1)


def test_the_complete_decoder_is_one_call(int4: Case) -> None:
    report = int4.lowered.report
    assert report.calls == 1 and report.left == {}
    assert report.linears == report.linears_delegated == 7 * LAYERS + 1
    counted = Counter(int4.program.operators())
    assert counted["QuantizedMatmulNode"] == 7 * LAYERS + 1
    assert counted["SdpaNode"] == LAYERS and counted["SliceUpdateNode"] == 2 * LAYERS
    assert counted["RMSNormNode"] == 2 * LAYERS + 1
    assert load(int4.path) is None


def test_an_etrecord(tmp_path: Path) -> None:
    model = quantized_model(random_model(SMALL), Scheme("rtn4"))
    lowered = lower(capture(model, CONTEXT, 16), {}, {}, with_etrecord=True)
    lowered.etrecord.save(str(tmp_path / "model.etrecord"))
    assert (tmp_path / "model.etrecord").stat().st_size > 0


def packed(values: Tensor, bits: int) -> np.ndarray:
    """MLX's words: integers made unsigned, the first in a word's lowest bits."""
    unsigned = (values.numpy().astype(np.int64) + 2 ** (bits - 1)).reshape(
        len(values), -1, 32 // bits
    )
    return (unsigned << np.arange(0, 32, bits)).sum(-1).astype(np.uint32)


def test_the_weights_are_the_models_integers(int4: Case) -> None:
    places = {name: at for at, name in int4.program.names.items()}
    for name, module in int4.model.model.named_modules():
        if not isinstance(module, QuantizedLinear):
            continue
        words = int4.program.constants[places[f"model.{name}.values_to_packed"]]
        scales = int4.program.constants[places[f"model.{name}.scales"]]
        np.testing.assert_array_equal(words, packed(module.values, 4))
        np.testing.assert_array_equal(scales, module.scales.numpy())
    table = int4.program.constants[places["lm_head.values_to_packed"]]
    np.testing.assert_array_equal(table, packed(int4.model.lm_head.values, 8))


def test_a_tied_table_is_stored_once(int4: Case) -> None:
    # int4 with a scale of 4 bytes a group, the table once in 8 bits, norms, two rotary tables.
    config = int4.model.config
    linears = [m for m in int4.model.model.modules() if isinstance(m, QuantizedLinear)]
    weights = sum(linear.values.numel() for linear in linears)
    table = config.vocab_size * (config.hidden_size + 4)
    rope = 2 * 4 * CONTEXT * config.layers[0].mixer.head_dim
    stored = sum(value.nbytes for value in int4.program.constants.values())
    size = int4.path.stat().st_size
    assert weights * (1 / 2 + 4 / 32) + table < size < stored + rope + 40_000
    keys = int4.lowered.program._named_data.pte_data
    ends = [key for key in keys if "layers" not in key and "values" in key]
    assert len(ends) == 1 and ends[0].endswith("lm_head.values_to_packed")


class Bessel(CausalLM):
    """Ends in an operator that MLX has no instruction for."""

    def head(self, hidden: Tensor) -> Tensor:
        return torch.special.i0(super().head(hidden))


def test_an_operator_that_mlx_does_not_have() -> None:
    with pytest.raises(DelegateError) as refused:
        lower(capture(Bessel(SMALL).requires_grad_(False), CONTEXT, 16), {}, {}, False)
    assert re.fullmatch(
        r"MLX does not take i0 \(exporter/models/decoder\.py:\d+\), but its state "
        r"needs the complete program in one call: export with another --delegate\.",
        str(refused.value),
    )


def test_what_the_wheel_lacks_is_generated_once_and_outside_of_it(tmp_path: Path) -> None:
    import_mlx()
    source = Path(sys.modules["executorch.backends.mlx"].__file__ or "").parent / "serialization"
    before = sorted(path.name for path in source.iterdir())
    first = generated(source, tmp_path / "cache")
    assert sorted(path.name for path in source.iterdir()) == before
    made = {path: path.stat().st_mtime_ns for path in first.rglob("*.py")}
    assert {"mlx_graph_schema.py", "_generated_serializers.py", "_generated_inspector.py"} <= {
        path.name for path in made
    }
    assert generated(source, tmp_path / "cache") == first
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*.py")} == made
    assert list((tmp_path / "cache").iterdir()) == [first]


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    import_mlx()
    source = Path(sys.modules["executorch.backends.mlx"].__file__ or "").parent / "serialization"
    (tmp_path / "file").touch()
    with pytest.raises(DelegateError) as refused:
        generated(source, tmp_path / "file")
    assert str(refused.value) == (
        f"The mlx delegate cannot generate its schema's code in {tmp_path / 'file'} (File exists); "
        "set THIMBLE_CACHE to a writable directory."
    )
    assert missing() is None
