"""Quality beside llama.cpp's files: the padded model computes the same, positions are scored
alike, and rows are shown side by side."""

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from support.family_data import HEAD_KEYS, WINDOW_KEYS, GgufForm
from support.family_models import Case, reference_model, tokens_of
from support.gguf_models import write_model
from support.loading import loaded
from torch import Tensor

from devtools.commands.cli import main
from devtools.commands.float_logits import FloatLogits
from devtools.errors import BadRequest, DevtoolsError
from devtools.quality.llama_cpp import CHUNK, FIRST, read_base
from devtools.quality.padded import write_padded
from devtools.quality.plot import draw_quality
from devtools.quality.rows import OURS, THEIRS, Row, table_of
from exporter.checkpoint import open_checkpoint
from quant.measure.quality import compare_logits

GEMMA3: dict[str, Any] = dict(
    head_dim=16, query_pre_attn_scalar=16, sliding_window=9, num_hidden_layers=7
)
CASES = [
    (Case("llama", "untied"), GgufForm("llama", pairs_rotate=True)),
    (Case("llama", "tied", dict(tie_word_embeddings=True)), GgufForm("llama", pairs_rotate=True)),
    (Case("qwen2", "biases"), GgufForm("qwen2")),
    (Case("qwen3", "norms of heads", dict(head_dim=16)), GgufForm("qwen3", HEAD_KEYS)),
    (Case("gemma3_text", "scaled", GEMMA3), GgufForm("gemma3", {**HEAD_KEYS, **WINDOW_KEYS})),
]


def logits_of(path: Path, tokens: Tensor) -> Tensor:
    checkpoint = open_checkpoint(path)
    checkpoint.config = checkpoint.config.for_context(tokens.shape[1])
    with torch.no_grad():
        return loaded(checkpoint).logits(tokens)


@pytest.mark.parametrize(("case", "form"), CASES, ids=[str(case) for case, _ in CASES])
def test_a_padded_model_computes_the_same(tmp_path: Path, case: Case, form: GgufForm) -> None:
    reference = reference_model(case)
    tokens = tokens_of(reference)
    plain = write_model(tmp_path / "plain.gguf", reference, form)
    padded = tmp_path / "padded.gguf"
    source = write_padded(plain, padded)
    for tensor in gguf.GGUFReader(padded).tensors:
        if tensor.name.startswith("blk.") and len(tensor.shape) == 2:
            assert tensor.shape[0] % 256 == 0, tensor.name
    # Sums in another order, and a mean that is multiplied and divided: float32's last bits.
    wanted, found = logits_of(plain, tokens), logits_of(padded, tokens)
    assert (found - wanted).abs().max() < 1e-4
    assert sum(source.numbers.values()) == sum(t.n_elements for t in gguf.GGUFReader(plain).tensors)
    assert source.bits(padded) == 32


def test_what_cannot_be_padded_is_one_sentence(tmp_path: Path) -> None:
    no_model = tmp_path / "no.gguf"
    no_model.write_bytes(b"GGUF, but no more")
    with pytest.raises(BadRequest, match="no.gguf is not a readable GGUF model"):
        write_padded(no_model, tmp_path / "out.gguf")
    reference = reference_model(Case("phi3", "fused"))
    fused = write_model(tmp_path / "phi3.gguf", reference, GgufForm("phi3"))
    with pytest.raises(BadRequest, match="attn_qkv.weight is not one that can be padded"):
        write_padded(fused, tmp_path / "out.gguf")


def test_the_figures_are_those_of_the_exporter(tmp_path: Path) -> None:
    """One chunk after the other, and pieces of it, as all positions at once."""
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 50, (3, 16), generator=random)
    tables = torch.randn(2, 50, 60, generator=random)

    def model(which: int):
        def logits(chunk, first):
            yield tables[which][chunk[first : first + 4]]
            yield tables[which][chunk[first + 4 :]]

        return logits

    text = FloatLogits(tokens, 8, model(0), tmp_path / "logits")
    assert text.compare(model(0)) == (0, 0)
    kl, error = text.compare(model(1))
    floats, others = (table[tokens[:, 8:-1]] for table in tables)
    quality = compare_logits(floats, others, tokens[:, 9:])
    assert kl == pytest.approx(quality.kl, rel=1e-5)
    assert error == pytest.approx(quality.kl_error, rel=1e-5)


def test_tokens_are_read_from_llama_perplexitys_file(tmp_path: Path) -> None:
    tokens = np.arange(2 * CHUNK, dtype="<i4")
    path = tmp_path / "base"
    random = np.random.default_rng(0)
    logits = random.normal(size=(2 * (CHUNK - 1 - FIRST), 9)).astype("<f4")
    least = logits.min(1, keepdims=True)
    scale = (logits.max(1, keepdims=True) - least) / 65535
    kept = np.rint((logits - least) / scale).astype("<u2")
    filled = np.pad(kept, ((0, 0), (0, 1)))  # an even number of tokens
    rows = np.concatenate([scale.view("<u2"), least.view("<u2"), filled], axis=1)
    head = b"_logits_" + struct.pack("<iii", CHUNK, 9, 2)
    path.write_bytes(head + tokens.tobytes() + rows.tobytes())
    base = read_base(path)
    assert np.array_equal(base.tokens, tokens.reshape(2, CHUNK)) and FIRST == CHUNK // 2
    found = np.concatenate(list(base.log_probabilities()))
    assert np.array_equal(found == -1e4, kept == 0)
    gap = np.abs(found - logits)[kept > 0]
    assert gap.max() <= scale.max()  # half a step, and float32's last bits
    path.write_bytes(b"GGUF")
    with pytest.raises(DevtoolsError, match="is not a file that llama-perplexity keeps"):
        read_base(path)


ROWS = [
    Row(THEIRS, "Q4_K_M", 5.5, {"novel": (0.05, 0.002), "chat": (0.04, 0.001)}),
    Row(OURS, "5.50 bits", 5.49, {"novel": (0.04, 0.001), "chat": (0.03, 0.001)}, "Q4_K_M"),
    Row(OURS, "rtn8", 8.05, {"novel": (0.01, 0.00004), "chat": (0.02, 0.001)}),
]


def test_rows_stand_beside_each_other() -> None:
    table = table_of(ROWS, ["novel", "chat"])
    columns = [list(column.cells) for column in table.columns]
    assert columns[0] == ["thimble 5.50 bits", "llama.cpp Q4_K_M", "thimble rtn8"]
    assert columns[2] == ["40.0 ± 1.0", "50.0 ± 2.0", "10.00 ± 0.04"]
    assert columns[4] == ["0.80, 0.75", "", ""]


@pytest.mark.check
def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="--plot draws with matplotlib")
    draw_quality(ROWS, ["novel", "chat"], "a model", tmp_path / "quality.png")
    assert (tmp_path / "quality.png").read_bytes().startswith(b"\x89PNG")


def test_missing_tools_and_files_are_one_sentence(tmp_path: Path) -> None:
    text, model = tmp_path / "t.txt", tmp_path / "m.gguf"
    text.write_text("Once.")
    model.write_bytes(b"GGUF")
    options = ["--llama-cpp", str(tmp_path), "--text", str(text)]
    result = CliRunner().invoke(main, ["quality", str(model), *options])
    assert result.exit_code == 2 and "llama-imatrix is missing; build llama.cpp" in result.stderr
    result = CliRunner().invoke(main, ["quality", str(tmp_path / "none.gguf"), *options])
    assert result.exit_code == 2 and "none.gguf is not a file." in result.stderr
    result = CliRunner().invoke(main, ["quality", str(model), *options, "--text", str(text)])
    assert result.exit_code == 2 and "two texts are named t, as their rows" in result.stderr
