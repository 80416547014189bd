"""Meta's own checkpoints: `params.json` beside `consolidated.00.pth`, `consolidated.01.pth`, ...

torchtune writes them as one file, `model-00001-of-00001.bin`.

Three things differ from Hugging Face's layout: the names; the order of the rows of wq and wk (Meta
rotates neighbouring pairs (x0, x1), Hugging Face the halves (x0, x_half), so the rows of each head
are reordered here); and the files of large models (each holds a slice of every matrix, for model
parallelism, and the slices are joined here).
"""

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exporter.catalogue.weight_files import PARAMS, TUNED
from exporter.checkpoint.pickled_file import PickledFile
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models.families import Family, get_family
from exporter.models.spec import DecoderSpec

_EMBEDDING = "model.embed_tokens.weight"
_HEAD = "lm_head.weight"
_GATE = "model.layers.0.mlp.gate_proj.weight"
_TOP = {
    "tok_embeddings.weight": _EMBEDDING,
    "norm.weight": "model.norm.weight",
    "output.weight": _HEAD,
}
_LAYER = {
    "attention.wq.weight": "self_attn.q_proj.weight",
    "attention.wk.weight": "self_attn.k_proj.weight",
    "attention.wv.weight": "self_attn.v_proj.weight",
    "attention.wo.weight": "self_attn.o_proj.weight",
    "feed_forward.w1.weight": "mlp.gate_proj.weight",
    "feed_forward.w2.weight": "mlp.down_proj.weight",
    "feed_forward.w3.weight": "mlp.up_proj.weight",
    "attention_norm.weight": "input_layernorm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
}
_HARMLESS = "rope.freqs"  # computed, not learned
_SPLIT_BY_COLUMN = ("wo.weight", "w2.weight")  # all other matrices are split by row
_LLAMA3_VOCAB = 128256
_LLAMA3_STOPS = (128001, 128008, 128009)  # <|end_of_text|>, <|eom_id|>, <|eot_id|>


class MetaWeights:
    """The tensors of Meta's files by their Hugging Face names.

    A matrix that must be reordered, or that is split over several files, is assembled on demand.
    Any other tensor is a view of the mapped file.

    Raises:
        ExportError: on opening, if a file is not such a checkpoint.
    """

    def __init__(self, files: list[Path], head_dim: int | None = None) -> None:
        self._shards = [PickledFile(path) for path in files]
        self._first = self._shards[0].shapes()
        self._names = {_hugging_face_name(name): name for name in self._first}
        self._names.pop(_HARMLESS, None)
        self._shapes = {name: self._shape(key) for name, key in self._names.items()}
        self.head_dim = head_dim

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return self._shards[0].dtype(self._names[name])

    def tensor(self, name: str) -> Tensor:
        key = self._names[name]
        whole = self._whole(key)
        if self.head_dim is not None and key.endswith(("wq.weight", "wk.weight")):
            return halves_from_pairs(whole, self.head_dim)
        return whole

    def release(self) -> None:
        for shard in self._shards:
            shard.release()

    def _whole(self, key: str) -> Tensor:
        parts = self._parts(key)
        dim = self._split_dim(key)
        return parts[0] if len(parts) == 1 or dim is None else torch.cat(parts, dim)

    def _shape(self, key: str) -> tuple[int, ...]:
        """Returns the shape of the complete tensor; every file holds an equal part."""
        parts, dim = self._parts(key), self._split_dim(key)
        shape = list(parts[0].shape)
        if dim is not None:
            shape[dim] *= len(parts)
        return tuple(shape)

    def _parts(self, key: str) -> list[Tensor]:
        for shard in self._shards:
            if shard.shapes().get(key) != self._first[key]:
                raise ExportError(
                    f"{shard.path} lacks its part of {key}, which {self._shards[0].path.name} has; "
                    "the files belong to different models: download them again."
                )
        return [shard.tensor(key) for shard in self._shards]

    def _split_dim(self, key: str) -> int | None:
        """Returns the dimension that the files split; None for vectors, which every file
        repeats."""
        first = self._first[key]
        if len(first) < 2:
            return None
        if key == "tok_embeddings.weight":  # up to Llama 2 by column, since Llama 3 by vocabulary
            norm = self._first.get("norm.weight")
            return 0 if norm is None or first[1] == norm[0] else 1
        return 1 if key.endswith(_SPLIT_BY_COLUMN) else 0


def open_meta(
    directory: Path, files: list[Path], family: Family | None
) -> tuple[Family, DecoderSpec, MetaWeights]:
    """Maps the files and derives the config from `params.json` and the tensors' shapes.

    Args:
        family: the architecture; None: Llama.

    Raises:
        ExportError: `params.json` is missing or lacks a field, or a file is damaged or missing.
    """
    params = _read_params(directory / PARAMS)
    numbers = [path.name.split(".")[1] for path in files if path.name != TUNED]
    if len(numbers) == len(files) and numbers != [f"{index:02d}" for index in range(len(files))]:
        raise ExportError(
            f"{directory} holds the parts {', '.join(numbers)} of a checkpoint; they must count "
            "from 00 without a gap: download the missing consolidated.*.pth."
        )
    weights = MetaWeights(files)
    try:
        fields = _config_fields(params, weights)
        family = get_family(fields["model_type"]) if family is None else family
        config = family.spec(fields)
    except ExportError as error:
        raise ExportError(f"{directory / PARAMS}: {error}") from None
    weights.head_dim = config.attentions[0].head_dim
    return family, config, weights


def _config_fields(params: dict[str, Any], weights: MetaWeights) -> dict[str, Any]:
    """Returns the fields of `config.json`: from `params.json`, the tensors, and Meta's code."""
    shapes = weights.shapes()
    absent = [name for name in (_EMBEDDING, _GATE) if len(shapes.get(name, ())) != 2]
    if absent:
        raise ExportError(f"the weights next to it have no matrix {' and no '.join(absent)}.")
    vocab_size = params.get("vocab_size", -1)
    if vocab_size == -1:  # Llama 2: only the tokenizer has it
        vocab_size = shapes[_EMBEDDING][0]
    llama3 = vocab_size == _LLAMA3_VOCAB
    scaled = bool(params.get("use_scaled_rope", False))
    return {
        "model_type": "llama",
        "hidden_size": params.get("dim"),
        "intermediate_size": shapes[_GATE][0],
        "num_hidden_layers": params.get("n_layers"),
        "num_attention_heads": params.get("n_heads"),
        "num_key_value_heads": params.get("n_kv_heads"),
        "vocab_size": vocab_size,
        "max_position_embeddings": params.get("max_seq_len") or _context(params, llama3, scaled),
        "rms_norm_eps": params.get("norm_eps", 1e-5),
        "rope_theta": params.get("rope_theta", 10000.0),
        "rope_scaling": _rope_scaling(params) if scaled else None,
        "tie_word_embeddings": _tied(weights),
        "quantization_config": params.get("quantization_args"),
        "bos_token_id": 128000 if llama3 else 1,
        "eos_token_id": list(_LLAMA3_STOPS) if llama3 else 2,
    }


def _context(params: dict[str, Any], llama3: bool, scaled: bool) -> int:
    """Returns the context length that the models were trained for; `params.json` lacks it."""
    if scaled:
        return 131072
    if llama3:
        return 8192
    return 16384 if params.get("rope_theta") == 1000000.0 else 4096  # Code Llama, else Llama 2


def _rope_scaling(params: dict[str, Any]) -> dict[str, Any]:
    """Llama 3.1 stretches 8 times; 3.2's two small text models, narrower than 4096, 32 times."""
    dim = params.get("dim")
    small = isinstance(dim, int) and dim < 4096
    return {
        "rope_type": "llama3",
        "factor": params.get("rope_scaling_factor") or (32.0 if small else 8.0),
        "low_freq_factor": 1.0,
        "high_freq_factor": params.get("rope_high_freq_factor") or 4.0,
        "original_max_position_embeddings": 8192,
    }


def _tied(weights: MetaWeights) -> bool:
    """Whether the head is the embedding: absent, or stored again with the same values."""
    shapes = weights.shapes()
    if _HEAD not in shapes:
        return True
    if shapes[_HEAD] != shapes[_EMBEDDING]:
        return False
    stored, again = weights.tensor(_EMBEDDING), weights.tensor(_HEAD)
    same = torch.equal(stored[:16], again[:16]) and torch.equal(stored, again)
    weights.release()
    return same


def halves_from_pairs(weight: Tensor, head_dim: int) -> Tensor:
    """Reorders each head's rows from (x0, y0, x1, y1, ...) to (x0, x1, ..., y0, y1, ...)."""
    pairs = weight.unflatten(0, (-1, head_dim // 2, 2))  # (heads, head_dim / 2, 2, hidden_size)
    return pairs.transpose(1, 2).reshape(weight.shape)


def _hugging_face_name(name: str) -> str:
    match = re.fullmatch(r"layers\.(\d+)\.(.+)", name)
    if match is None:
        return _TOP.get(name, name)
    return f"model.layers.{match[1]}.{_LAYER.get(match[2], match[2])}"


def _read_params(path: Path) -> dict[str, Any]:
    try:
        return read_object(path)
    except FileNotFoundError:
        raise ExportError(
            f"{path.parent} holds consolidated.*.pth without {PARAMS}; download that as well."
        ) from None
