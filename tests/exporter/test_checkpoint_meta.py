"""Meta's files: names, row order, parts and params.json, against independent implementations."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.loading import loaded
from torch import Tensor

from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from exporter.models.rotary_spec import Llama3Scaling

PARAMS: dict[str, Any] = {
    "dim": 64,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 2,
    "vocab_size": 96,
    "norm_eps": 1e-5,
}
INTERMEDIATE = 192


def write(directory: Path, params: dict[str, Any], *parts: dict[str, Tensor]) -> Path:
    (directory / "params.json").write_text(json.dumps(params))
    for number, part in enumerate(parts):
        torch.save(part, directory / f"consolidated.{number:02d}.pth")
    return directory


def random_tensors(head: bool = True) -> dict[str, Tensor]:
    """A checkpoint of PARAMS in Meta's names."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) * 0.2

    tensors = {"tok_embeddings.weight": draw(96, 64), "norm.weight": draw(64)}
    if head:
        tensors["output.weight"] = draw(96, 64)
    for layer in range(2):
        prefix = f"layers.{layer}."
        tensors[prefix + "attention_norm.weight"] = draw(64)
        tensors[prefix + "ffn_norm.weight"] = draw(64)
        for name, rows in (("wq", 64), ("wk", 32), ("wv", 32), ("wo", 64)):
            tensors[f"{prefix}attention.{name}.weight"] = draw(rows, 64)
        tensors[prefix + "feed_forward.w1.weight"] = draw(INTERMEDIATE, 64)
        tensors[prefix + "feed_forward.w2.weight"] = draw(64, INTERMEDIATE)
        tensors[prefix + "feed_forward.w3.weight"] = draw(INTERMEDIATE, 64)
    return tensors


def refusal(directory: Path) -> str:
    with pytest.raises(ExportError) as raised:
        open_checkpoint(directory)
    return str(raised.value)


def interleaved_attention(x: Tensor, tensors: dict[str, Tensor], prefix: str) -> Tensor:
    """Meta's attention in a few lines: pairs (x0, x1) as complex numbers, turned by position."""
    length = x.shape[0]
    freqs = 1.0 / 10000.0 ** (torch.arange(0, 16, 2) / 16)
    turns = torch.polar(torch.ones(length, 8), torch.outer(torch.arange(length), freqs))

    def project(name: str, heads: int) -> Tensor:
        return (x @ tensors[f"{prefix}attention.{name}.weight"].T).view(length, heads, 16)

    def turned(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.unflatten(-1, (8, 2)).contiguous())
        return torch.view_as_real(pairs * turns[:, None]).flatten(-2)

    q, k, v = turned(project("wq", 4)), turned(project("wk", 2)), project("wv", 2)
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / 4
    scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1)
    return out @ tensors[f"{prefix}attention.wo.weight"].T


def reference_logits(tokens: Tensor, tensors: dict[str, Tensor]) -> Tensor:
    """The whole decoder on Meta's tensors as they are stored."""

    def norm(x: Tensor, name: str) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * tensors[name]

    x = tensors["tok_embeddings.weight"][tokens]
    for layer in range(2):
        prefix = f"layers.{layer}."
        x = x + interleaved_attention(norm(x, prefix + "attention_norm.weight"), tensors, prefix)
        w1, w2, w3 = (tensors[f"{prefix}feed_forward.w{n}.weight"] for n in (1, 2, 3))
        h = norm(x, prefix + "ffn_norm.weight")
        x = x + (torch.nn.functional.silu(h @ w1.T) * (h @ w3.T)) @ w2.T
    head = tensors.get("output.weight", tensors["tok_embeddings.weight"])
    return norm(x, "norm.weight") @ head.T


TOKENS = torch.arange(20) * 7 % 96


@pytest.mark.parametrize("head", [True, False], ids=["untied", "tied"])
@torch.no_grad()
def test_logits_are_those_of_the_interleaved_model(tmp_path: Path, head: bool) -> None:
    tensors = random_tensors(head)
    checkpoint = open_checkpoint(write(tmp_path, PARAMS, {**tensors, "rope.freqs": torch.ones(8)}))
    assert checkpoint.config.tie_word_embeddings is not head
    assert checkpoint.config.layers[0].feed_forward.intermediate_size == INTERMEDIATE
    logits = loaded(checkpoint).logits(TOKENS[None])[0]
    torch.testing.assert_close(logits, reference_logits(TOKENS, tensors), rtol=0, atol=1e-4)


@pytest.mark.parametrize("embedding_dim", [0, 1], ids=["llama3", "llama2"])
@torch.no_grad()
def test_parts_are_put_together(tmp_path: Path, embedding_dim: int) -> None:
    """Two files of model parallelism: rows of most, columns of wo and w2, norms in both."""
    tensors = random_tensors()
    parts: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
    for name, tensor in tensors.items():
        dim = 1 if name.endswith(("wo.weight", "w2.weight")) else 0
        dim = embedding_dim if name == "tok_embeddings.weight" else dim
        pieces = (tensor, tensor) if tensor.dim() == 1 else tensor.chunk(2, dim)
        for part, piece in zip(parts, pieces, strict=True):
            part[name] = piece.clone()
    checkpoint = open_checkpoint(write(tmp_path, {**PARAMS, "vocab_size": -1}, *parts))
    assert checkpoint.config.vocab_size == 96
    logits = loaded(checkpoint).logits(TOKENS[None])[0]
    torch.testing.assert_close(logits, reference_logits(TOKENS, tensors), rtol=0, atol=1e-4)


@torch.no_grad()
def test_logits_are_those_of_transformers(tmp_path: Path) -> None:
    """A Hugging Face model written the way Meta would have: rows of q and k back in pairs."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=INTERMEDIATE,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=96,
        rms_norm_eps=1e-5,
    )
    torch.manual_seed(0)
    reference = transformers.LlamaForCausalLM(config).eval()
    stored: dict[str, Tensor] = {}
    words = {"self_attn.": "attention.", "mlp.": "feed_forward.", "embed_tokens": "tok_embeddings"}
    words |= {"q_proj": "wq", "k_proj": "wk", "v_proj": "wv", "o_proj": "wo"}
    words |= {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3", "lm_head": "output"}
    words |= {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm"}
    for name, tensor in reference.state_dict().items():
        tensor = tensor + 0.1 * torch.randn_like(tensor)
        reference.get_parameter(name).data = tensor
        if "q_proj" in name or "k_proj" in name:
            tensor = tensor.view(-1, 2, 8, 64).transpose(1, 2).reshape(tensor.shape)
        for word, replacement in words.items():
            name = name.replace(word, replacement)
        stored[name.removeprefix("model.")] = tensor
    model = loaded(open_checkpoint(write(tmp_path, PARAMS, stored)))
    expected = reference(TOKENS[None]).logits
    torch.testing.assert_close(model.logits(TOKENS[None]), expected, rtol=0, atol=1e-4)


@torch.no_grad()
def test_llama2c_weights_give_the_reference_logits(tmp_path: Path, shared_data: Path) -> None:
    """llama2.c keeps Meta's row order: its file, renamed, is one of Meta's checkpoints."""
    stories = shared_data / "stories260K"
    values = np.fromfile(stories / "llama2c.bin", dtype=np.float32)
    dim, inner, layers, heads, kv_heads, vocab, _ = values[:7].view(np.int32).tolist()
    rest = torch.from_numpy(values[7:])
    kv = dim // heads * kv_heads
    tensors: dict[str, Tensor] = {}

    def take(name: str, *shape: int) -> None:
        nonlocal rest
        count = int(np.prod(shape))
        tensors[name], rest = rest[:count].view(shape).clone(), rest[count:]

    take("tok_embeddings.weight", vocab, dim)
    for name, shape in (
        ("attention_norm", (dim,)),
        ("attention.wq", (dim, dim)),
        ("attention.wk", (kv, dim)),
        ("attention.wv", (kv, dim)),
        ("attention.wo", (dim, dim)),
        ("ffn_norm", (dim,)),
        ("feed_forward.w1", (inner, dim)),
        ("feed_forward.w2", (dim, inner)),
        ("feed_forward.w3", (inner, dim)),
    ):
        for layer in range(layers):
            take(f"layers.{layer}.{name}.weight", *shape)
    take("norm.weight", dim)
    params = {"dim": dim, "n_layers": layers, "n_heads": heads, "n_kv_heads": kv_heads}
    model = loaded(open_checkpoint(write(tmp_path, {**params, "vocab_size": -1}, tensors)))
    stored = np.load(stories / "logits.npz")
    logits = model.logits(torch.from_numpy(stored["ids"]).view(1, -1))[0]
    torch.testing.assert_close(logits, torch.from_numpy(stored["logits"]), rtol=0, atol=1e-4)


def test_release_keeps_every_value(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write(tmp_path, PARAMS, random_tensors()))
    view = checkpoint.tensor("model.layers.1.mlp.down_proj.weight")
    before = view.clone()
    checkpoint.release()
    assert torch.equal(view, before)
    assert view.data_ptr() == checkpoint.tensor("model.layers.1.mlp.down_proj.weight").data_ptr()


@pytest.mark.parametrize(
    ("params", "factor", "context"),
    [
        ({"use_scaled_rope": True}, 32.0, 131072),
        ({"use_scaled_rope": True, "rope_scaling_factor": 8.0}, 8.0, 131072),
        ({"use_scaled_rope": False}, None, 4096),
        ({"rope_theta": 1000000.0}, None, 16384),
        ({"max_seq_len": 2048}, None, 2048),
    ],
)
def test_what_params_json_leaves_unsaid(
    tmp_path: Path, params: dict[str, Any], factor: float | None, context: int
) -> None:
    config = open_checkpoint(write(tmp_path, {**PARAMS, **params}, random_tensors())).config
    (table,) = config.rotary_tables
    assert table.scaling == (factor and Llama3Scaling(factor, 1.0, 4.0, 8192))
    assert (config.context_limit, config.eos_token_ids) == (context, (2,))


def test_an_output_equal_to_the_embedding_is_tied(tmp_path: Path) -> None:
    tensors = random_tensors()
    tensors["output.weight"] = tensors["tok_embeddings.weight"].clone()
    model = loaded(open_checkpoint(write(tmp_path, PARAMS, tensors)))
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_a_missing_part_is_said(tmp_path: Path) -> None:
    write(tmp_path, PARAMS, *[random_tensors()] * 3)
    (tmp_path / "consolidated.01.pth").unlink()
    assert refusal(tmp_path) == (
        f"{tmp_path} holds the parts 00, 02 of a checkpoint; they must count from 00 without a "
        "gap: download the missing consolidated.*.pth."
    )


def test_no_params_json_is_said(tmp_path: Path) -> None:
    write(tmp_path, PARAMS, random_tensors())
    (tmp_path / "params.json").unlink()
    assert refusal(tmp_path) == (
        f"{tmp_path} holds consolidated.*.pth without params.json; download that as well."
    )


def test_a_params_json_without_a_field_is_said(tmp_path: Path) -> None:
    write(tmp_path, {k: v for k, v in PARAMS.items() if k != "n_heads"}, random_tensors())
    assert refusal(tmp_path).startswith(
        f"{tmp_path / 'params.json'}: num_attention_heads is missing"
    )


@pytest.mark.parametrize("name", ["dim", "n_layers", "n_heads", "vocab_size", "norm_eps"])
@pytest.mark.parametrize("value", ["64", -2, None, [1], 0.5, True])
def test_a_params_json_of_the_wrong_kind_is_said(tmp_path: Path, name: str, value: Any) -> None:
    write(tmp_path, {**PARAMS, "use_scaled_rope": True, name: value}, random_tensors())
    if (name, value) == ("norm_eps", 0.5):
        open_checkpoint(tmp_path)
    else:
        assert refusal(tmp_path).startswith(f"{tmp_path / 'params.json'}: ")


def test_quantized_weights_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {**PARAMS, "quantization_args": {"scheme": "8da4w"}}, random_tensors())
    assert "the weights are already quantized" in refusal(tmp_path)


def test_a_file_without_the_decoders_tensors_is_said(tmp_path: Path) -> None:
    write(tmp_path, PARAMS, {"tok_embeddings.weight": torch.ones(96, 64)})
    assert refusal(tmp_path) == (
        f"{tmp_path / 'params.json'}: the weights next to it have no matrix "
        "model.layers.0.mlp.gate_proj.weight."
    )


def test_metas_files_are_read_beside_a_config_json_without_weights(tmp_path: Path) -> None:
    write(tmp_path, PARAMS, random_tensors())
    (tmp_path / "config.json").write_text("{}")
    assert open_checkpoint(tmp_path).config.hidden_size == 64


def test_a_truncated_file_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, PARAMS, random_tensors()) / "consolidated.00.pth"
    path.write_bytes(path.read_bytes()[:5000])
    assert refusal(tmp_path) == (
        f"{path} is not a PyTorch checkpoint, or its end is missing; download it again."
    )


def test_the_old_format_and_other_files_are_distinguished(tmp_path: Path) -> None:
    path = write(tmp_path, PARAMS) / "consolidated.00.pth"
    torch.save(random_tensors(), path, _use_new_zipfile_serialization=False)
    assert refusal(tmp_path).startswith(f"{path} is in the format of PyTorch before 1.6, which")
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert refusal(tmp_path).startswith(f"{path} is only a Git LFS pointer; run ")


def test_a_file_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, PARAMS) / "consolidated.00.pth"
    path.mkdir()
    message = f"{path} cannot be read as a PyTorch checkpoint ([Errno 21] Is a directory"
    assert refusal(tmp_path).startswith(message)


def test_code_in_a_pickle_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, PARAMS) / "consolidated.00.pth"
    torch.save({"a": Path("x")}, path)
    assert refusal(tmp_path) == (
        f"{path} holds more than tensors, such as code that would run on loading, so it is not "
        "read: use the checkpoint that its author published."
    )


def test_another_object_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, PARAMS) / "consolidated.00.pth"
    torch.save([1, 2], path)
    assert refusal(tmp_path) == (
        f"{path} is not a checkpoint of a model: it does not hold a table of tensors."
    )


def test_parts_of_different_models_are_refused(tmp_path: Path) -> None:
    other = random_tensors()
    del other["layers.1.attention.wv.weight"]
    write(tmp_path, PARAMS, random_tensors(), other)
    assert refusal(tmp_path) == (
        f"{tmp_path / 'consolidated.01.pth'} lacks its part of layers.1.attention.wv.weight, which "
        "consolidated.00.pth has; the files belong to different models: download them again."
    )


def test_missing_tensors_are_named_in_the_exporters_words(tmp_path: Path) -> None:
    tensors = random_tensors()
    del tensors["layers.1.attention.wv.weight"]
    checkpoint = open_checkpoint(write(tmp_path, PARAMS, tensors))
    with pytest.raises(
        ExportError, match=r"1 missing: model\.layers\.1\.self_attn\.v_proj\.weight"
    ):
        loaded(checkpoint)
