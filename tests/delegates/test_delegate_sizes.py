"""What delegates say of their files' sizes is what the files grow by."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.decoder_specs import SMALL, varied
from support.small_models import PLAIN_RTN8, quantized_model, random_model

from delegates import get_delegate
from exporter.capture.program import capture
from exporter.models.decoder import CausalLM
from exporter.plan.file_size import room_to_leave, weight_bytes
from exporter.plan.widths import storage_of
from quant.measure.size import StoredSize, stored_size
from quant.scheme import Scheme

# `make test` runs the first of our own delegate, `make check` those of two that differ most.
CASES = [
    ("cpu", Scheme("rtn4"), "tied"),
    ("cpu", Scheme("none"), "untied"),
    ("xnnpack", Scheme("rtn4", 128, 4), "tied"),
    ("xnnpack", PLAIN_RTN8, "untied"),
    ("coreml", Scheme("rtn4", 32, 4), "tied"),
    ("coreml", PLAIN_RTN8, "untied"),
    ("coreml", Scheme("none"), "tied"),
    ("mlx", Scheme("rtn4", 128, 4), "tied"),
    ("mlx", PLAIN_RTN8, "untied"),
    ("mlx", Scheme("none"), "tied"),
    ("vulkan", Scheme("none"), "tied"),
    ("vulkan", Scheme("rtn4", 32, 4), "untied"),
    ("tosa", Scheme("none"), "tied"),
]


def mark_of(delegate: str, scheme: Scheme, ends: str) -> Any:
    """Which of the longer runs has the case."""
    if (delegate, scheme.name) == ("cpu", "rtn4"):
        return ()
    first = next(case for case in CASES if case[0] == "xnnpack")
    return pytest.mark.check if first == (delegate, scheme, ends) else pytest.mark.soak


def sizes(
    delegate: str, scheme: Scheme, tied: bool, layers: int, vocab_size: int, path: Path
) -> tuple[int, StoredSize]:
    """Of a random model's file, and what its weights are said to take of it."""
    config = varied(
        SMALL,
        hidden_size=256,
        intermediate_size=1024,
        head_dim=64,
        num_key_value_heads=4,
        num_hidden_layers=layers,
        vocab_size=vocab_size,
        tie_word_embeddings=tied,
    )
    model = random_model(config)
    if scheme.name != "none":
        model = quantized_model(model, scheme)
    module = get_delegate(delegate)
    stated = stored_size(model, list(model.model.layers), tied, storage_of(module.LIMITS))
    program = capture(model, 16, 8 if module.LIMITS.dynamic else 1)
    with open(path, "wb") as file:
        module.lower(program, {}, {}, with_etrecord=False).program.write_to_file(file)
    return path.stat().st_size, stated


@pytest.mark.parametrize(
    ("delegate", "scheme", "ends"),
    CASES,
    ids=[f"{name}-{scheme.name}-{ends}" for name, scheme, ends in CASES],
)
def test_weights_take_what_shapes_foretell(delegate: str, scheme: Scheme, ends: str) -> None:
    limits = get_delegate(delegate).LIMITS
    config = varied(SMALL, num_hidden_layers=2, tie_word_embeddings=ends == "tied")
    with torch.device("meta"):
        model = CausalLM(config)
    estimated = weight_bytes(model, scheme, limits)
    whole = random_model(config)
    if scheme.name != "none":
        whole = quantized_model(whole, scheme)
    stored = stored_size(whole, list(whole.model.layers), ends == "tied", storage_of(limits))
    sizes = stored.linears + stored.embedding + stored.head + stored.rest
    # Four matrices of each layer and both ends are filled up.
    assert sizes <= estimated <= sizes + (2 * 4 + 2) * limits.sizes.alignment


@pytest.mark.check
@pytest.mark.parametrize(
    ("delegate", "scheme", "ends"),
    [pytest.param(*case, marks=mark_of(*case)) for case in CASES],
    ids=[f"{name}-{scheme.name}-{ends}" for name, scheme, ends in CASES],
)
def test_a_file_grows_as_its_delegate_says(
    delegate: str, scheme: Scheme, ends: str, tmp_path: Path
) -> None:
    limits = get_delegate(delegate).LIMITS
    if missing := limits.missing():
        pytest.skip(missing)
    path = tmp_path / "model.pte"
    small, of_small = sizes(delegate, scheme, ends == "tied", 1, 512, path)
    large, of_large = sizes(delegate, scheme, ends == "tied", 2, 4096, path)
    grown = sum(
        getattr(of_large, part) - getattr(of_small, part)
        for part in ("linears", "embedding", "head", "rest")
    )
    # Four matrices of a layer and both ends are brought to the alignment, in either file.
    padding = 6 * limits.sizes.alignment
    assert -padding <= large - small - grown <= limits.sizes.layer_bytes + padding


def test_a_cache_leaves_room_on_the_disk_of_the_file(tmp_path: Path) -> None:
    out, cache = tmp_path / "model.pte", tmp_path / "not" / "yet"
    assert room_to_leave(cache, out, 100) == 100
    assert room_to_leave(Path("/proc"), out, 100) == 0
