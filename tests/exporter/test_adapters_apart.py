"""LoRA adapters kept apart: read, stored in float16, and computed beside the linears."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.adapters import save_adapter, write_adapter
from support.loading import loaded

from delegates import DelegateError, get_delegate
from delegates.features import Feature, Need
from exporter.capture.program import capture
from exporter.catalogue.adapters import split_adapters
from exporter.checkpoint import (
    Checkpoint,
    open_checkpoint,
    read_adapters,
    with_adapter,
)
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec
from exporter.models.low_rank import AdaptedLinear, LowRankAdapter, active_adapter, attach
from exporter.options import ExportOptions
from exporter.plan.requirements import check_adapters
from quant.scheme import Scheme, scheme_from_text

LLAMA = {
    "model_type": "llama",
    "vocab_size": 96,
    "hidden_size": 40,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 64,
    "attention_bias": True,
}
PHI3 = {**LLAMA, "model_type": "phi3", "attention_bias": False, "partial_rotary_factor": 0.5}
QWEN3_MOE = {
    **LLAMA,
    "model_type": "qwen3_moe",
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "norm_topk_prob": True,
}
EXPERT = {"gate_proj": (24, 40), "up_proj": (24, 40), "down_proj": (40, 24)}
TOKENS = torch.randint(0, 96, (1, 9), generator=torch.Generator().manual_seed(0))
HALF = 2.0**-11  # the rounding error of float16


def save_model(directory: Path, config: dict[str, Any], shapes: dict[str, Any]) -> Checkpoint:
    generator = torch.Generator().manual_seed(5)
    tensors = {name: 0.2 * torch.randn(s, generator=generator) for name, s in shapes.items()}
    directory.mkdir()
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(config))
    return open_checkpoint(directory)


@pytest.fixture
def llama(tmp_path: Path) -> Checkpoint:
    with torch.device("meta"):
        model = CausalLM(decoder_spec(LLAMA))
    return save_model(
        tmp_path / "llama", LLAMA, {name: p.shape for name, p in model.named_parameters()}
    )


def adapted(checkpoint: Checkpoint, *adapters: LowRankAdapter) -> CausalLM:
    model = loaded(checkpoint)
    attach(model, adapters)
    return model


@torch.no_grad()
def assert_merged(checkpoint: Checkpoint, adapter: Path, model: CausalLM, name: str) -> None:
    """That the model computes with the adapter `name` what merged weights compute."""
    base = loaded(checkpoint).logits(TOKENS)
    want = loaded(with_adapter(checkpoint, adapter)).logits(TOKENS)
    with active_adapter(name):
        have = model.logits(TOKENS)
    # Both matrices are rounded; what they change, the layers pass on at about its size.
    assert (have - want).abs().max() < 8 * HALF * (want - base).abs().max()
    assert (want - base).abs().max() > 0.05


def test_each_of_several(llama: Checkpoint, tmp_path: Path) -> None:
    paths = {
        "a": save_adapter(tmp_path / "a", llama.config, 1),
        "b.2": save_adapter(
            tmp_path / "b", llama.config, 2, 3, ["q_proj", "down_proj"], use_rslora=True
        ),
    }
    adapters = read_adapters(llama, [(name, str(path)) for name, path in paths.items()])
    model = adapted(llama, *adapters)
    assert [adapter.ranks for adapter in adapters] == [[4], [3]]
    assert [len(adapter.pairs) for adapter in adapters] == [14, 4]
    with torch.no_grad():
        assert torch.equal(model.logits(TOKENS), loaded(llama).logits(TOKENS))
    for name, path in paths.items():
        assert_merged(llama, path, model, name)
    k_proj = model.get_submodule("model.layers.1.self_attn.k_proj")
    assert isinstance(k_proj, AdaptedLinear) and k_proj.adapters == ["a"]


def test_patterns_of_which_several_give_an_alpha(llama: Checkpoint, tmp_path: Path) -> None:
    adapter = save_adapter(
        tmp_path / "a", llama.config, 1, alpha_pattern={"q_proj": 3, "self_attn.q_proj": 3}
    )
    assert read_adapters(llama, [("a", str(adapter))])[0].notes == ()
    path = adapter / "adapter_config.json"
    patterns = {"q_proj": 3, ".*[0-1].*.q_proj": 5}
    path.write_text(json.dumps({**json.loads(path.read_text()), "alpha_pattern": patterns}))
    (note,) = read_adapters(llama, [("a", str(adapter))])[0].notes
    assert "match model.layers.0.self_attn.q_proj. The first counts" in note


def test_matrices_that_a_family_fuses(tmp_path: Path) -> None:
    spec = decoder_spec(PHI3)
    with torch.device("meta"):
        names = {name: tuple(p.shape) for name, p in CausalLM(spec).named_parameters()}
    shapes = {}
    for name, shape in names.items():
        for part, fused in (("q_proj", "qkv_proj"), ("gate_proj", "gate_up_proj")):
            if part in name:
                rows = 2 * 56 if fused == "gate_up_proj" else 8 * 12
                shapes[name.replace(part, fused)] = (rows, 40)
        if not any(part in name for part in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")):
            shapes[name] = shape
    phi3 = save_model(tmp_path / "phi3", PHI3, shapes)
    linears = {name.removesuffix(".weight"): s for name, s in shapes.items() if "_proj" in name}
    adapter = write_adapter(tmp_path / "a", linears, 1)
    (read,) = read_adapters(phi3, [("a", str(adapter))])
    assert len(read.pairs) == 14
    assert_merged(phi3, adapter, adapted(phi3, read), "a")


def test_numbers_of_bfloat16_stay(llama: Checkpoint, tmp_path: Path) -> None:
    """Even those whose magnitudes float16 does not have."""
    path = save_adapter(tmp_path / "a", llama.config, 1, dtype=torch.bfloat16)
    file = path / "adapter_model.safetensors"
    tensors = load_file(file)
    for name, tensor in tensors.items():
        tensor[tensor.abs() < tensor.abs().max() * 2.0**-14] = 0
        tensor *= 2.0**-30 if "lora_B" in name else 2.0**20
    save_file(tensors, file)
    (adapter,) = read_adapters(llama, [("a", str(path))])
    for module, pair in adapter.pairs.items():
        start = f"base_model.model.{module}"
        a, b = (tensors[f"{start}.lora_{matrix}.weight"].double() for matrix in "AB")
        assert pair.a.dtype == pair.b.dtype == torch.float16
        assert pair.a.abs().max() < 1 and pair.b.abs().max() < 1
        product = pair.scale * (pair.b.double().T @ pair.a.double())
        assert torch.equal(product, 3 * (b @ a))


def test_the_captured_program_runs_beside_the_model(llama: Checkpoint, tmp_path: Path) -> None:
    path = save_adapter(tmp_path / "a", llama.config, 1)
    model = adapted(llama, *read_adapters(llama, [("a", str(path))]))
    program = capture(model, 32, 16)
    products = [n for n in program.graph.nodes if str(n.target) == "thimble.low_rank.default"]
    assert len(products) == 14
    for node in products:  # of the line that calls the linear
        assert 'exporter/models/low_rank.py", line' not in node.meta["stack_trace"]
    position = torch.zeros(1, dtype=torch.long)
    with torch.no_grad():
        base = model.logits(TOKENS)[:, -1]
        assert torch.allclose(program.module()(TOKENS, position), base, atol=1e-5)
        with active_adapter("a"):
            want = model.logits(TOKENS)[:, -1]
            have = program.module()(TOKENS, position)
    assert torch.allclose(have, want, atol=1e-5) and not torch.allclose(base, want, atol=0.1)


def refusal(checkpoint: Checkpoint, *named: tuple[str, str | Path]) -> str:
    with pytest.raises(ExportError) as raised:
        read_adapters(checkpoint, [(name, str(source)) for name, source in named])
    return str(raised.value)


def extended(adapter: Path, tensors: dict[str, torch.Tensor]) -> Path:
    file = adapter / "adapter_model.safetensors"
    save_file(load_file(file) | tensors, file)
    return adapter


@pytest.mark.parametrize(
    ("names", "shape", "fields", "sentence"),
    [
        (
            [f"model.layers.{i}.self_attn.q_proj.lora_magnitude_vector" for i in (0, 1)],
            (48,),
            {"use_dora": True},
            "The adapter a changes model.layers.0.self_attn.q_proj.weight by more than a low-rank "
            "product of its own, which cannot be kept apart: merge it with --adapter {path}. (It "
            "is DoRA, a complete weight, or of a form that llama does not store.)",
        ),
        (
            ["model.layers.1.mlp.up_proj.weight"],
            (56, 40),
            {"modules_to_save": ["up_proj"]},
            "The adapter a changes model.layers.1.mlp.up_proj.weight by more than",
        ),
        (
            ["model.embed_tokens.modules_to_save.default.weight"],
            (96, 40),
            {"modules_to_save": ["embed_tokens"]},
            "The adapter a changes model.embed_tokens.weight, but only the weights of linears in "
            "decoder layers can be kept apart: merge it with --adapter {path}.",
        ),
        (["lm_head.weight"], (96, 40), {}, "The adapter a changes lm_head.weight, but only"),
        (
            ["model.norm.weight"],
            (40,),
            {"modules_to_save": ["norm"]},
            "The adapter a changes model.norm.weight, but only",
        ),
        (
            ["model.layers.0.self_attn.q_proj.base_layer.bias"],
            (48,),
            {"bias": "all"},
            "The adapter a changes model.layers.0.self_attn.q_proj.bias, but only",
        ),
    ],
)
def test_what_cannot_be_kept_apart(
    llama: Checkpoint,
    tmp_path: Path,
    names: list[str],
    shape: tuple[int, ...],
    fields: dict[str, Any],
    sentence: str,
) -> None:
    path = save_adapter(tmp_path / "a", llama.config, 1, linears=["q_proj"], **fields)
    extended(path, {f"base_model.model.{name}": torch.ones(shape) for name in names})
    assert refusal(llama, ("a", path)).startswith(sentence.format(path=path))


def test_adapters_of_experts_can_only_be_merged(tmp_path: Path) -> None:
    spec = decoder_spec(QWEN3_MOE)
    with torch.device("meta"):
        parameters = dict(CausalLM(spec).named_parameters())
    shapes = {name.replace("router", "gate"): p.shape for name, p in parameters.items()}
    moe = save_model(tmp_path / "moe", QWEN3_MOE, shapes)
    experts = {f"model.layers.1.mlp.experts.3.{part}": size for part, size in EXPERT.items()}
    path = write_adapter(tmp_path / "a", experts, 1)
    name = "model.layers.1.mlp.experts.3.gate_proj.weight"
    assert refusal(moe, ("a", path)) == (
        f"The adapter a changes {name}, a weight of an expert, which cannot be kept apart: merge "
        f"it with --adapter {path}."
    )
    merged, file = with_adapter(moe, path), load_file(path / "adapter_model.safetensors")
    start = f"base_model.model.{name.removesuffix('.weight')}"
    b, a = (file[f"{start}.lora_{matrix}.weight"] for matrix in "BA")
    torch.testing.assert_close(merged.tensor(name), moe.tensor(name) + 3 * b @ a)
    router, o_proj = "model.layers.0.mlp.gate", "model.layers.0.self_attn.o_proj"
    other = write_adapter(tmp_path / "b", {router: (6, 40), o_proj: (40, 48)}, 2)
    (read,) = read_adapters(moe, [("b", str(other))])
    assert read.pairs.keys() == {o_proj, "model.layers.0.mlp.router"}
    assert_merged(moe, other, adapted(moe, read), "b")


def test_numbers_that_are_not_finite(llama: Checkpoint, tmp_path: Path) -> None:
    path = save_adapter(tmp_path / "a", llama.config, 1)
    name = "model.layers.0.self_attn.o_proj"
    extended(path, {f"base_model.model.{name}.lora_B.weight": torch.full((40, 4), torch.inf)})
    said = f"{path}/adapter_model.safetensors has numbers in base_model.model.{name}.lora_B.weight"
    assert refusal(llama, ("a", path)) == f"{said} that are not finite; save it again."
    with pytest.raises(ExportError, match=re.escape(said)):
        with_adapter(llama, path)


def test_a_repeated_name(llama: Checkpoint, tmp_path: Path) -> None:
    path = save_adapter(tmp_path / "a", llama.config, 1)
    assert refusal(llama, ("a", path), ("a", path)) == (
        "--adapter a= is repeated; give each adapter its own name."
    )


def test_which_are_merged(tmp_path: Path) -> None:
    assert split_adapters([]) == (None, ())
    assert split_adapters(["a=x", "dir", "b-2=org/y=z"]) == (
        "dir",
        (("a", "x"), ("b-2", "org/y=z")),
    )
    assert split_adapters(["./a=x"]) == ("./a=x", ())
    with pytest.raises(ExportError, match="--adapter x and --adapter y cannot both be merged;"):
        split_adapters(["x", "y"])
    with pytest.raises(ExportError, match=r"^--adapter a= names no directory; write a=DIR\.$"):
        split_adapters(["b=x", "a="])
    with pytest.raises(ExportError, match="cannot have the name 'fr é'; a name begins with a lett"):
        split_adapters([f"fr é={tmp_path}"])


def test_delegates_and_schemes_that_cannot() -> None:
    options = ExportOptions(
        model=None, out=Path("model.pte"), scheme=Scheme("rtn4"), adapters=(("a", "x"),)
    )
    check_adapters(options)
    for name in ("xnnpack", "coreml,cpu", "mps"):
        with pytest.raises(DelegateError, match=f"{name} does not keep adapters apart: export wit"):
            get_delegate(name).LIMITS.check([Need(Feature.ADAPTERS)])
    for scheme in (Scheme("awq4"), scheme_from_text("rtn4", "rotation=hadamard", 32, 8)):
        with pytest.raises(ExportError, match=r"^(awq|rotation=hadamard) changes the inputs of"):
            check_adapters(replace(options, scheme=scheme))
