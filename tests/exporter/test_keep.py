"""--quant keep: a checkpoint's integers and scales are in the `.pte` as they were stored."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray
from support.exported import Quiet
from support.gguf_files import metadata_of, stored_tensors, write_gguf
from support.loading import loaded
from support.op_list import OpList, read_calls
from support.tiers import checked, checked_rows
from torch import Tensor, nn

from delegates import DelegateError, get_delegate
from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from exporter.explain import explain_export
from exporter.file.pte import read_report
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec
from exporter.options import ExportOptions
from exporter.pipeline import ExportResult, export_model
from exporter.plan.file_size import size_note
from exporter.plan.planning import read_plan
from quant.errors import QuantError
from quant.scheme import Scheme

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
NAMES = {"rope.dimension_count": "head_dim"}
BITS = {Type.Q8_0: 8, Type.Q4_0: 4}


def random_tensors(tied: bool) -> dict[str, Tensor]:
    with torch.device("meta"):
        model = CausalLM(decoder_spec({**CONFIG, "tie_word_embeddings": tied}))
    generator = torch.Generator().manual_seed(0)
    tensors = {
        name: torch.randn(parameter.shape, generator=generator) * 0.2
        for name, parameter in model.named_parameters()
    }
    tensors["model.embed_tokens.weight"][7] = 0  # groups of zeros, whose scale is 0
    return tensors


def write(
    path: Path, tensors: Mapping[str, Tensor], type: Type, others: Mapping[str, Type] | None = None
) -> Path:
    """A GGUF file of one type, but for `others`, by their names in the file."""
    stored = stored_tensors("llama", CONFIG, tensors, type, pairs_rotate=True)
    for key, other in (others or {}).items():
        plain = stored_tensors("llama", CONFIG, tensors, Type.F32, pairs_rotate=True)[key][0]
        stored[key] = gguf.quantize(plain, other), other
    metadata = {
        **metadata_of("llama", CONFIG, NAMES),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    return write_gguf(path, metadata, stored)


def integers(weight: Tensor, type: Type) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """What a file of that type stores of a weight: values (rows, columns), scales (rows, groups),
    block by block as ggml's documentation has them."""
    blocks = gguf.quantize(weight.numpy(), type)
    blocks = blocks.reshape(len(weight), -1, gguf.GGML_QUANT_SIZES[type][1])
    scales = blocks[..., :2].copy().view(np.float16)[..., 0].astype(np.float32)
    stored = blocks[..., 2:]
    if type is Type.Q4_0:
        stored = np.concatenate([stored & 15, stored >> 4], axis=-1) - np.uint8(8)
    return stored.view(np.int8).reshape(len(weight), -1), scales


def options(model: Path, out: Path, shared_data: Path, **changes: Any) -> ExportOptions:
    fields: dict[str, Any] = {
        "model": str(model),
        "out": out,
        "tokenizer": shared_data / "stories260K" / "tokenizer.model",
        "scheme": Scheme("keep"),
        "delegate": "cpu",
        **changes,
    }
    return ExportOptions(**fields)


def export(model: Path, shared_data: Path, directory: Path) -> tuple[ExportResult, OpList, Quiet]:
    listener = Quiet()
    result = export_model(options(model, directory / "model.pte", shared_data), listener)
    (call,) = read_calls(result.out, directory)
    return result, call, listener


def packed(call: OpList, name: str) -> tuple[str, NDArray, NDArray]:
    """The format of a packed weight, its integers and the scale of each of them."""
    keys = [item["key"] for item in call.program["weights"]]
    place = keys.index(f"cpu/{name}")
    weight = call.weights[place]
    return call.program["weights"][place]["format"], weight.values, weight.scales


def assert_stored(call: OpList, name: str, weights: list[Tensor], type: Type) -> None:
    """Weights, one below the other, are in the file as a GGUF file of that type has them."""
    found = [integers(weight, type) for weight in weights]
    _, values, scales = packed(call, name)
    assert np.array_equal(values, np.concatenate([part[0] for part in found]))
    wanted = np.concatenate([part[1] for part in found]).astype(np.float64).repeat(32, axis=1)
    assert np.array_equal(np.broadcast_to(scales, values.shape), wanted)


@pytest.mark.parametrize(
    ("type", "tied"),
    [
        (Type.Q8_0, False),
        (Type.Q4_0, True),
        *checked_rows([(Type.Q8_0, True), (Type.Q4_0, False)]),
    ],
    ids=["Q8_0", "Q4_0-tied", "Q8_0-tied", "Q4_0"],
)
def test_the_integers_of_a_gguf_file_are_kept(
    tmp_path: Path, shared_data: Path, type: Type, tied: bool
) -> None:
    tensors = random_tensors(tied)
    path = write(tmp_path / "model.gguf", tensors, type)
    result, call, listener = export(path, shared_data, tmp_path)
    layer = "model.layers.1"
    of = [tensors[f"{layer}.self_attn.{name}_proj.weight"] for name in "qkv"]
    assert_stored(call, f"{layer}.self_attn.qkv_proj", of, type)
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        assert_stored(call, f"{layer}.{name}", [tensors[f"{layer}.{name}.weight"]], type)
    assert_stored(call, "model.embed_tokens", [tensors["model.embed_tokens.weight"]], type)
    formats = {item["format"] for item in call.program["weights"]}
    assert formats == {"int8_groups" if type is Type.Q8_0 else "int4"}
    assert len(call.program["weights"]) == 2 * 4 + (1 if tied else 2)
    count = 15 if tied else 16
    assert listener.notes == [f"Kept as they are: {count} matrices ({count} of {type.name})."]
    assert listener.stages == ["quantize", "capture", "lower", "write", "check"]

    facts = read_report(result.out)["quantization"]
    assert facts["scheme"] == "keep" and facts["calibration_tokens"] == 0
    assert facts["compared_with"] == "the weights dequantized"
    # A scale of 16 bits for 32 weights, padded to whole lines.
    assert BITS[type] + 0.5 < facts["linear_bits_per_weight"] < BITS[type] + 1.1
    assert result.agreement is not None and result.agreement.error <= result.agreement.tolerance
    assert result.quantization.quality is not None
    assert result.quantization.quality.kl < 1e-3  # of the activations alone


class RoundedLinear(nn.Module):
    """A float linear whose inputs are rounded to int8 in groups of 32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        groups = x.unflatten(-1, (-1, 32))
        scale = groups.abs().amax(dim=-1, keepdim=True) / 127
        rounded = (groups / scale).nan_to_num().round() * scale
        result: Tensor = self.linear(rounded.flatten(-2))
        return result


@torch.no_grad()
@pytest.mark.parametrize("type", [Type.Q4_0, *checked([Type.Q8_0])], ids=lambda type: type.name)
def test_the_file_computes_with_the_dequantized_weights(
    tmp_path: Path, shared_data: Path, type: Type
) -> None:
    path = write(tmp_path / "model.gguf", random_tensors(tied=False), type)
    result, _, _ = export(path, shared_data, tmp_path)
    model = loaded(open_checkpoint(path))
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, RoundedLinear(child))
    tokens = torch.randint(0, 512, (1, 30), generator=torch.Generator().manual_seed(1))
    hidden = model.embed(tokens)
    for layer in model.model.layers:
        hidden = layer(hidden, model.context(30))
    wanted = model.lm_head(model.model.norm(hidden))[:, -1]
    step = get_delegate("cpu").load(result.out)
    assert step is not None
    logits = step(tokens, torch.tensor([0]))
    # Sums in another order and the float16 cache move activations to the next of their 255 values
    # now and then, each by 1/127 of the largest of its group: of six of them in a row of logits.
    assert (logits - wanted).abs().max() < 6 / 127 * wanted.std()


@pytest.mark.check
def test_what_does_not_fit_is_rounded_to_8_bits_and_named(
    tmp_path: Path, shared_data: Path
) -> None:
    tensors = random_tensors(tied=False)
    others = {
        "token_embd.weight": Type.F16,
        "blk.0.attn_v.weight": Type.Q8_0,
        "blk.1.ffn_down.weight": Type.Q4_1,
    }
    path = write(tmp_path / "model.gguf", tensors, Type.Q4_0, others)
    _, call, listener = export(path, shared_data, tmp_path)
    assert listener.notes == [
        "Kept as they are: 14 matrices (13 of Q4_0, 1 of Q8_0). Rounded to 8 bits: 2 matrices "
        "(model.layers.1.mlp.down_proj.weight (Q4_1), model.embed_tokens.weight (F16))."
    ]
    # Of a part in two types every integer is kept: 4 bits are a special case of 8.
    format, values, scales = packed(call, "model.layers.0.self_attn.qkv_proj")
    assert format == "int8_groups"
    kinds = {"q": Type.Q4_0, "k": Type.Q4_0, "v": Type.Q8_0}
    parts = [
        integers(tensors[f"model.layers.0.self_attn.{name}_proj.weight"], kind)
        for name, kind in kinds.items()
    ]
    assert np.array_equal(values, np.concatenate([part[0] for part in parts]))
    wanted = np.concatenate([part[1] for part in parts]).repeat(32, axis=1)
    assert np.array_equal(scales, wanted)
    assert packed(call, "model.layers.1.self_attn.qkv_proj")[0] == "int4"
    for name in ("model.layers.1.mlp.down_proj", "model.embed_tokens"):
        format, values, scales = packed(call, name)
        stored = open_checkpoint(path).tensor(f"{name}.weight").float().numpy()
        assert format == "int8_groups"
        assert (np.abs(values * scales - stored) <= 0.51 * scales + 1e-12).all()


def refusal(kind: type[Exception], given: ExportOptions) -> str:
    with pytest.raises(kind) as refused:
        export_model(given, Quiet())
    assert not given.out.exists()
    return str(refused.value)


def test_floats_cannot_be_kept(tmp_path: Path, shared_data: Path) -> None:
    path = write(tmp_path / "model.gguf", random_tensors(tied=True), Type.F16)
    said = refusal(ExportError, options(path, tmp_path / "model.pte", shared_data))
    assert said == (
        "model has no integers that --quant keep can store: its weights are F16. Take a GGUF file "
        "of Q8_0 or Q4_0, a GPTQ, AWQ or compressed-tensors checkpoint, or another --quant, such "
        "as gptq4 or rtn8."
    )
    stories = shared_data / "stories260K"
    said = refusal(ExportError, options(stories, tmp_path / "model.pte", shared_data))
    assert said.startswith("stories260K has no integers that --quant keep can store: its weights ")
    with pytest.raises(ExportError, match="has no integers that --quant keep can store"):
        explain_export(options(stories, tmp_path / "model.pte", shared_data), Quiet())


def test_other_options_must_leave_the_integers_alone(tmp_path: Path, shared_data: Path) -> None:
    path = write(tmp_path / "model.gguf", random_tensors(tied=True), Type.Q8_0)
    out = tmp_path / "model.pte"
    for changes, sentence in (
        ({"adapter": "somewhere"}, "but --adapter changes the weights; use another --quant"),
        ({"bits": 5.0}, "but --bits and --max-size choose others; leave them out"),
        ({"max_size": 10**9}, "but --bits and --max-size choose others; leave them out"),
    ):
        said = refusal(ExportError, options(path, out, shared_data, **changes))
        assert (
            said.startswith("--quant keep keeps the checkpoint's integers, ") and sentence in said
        )
    for delegate in ("xnnpack", "vulkan", "xnnpack,vulkan"):
        said = refusal(DelegateError, options(path, out, shared_data, delegate=delegate))
        assert "float16 scale for each group" in said and said.split()[0] in delegate
    for wrong in ({"group_size": 64}, {"head_bits": 4}):
        with pytest.raises(QuantError, match="have no effect with scheme 'keep'"):
            Scheme("keep", **wrong)


def test_a_scale_that_is_no_number_is_refused(tmp_path: Path, shared_data: Path) -> None:
    tensors = random_tensors(tied=True)
    path = write(tmp_path / "model.gguf", tensors, Type.Q8_0)
    stored = stored_tensors("llama", CONFIG, tensors, Type.Q8_0, pairs_rotate=True)
    row = stored["blk.1.ffn_up.weight"][0][3].tobytes()
    data = path.read_bytes()
    assert data.count(row) == 1
    path.write_bytes(data.replace(row, np.float16(np.inf).tobytes() + row[2:]))
    said = refusal(QuantError, options(path, tmp_path / "model.pte", shared_data))
    assert re.match(r"model\.layers\.1\.mlp\.up_proj.* holds values that are not finite", said)


@pytest.mark.check
def test_explain_keeps_too(tmp_path: Path, shared_data: Path) -> None:
    path = write(tmp_path / "model.gguf", random_tensors(tied=True), Type.Q4_0)
    said = explain_export(options(path, tmp_path / "unused.pte", shared_data), Quiet())
    assert said.scheme == "keep" and said.delegation.linears_delegated == 15


@pytest.mark.parametrize(("type", "larger"), [(Type.Q8_0, True), (Type.Q4_0, False)])
def test_a_larger_file_than_another_scheme_makes_is_told(
    type: Type, larger: bool, tmp_path: Path, shared_data: Path
) -> None:
    path = write(tmp_path / "model.gguf", random_tensors(tied=True), type)
    given = options(path, tmp_path / "unused.pte", shared_data)
    plan = read_plan(given, Quiet(), with_text=False)
    sizes = replace(plan.limits.sizes, alignment=1)  # to pages, so small a model has one size
    note = size_note(replace(plan, limits=replace(plan.limits, sizes=sizes)))
    assert (note is not None) == larger
    if note is not None:
        assert note.startswith("Kept integers make a file of about ")
        assert "; --quant gptq4 makes one of about " in note
