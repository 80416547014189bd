"""llama.cpp's importance matrix: both formats, the names in it, and what it weighs."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from support.gguf_files import write_gguf
from support.hostile_bytes import any_bytes, hostile, read_or_refused
from support.imatrix_files import Squares, write_imatrix, write_old_imatrix
from torch import Tensor, nn

from exporter.catalogue.find import open_model
from exporter.catalogue.imatrix_file import read_imatrix
from exporter.checkpoint import Checkpoint
from exporter.checkpoint.imatrix import read_importance
from exporter.commands.cli import main
from exporter.errors import ExportError
from exporter.file.pte import read_report
from exporter.models.families import get_family
from exporter.plan.plan import empty_model
from quant.cache.key import layer_keys
from quant.importance import Importance
from quant.layers.blocks import parts_of_layer
from quant.layers.walk import load_finite, through_layers, walk
from quant.modules import QuantizedLinear, QuantizedWeight
from quant.quantize import quantize
from quant.scheme import Scheme, weighed

FIELDS: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "head_dim": 16,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "num_local_experts": 3,
    "num_experts": 3,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 96,
    "tie_word_embeddings": True,
}
MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
ATTENTION = {
    **{f"attn_{x}": f"self_attn.{x}_proj" for x in "qkv"},
    "attn_output": "self_attn.o_proj",
}
EXPERTS = {f"ffn_{x}_exps": f"mlp.experts.N.{x}_proj" for x in ("gate", "up", "down")}
QKV = tuple(f"self_attn.{x}_proj" for x in "qkv")
# What llama.cpp calls the matrices of a layer, and what reads the same inputs here.
NAMES: dict[str, dict[str, str | tuple[str, ...]]] = {
    "llama": {**ATTENTION, **MLP},
    "mistral": {**ATTENTION, **MLP},  # which llama.cpp calls llama
    "gemma3_text": {**ATTENTION, **MLP},
    "phi3": {
        "attn_qkv": QKV,
        "attn_output": "self_attn.o_proj",
        "ffn_up": ("mlp.gate_proj", "mlp.up_proj"),
        "ffn_down": "mlp.down_proj",
    },
    "mixtral": {**ATTENTION, **EXPERTS},
    "qwen3_moe": {**ATTENTION, **EXPERTS},
}


def small(model_type: str) -> Checkpoint:
    """A model without weights."""
    family = get_family(model_type)
    return Checkpoint(
        family.spec({**FIELDS, "model_type": model_type}), Path(), "tiny", None, family
    )  # type: ignore[arg-type]


def numbers(model_type: str) -> Squares:
    """Random sums by llama.cpp's names; of three experts, the second saw nothing."""
    generator = torch.Generator().manual_seed(0)
    made = {}
    for layer in range(2):
        for name in NAMES[model_type]:
            counts = [512, 0, 300] if name.endswith("_exps") else [1024]
            width = 96 if "down" in name else 64
            sums = torch.rand(len(counts), width, generator=generator) + 0.1
            made[f"blk.{layer}.{name}.weight"] = sums * torch.tensor(counts)[:, None], counts
    return made


@pytest.mark.parametrize("write", [write_imatrix, write_old_imatrix])
@pytest.mark.parametrize("model_type", NAMES)
def test_each_matrix_has_the_numbers_of_its_inputs(
    model_type: str, write: Any, tmp_path: Path
) -> None:
    checkpoint, squares = small(model_type), numbers(model_type)
    path = write(tmp_path / "imatrix.gguf", squares)
    importance, note = read_importance(path, checkpoint, empty_model(checkpoint.config))
    assert importance.facts["file"] == "imatrix.gguf" and importance.facts["chunks"] == 3
    expected = {}
    for name, (sums, counts) in squares.items():
        layer, own = re.fullmatch(r"blk\.(\d)\.(\w+)\.weight", name).groups()  # type: ignore[union-attr]
        linears = NAMES[model_type][own]
        for linear in (linears,) if isinstance(linears, str) else linears:
            for expert, (row, count) in enumerate(zip(sums, counts, strict=True)):
                if count:
                    place = linear.replace("N", str(expert))
                    expected[f"model.layers.{layer}.{place}"] = row / row.mean()
                elif write is write_old_imatrix:  # in which nobody can tell
                    expected[f"model.layers.{layer}.{linear.replace('N', '1')}"] = row * 0 + 1
    assert importance.columns.keys() == expected.keys()
    for name, row in expected.items():
        torch.testing.assert_close(importance.columns[name], row, rtol=1e-5, atol=0)
    unseen = write is write_imatrix and model_type in ("mixtral", "qwen3_moe")
    assert (note is not None) == unseen
    if note is not None:
        assert note.startswith(
            "imatrix.gguf does not tell of 6 of 26 matrices, in which all columns count alike: "
            "model.layers.0.mlp.experts.1.gate_proj, "
        )


def refusal(path: Path, checkpoint: Checkpoint) -> str:
    with pytest.raises(ExportError) as error:
        read_importance(path, checkpoint, empty_model(checkpoint.config))
    return str(error.value).replace(str(path), "FILE")


@pytest.mark.parametrize("write", [write_imatrix, write_old_imatrix])
def test_another_models_matrix_is_refused(write: Any, tmp_path: Path) -> None:
    llama, path = small("llama"), tmp_path / "other.gguf"
    write(path, {"blk.0.attn_q.weight": (torch.ones(1, 65), [4])})
    assert refusal(path, llama) == (
        "FILE has 65 numbers for blk.0.attn_q.weight, which is model.layers.0.self_attn.q_proj "
        "here, with 64 columns; name an importance matrix that was made of this model."
    )
    write(path, {"blk.0.attn_q.weight": (torch.ones(1, 128), [4])})  # no experts, and twice as many
    assert refusal(path, llama).startswith("FILE has 128 numbers for blk.0.attn_q.weight, ")
    write(path, {"blk.7.attn_q.weight": (torch.ones(1, 64), [4])})
    assert refusal(path, llama) == (
        "FILE tells of no matrix of tiny; name an importance matrix that was made of this model."
    )


def test_what_is_no_importance_matrix_is_refused(tmp_path: Path) -> None:
    llama, path, name = small("llama"), tmp_path / "file", "blk.0.attn_q.weight"
    write_gguf(path, {"general.type": "model"}, {})
    assert "is a GGUF file of type 'model', no importance matrix" in refusal(path, llama)
    path.write_bytes(b"a text, of any length that is longer than a few bytes")
    assert refusal(path, llama) == (
        "FILE is no importance matrix: it begins with b'a te'; name the file that llama-imatrix "
        "wrote."
    )
    path.unlink()
    assert refusal(path, llama).startswith("FILE cannot be opened (No such file or directory)")
    for bad in (-1.0, float("nan"), float("inf")):
        for write in (write_imatrix, write_old_imatrix):
            write(path, {name: (torch.full((1, 64), bad), [4])})
            assert refusal(path, llama) == (
                "FILE is a damaged importance matrix (blk.0.attn_q.weight has numbers that are not "
                "sums of squares); make it again."
            )
    whole = write_old_imatrix(path, {name: (torch.ones(1, 64), [4])}).read_bytes()
    trailing = len(whole) - len(b"text.txt") - 8
    for length in range(12, len(whole)):
        path.write_bytes(whole[:length])
        if length in (trailing, trailing + 4):  # older tools end here
            assert read_imatrix(path).chunks == (3 if length > trailing else None)
        else:
            assert refusal(path, llama).endswith(
                "is a damaged importance matrix (it is cut short); make it again."
            )


@pytest.mark.parametrize("write", [write_imatrix, write_old_imatrix])
def test_any_bytes(write: Any, tmp_path: Path) -> None:
    squares = {"blk.0.ffn_up_exps.weight": (torch.ones(2, 3), [1, 0])}
    path = write(tmp_path / "file", squares)

    @hostile
    @given(any_bytes(path.read_bytes()))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        read_or_refused(lambda: read_imatrix(path), ExportError)

    check()


def measured(checkpoint: Checkpoint, tokens: Tensor) -> Squares:
    """What llama-imatrix sums up, of a model of Llama's kind."""
    model = empty_model(checkpoint.config)
    load_finite(checkpoint, model, "")
    sums: dict[str, Tensor] = {}

    def hook(name: str) -> Any:
        def add(module: nn.Module, inputs: tuple[Tensor]) -> None:
            sums[name] = inputs[0].flatten(0, -2).square().sum(dim=0, keepdim=True)

        return add

    own = {str(there): here for here, there in NAMES["llama"].items()}
    for stop in walk(model):
        for part in parts_of_layer(stop.layer):
            for linear in part.linears:
                module = stop.layer.get_submodule(linear)
                name = f"blk.{stop.index}.{own[linear]}.weight"
                module.register_forward_pre_hook(hook(name))
    with torch.no_grad():
        through_layers(model, model.embed(tokens), model.context(tokens.shape[1]))
    return {name: (sum_, [tokens.numel()]) for name, sum_ in sums.items()}


@pytest.fixture(scope="module")
def stories(shared_data: Path) -> Checkpoint:
    return open_model(str(shared_data / "stories260K"))


@pytest.fixture(scope="module")
def imatrix(
    stories: Checkpoint, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    text = (shared_data / "stories260K" / "golden.txt").read_text()
    tokens = torch.tensor([[1, *(ord(c) % 509 + 3 for c in text)]])
    return write_imatrix(tmp_path_factory.mktemp("imatrix") / "a.gguf", measured(stories, tokens))


def floats(weight: QuantizedWeight) -> Tensor:
    groups = weight.values.unflatten(1, (weight.scales.shape[1], -1))
    return (groups * weight.scales[..., None]).flatten(1)


def rounded(stories: Checkpoint, importance: Importance | None) -> dict[str, Tensor]:
    """The weights that `rtn4` makes with searched scales, by their linears."""
    model = empty_model(stories.config.for_context(128))
    quantize(model, weighed(Scheme("rtn4")), stories, importance=importance)
    return {
        f"{stop.name}.{name}": floats(module.quantized_weight)
        for stop in walk(model)
        for name, module in stop.layer.named_modules()
        if isinstance(module, QuantizedLinear)
    }


def test_scales_have_the_least_error_of_outputs(stories: Checkpoint, imatrix: Path) -> None:
    importance, note = read_importance(imatrix, stories, empty_model(stories.config))
    assert note is None
    alike, better = rounded(stories, None), rounded(stories, importance)
    assert importance.columns.keys() == alike.keys()
    gains = []
    for name, cost in importance.columns.items():
        float_weight = stories.tensor(f"{name}.weight").float()
        errors = [
            ((one[name][:, : len(cost)] - float_weight).square() * cost).sum()
            for one in (alike, better)
        ]
        gains.append(float(errors[1] / errors[0]))
    assert max(gains) < 1.001 and sum(gains) / len(gains) < 0.97
    few = replace(
        importance, columns={"model.layers.0.mlp.up_proj": next(iter(importance.columns.values()))}
    )
    some = rounded(stories, few)
    changed = {name for name, weight in some.items() if not torch.equal(weight, alike[name])}
    assert changed == {"model.layers.0.mlp.up_proj"}


def test_cached_layers_are_those_of_the_same_importance(stories: Checkpoint, imatrix: Path) -> None:
    model = empty_model(stories.config)
    own, _ = read_importance(imatrix, stories, model)
    again = replace(own, facts={})
    name = "model.layers.4.mlp.down_proj"
    other = replace(own, columns={**own.columns, name: own.columns[name].flip(0)})
    scheme = weighed(Scheme("rtn4"))
    keys = [
        layer_keys(model, scheme, stories, None, importance=importance)[0]
        for importance in (None, own, again, other)
    ]
    assert keys[1] == keys[2]
    assert len({key for own_keys in keys for key in own_keys}) == 3 * 5


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["gptq4"],
            "--imatrix has no effect with gptq4, which measures the inputs itself, by its "
            "calibration text; leave it out, or take rtn4.",
        ),
        (
            ["rtn8"],
            "--imatrix has no effect with rtn8, which loses too little to search scales; leave it "
            "out, or take rtn4.",
        ),
        (["none"], "--imatrix has no effect with none, which keeps floats; leave it out, or take"),
        (["keep"], "--imatrix has no effect with keep, which keeps the integers of the checkpoint"),
        (["hqq4"], "--imatrix has no effect with hqq4, which chooses its scales without any text;"),
        (["awq4"], "--imatrix has no effect with awq4, which measures the inputs itself, by its"),
        (
            ["rtn4", "--method", "rotation=hadamard"],
            "--imatrix tells of inputs as they are, but rotation=hadamard mixes them; leave one of "
            "the two out.",
        ),
        (
            ["rtn4", "--method", "scales=closed"],
            "--imatrix weighs the search of scales, but scales=closed searches none; leave one of "
            "the two out.",
        ),
    ],
)
@pytest.mark.parametrize("explains", [False, True])
def test_schemes_without_use_for_it_refuse_it(
    options: list[str], sentence: str, explains: bool, tmp_path: Path
) -> None:
    end = ["--explain"] if explains else ["--out", tmp_path / "model.pte"]
    result = run("llama3", "--imatrix", tmp_path / "none.gguf", "--quant", *options, *end)
    assert result.exit_code == 2 and result.stderr.startswith(f"Error: {sentence}")
    assert result.stderr.count("\n") == 1 and not list(tmp_path.iterdir())


@pytest.mark.check
def test_a_file_says_what_weighed_its_scales(
    one_layer_checkpoint: Path, imatrix: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model.pte"
    options = (one_layer_checkpoint, "--quant", "rtn4", "--no-cache")
    assert run(*options, "--imatrix", imatrix, "--out", out).exit_code == 0
    quantization = read_report(out)["quantization"]
    assert quantization["imatrix"] == {"file": "a.gguf", "chunks": 3, "matrices": 7}
    assert quantization["method"]["scales"] == "searched"
    described = tmp_path / "explained.json"
    options = (one_layer_checkpoint, "--quant", "rtn4", "--imatrix", imatrix)
    result = run(*options, "--explain-json", described)
    assert result.exit_code == 0, result.stderr
    assert json.loads(described.read_text())["imatrix"] == quantization["imatrix"]
    assert (
        "scales are searched by a.gguf, made of 3 chunks of text:\n  it tells of 7 matrices\n"
        in result.stdout
    )
