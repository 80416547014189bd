"""A model as torchtune trains it: `config.json` beside `model-00001-of-00001.bin`, in its names.

torchtune also writes the layouts of Hugging Face and of Meta, which `hugging_face.py` and `meta.py`
read. Its own differs in names, and in the order of the rows of queries and keys where it rotates
neighbouring pairs, as Meta does. Phi's fused matrices are three and two there.
"""

import re
from pathlib import Path

import torch
from torch import Tensor

from exporter.catalogue.weight_files import TUNED
from exporter.checkpoint.meta import halves_from_pairs
from exporter.checkpoint.pickled_file import PickledFile
from exporter.errors import ExportError
from exporter.models.spec import DecoderSpec

_TOP = {
    "tok_embeddings.weight": "model.embed_tokens.weight",
    "norm.scale": "model.norm.weight",
    "norm.rms_norm.scale": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER = {
    "attn.q_proj": "self_attn.q_proj",
    "attn.k_proj": "self_attn.k_proj",
    "attn.v_proj": "self_attn.v_proj",
    "attn.output_proj": "self_attn.o_proj",
    "attn.q_norm": "self_attn.q_norm",
    "attn.k_norm": "self_attn.k_norm",
    "mlp.w1": "mlp.gate_proj",
    "mlp.w2": "mlp.down_proj",
    "mlp.w3": "mlp.up_proj",
    "sa_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
}
_SANDWICH = {  # with a norm behind each block too
    "sa_scale": "post_attention_layernorm",
    "mlp_norm": "pre_feedforward_layernorm",
    "mlp_scale": "post_feedforward_layernorm",
}
_FUSED = {  # the first matrix names the fused one
    "self_attn.q_proj": ("self_attn.qkv_proj", ("self_attn.k_proj", "self_attn.v_proj")),
    "mlp.gate_proj": ("mlp.gate_up_proj", ("mlp.up_proj",)),
}
_PAIRED = ("llama", "mistral", "gemma2")  # families whose heads torchtune rotates by pairs
_FUSING = ("phi3",)
_Names = dict[str, tuple[str, ...]]  # ours to those in the file, in order of their rows


class TorchtuneWeights:
    """The tensors of torchtune's file by their Hugging Face names."""

    def __init__(self, file: PickledFile, spec: DecoderSpec) -> None:
        self._file = file
        self._paired = spec.model_type in _PAIRED
        self._head_dim = spec.attentions[0].head_dim
        sandwich = any(".sa_scale." in name for name in file.shapes())
        names: _Names = {_hugging_face_name(key, sandwich): (key,) for key in file.shapes()}
        self._names = _fused(names) if spec.model_type in _FUSING else names

    def shapes(self) -> dict[str, tuple[int, ...]]:
        stored = self._file.shapes()
        return {
            name: (sum(stored[key][0] for key in keys), *stored[keys[0]][1:])
            for name, keys in self._names.items()
        }

    def dtype(self, name: str) -> torch.dtype:
        return self._file.dtype(self._names[name][0])

    def tensor(self, name: str) -> Tensor:
        parts = [self._file.tensor(key) for key in self._names[name]]
        tensor = parts[0] if len(parts) == 1 else torch.cat(parts)
        if self._paired and re.search(r"\.[qk]_proj\.weight$", name):
            return halves_from_pairs(tensor, self._head_dim)
        return tensor

    def release(self) -> None:
        self._file.release()


def open_weights(directory: Path, spec: DecoderSpec) -> TorchtuneWeights:
    """Maps torchtune's file.

    Raises:
        ExportError: the file is damaged, or its tensors do not have torchtune's names.
    """
    path = directory / TUNED
    file = PickledFile(path)
    if "tok_embeddings.weight" not in file.shapes():
        raise ExportError(
            f"{path} has no tensor tok_embeddings.weight, so torchtune did not write it; name a "
            "directory in the layout of Hugging Face, Meta or torchtune."
        )
    return TorchtuneWeights(file, spec)


def _hugging_face_name(name: str, sandwich: bool) -> str:
    match = re.fullmatch(r"layers\.(\d+)\.(.+)\.(weight|bias|scale)", name)
    if match is None:
        return _TOP.get(name, name)
    layer, part, kind = match.groups()
    ours = _SANDWICH.get(part) if sandwich else None
    ours = ours or _LAYER.get(part, part)
    return f"model.layers.{layer}.{ours}.{'bias' if kind == 'bias' else 'weight'}"


def _fused(names: _Names) -> _Names:
    """Joins matrices, by rows, that the family's checkpoints keep in one."""
    joined = dict(names)
    for name in names:
        for first, (fused, others) in _FUSED.items():
            rest = [name.replace(first, other) for other in others]
            if f".{first}." in name and all(other in names for other in rest):
                keys = [joined.pop(part)[0] for part in (name, *rest)]
                joined[name.replace(first, fused)] = tuple(keys)
    return joined
