"""GGUF, llama.cpp's format: one file, or the parts of a split one, with a model and its tokenizer.

What differs from Hugging Face's layout: the names; the rows of queries and keys where the
architecture rotates pairs; the norms of Gemma 2 and 3, of which Hugging Face stores the distance
from 1; the experts of a layer, which are one tensor, and which we read one by one; and the types,
of which the `gguf` package makes floats.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType
from torch import Tensor

from exporter.catalogue.gguf_file import GgufFile
from exporter.checkpoint import gguf_apertus
from exporter.checkpoint.gguf_config import (
    Architecture,
    architecture,
    config_fields,
    layers_of_more_tokens,
)
from exporter.checkpoint.gguf_delta import StoredDelta
from exporter.checkpoint.gguf_rope import LONG_FACTORS, ROPE_FACTORS, SHORT_FACTORS
from exporter.checkpoint.gguf_windows import window_notes
from exporter.checkpoint.meta import halves_from_pairs
from exporter.errors import ExportError
from exporter.models.families import Family, get_family
from exporter.models.spec import DecoderSpec, DeltaSpec
from quant.modules import QuantizedWeight
from quant.weight_type import INT8_GROUPS, WeightType

_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
_ROPE = (ROPE_FACTORS, LONG_FACTORS, SHORT_FACTORS)  # of which the config tells
_TOP = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_exps": "mlp.experts.gate_proj",
    "ffn_up_exps": "mlp.experts.up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
    "attn_sinks": "self_attn.sinks",
    "post_ffw_norm": "post_feedforward_layernorm",
}
EXPERTS = ".mlp.experts."
_CONVOLUTION = ".conv.conv.weight"  # of LFM2
_BARE = "self_attn.sinks"  # a parameter of its module, not the weight of a module
_PLAIN = {  # types that PyTorch has too
    GGMLQuantizationType.F64: torch.float64,
    GGMLQuantizationType.F32: torch.float32,
    GGMLQuantizationType.F16: torch.float16,
    GGMLQuantizationType.BF16: torch.bfloat16,
    GGMLQuantizationType.I64: torch.int64,
    GGMLQuantizationType.I32: torch.int32,
    GGMLQuantizationType.I16: torch.int16,
    GGMLQuantizationType.I8: torch.int8,
}
_KEPT = {  # types whose blocks are a float16 scale and 32 integers around 0
    GGMLQuantizationType.Q8_0: INT8_GROUPS,
    GGMLQuantizationType.Q4_0: WeightType(4, 32, 1),
}
_SCALE_BYTES = 2
_AT_ONCE = 1 << 20  # numbers that are made at a time


@dataclass(frozen=True)
class Place:
    """Where a tensor lies: under a name in a file, or as one entry of what has that name."""

    file: GgufFile
    name: str
    entry: int | None = None

    @property
    def type(self) -> GGMLQuantizationType:
        return self.file.tensors[self.name].type

    @property
    def shape(self) -> tuple[int, ...]:
        shape = self.file.tensors[self.name].shape
        return shape if self.entry is None else shape[1:]

    def rows(self) -> Tensor:
        """Its stored bytes, a view of the mapped file: uint8, rows as `GgufFile.rows` has them."""
        rows = self.file.rows(self.name)
        if self.entry is None:
            return rows
        count = math.prod(self.shape[:-1])
        return rows.narrow(0, self.entry * count, count)


class GgufWeights:
    """The tensors of GGUF files by their Hugging Face names.

    A quantized one is made float32 when it is asked for; a plain one is a view of the mapped file.
    """

    def __init__(
        self, files: list[GgufFile], kind: Architecture, config: DecoderSpec, more_layers: range
    ) -> None:
        self._files = files
        self.notes = window_notes(files[0].metadata, kind.model_type, config.num_hidden_layers)
        self._kind = kind
        self._head_dim = config.attentions[0].head_dim if config.attentions else 0
        mixers = (layer.mixer for layer in config.layers)
        rule = next((mixer for mixer in mixers if isinstance(mixer, DeltaSpec)), None)
        self._delta = None if rule is None else StoredDelta(rule, kind.tiled_values)
        self._numbers = gguf_apertus.numbers(files[0].metadata)
        places = {
            key: place
            for file in files
            for name in file.tensors
            if name not in _ROPE
            for key, place in _places(hugging_face_name(name, kind), file, name)
        }
        self._places = {
            key: place for key, place in places.items() if _layer(key) not in more_layers
        }
        rest = len(places) - len(self._places)
        self.left_out = {"mtp": rest} if rest else {}
        shapes = {key: _shape(key, place.shape) for key, place in self._places.items()}
        if self._delta is not None:
            shapes = {key: self._delta.shape(key, shape) for key, shape in shapes.items()}
        self._shapes = shapes | {name: tuple(x.shape) for name, x in self._numbers.items()}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        if name in self._numbers:
            return torch.float32
        return _PLAIN.get(self._places[name].type, torch.float32)

    def source_type(self, name: str) -> str:
        if name in self._numbers:
            return "F32"
        return str(self._places[name].type.name)

    def kept_type(self, name: str) -> WeightType | None:
        if name in self._numbers:
            return None
        type = _KEPT.get(self._places[name].type)
        if type is None or self._delta is None or self._delta.can_keep(name, type.group_size):
            return type
        return None

    def integers(self, name: str) -> QuantizedWeight:
        made = read_integers(self._places[name])
        if self._delta is not None:
            return self._delta.integers(name, made)
        if not self._has_pairs(name):
            return made
        values = halves_from_pairs(made.values, self._head_dim)
        return QuantizedWeight(values, halves_from_pairs(made.scales, self._head_dim), made.type)

    def tensor(self, name: str) -> Tensor:
        if name in self._numbers:
            return self._numbers[name]
        made = read_tensor(self._places[name])
        if name.endswith(_CONVOLUTION):
            return made.view(_shape(name, tuple(made.shape)))
        if self._has_pairs(name):
            return halves_from_pairs(made, self._head_dim)
        if self._kind.norms_from_one and name.endswith("norm.weight"):
            return made if ".linear_attn." in name else made.float() - 1
        return made if self._delta is None else self._delta.tensor(name, made)

    def release(self) -> None:
        for file in self._files:
            file.release()

    def _has_pairs(self, name: str) -> bool:
        return self._kind.pairs_rotate and name.split(".")[-2] in ("q_proj", "k_proj")


def open_gguf(path: Path, family: Family | None) -> tuple[Family, DecoderSpec, GgufWeights]:
    """Maps a file, or all parts of a split one, and derives the config from its metadata.

    Args:
        path: of a split file any part.
        family: what the config means; None: the family of its architecture.

    Raises:
        ExportError: a file is damaged or absent, or holds a model or a type that is not read.
    """
    files = _open_parts(path)
    metadata = files[0].metadata
    tensors = {name: tensor for file in files for name, tensor in file.tensors.items()}
    _check_types(path, {tensor.type for tensor in tensors.values()})
    rope = {
        name: read_tensor(Place(f, name)).float()
        for f in files
        for name in _ROPE
        if name in f.tensors
    }
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    try:
        kind = architecture(metadata)
        fields = config_fields(metadata, shapes, rope)
        _check_layers(metadata, fields, len(tensors))
        family = get_family(fields["model_type"]) if family is None else family
        config = family.spec(fields)
    except ExportError as error:
        raise ExportError(f"{path}: {error}") from None
    return family, config, GgufWeights(files, kind, config, layers_of_more_tokens(metadata))


def read_tensor(place: Place) -> Tensor:
    """One tensor: a view of the file where PyTorch has its type, otherwise float32."""
    rows, shape, plain = place.rows(), place.shape, _PLAIN.get(place.type)
    if plain is not None:
        return rows.view(plain).view(shape)
    columns = shape[-1]
    made = torch.empty(rows.shape[0], columns)
    step = max(1, _AT_ONCE // max(1, columns))
    with np.errstate(all="ignore"):  # a stored scale may be any float16, an infinite one too
        for begin in range(0, rows.shape[0], step):
            part = gguf.dequantize(rows[begin : begin + step].numpy(), place.type)
            made[begin : begin + step] = torch.from_numpy(part)
    return made.view(shape)


def read_integers(place: Place) -> QuantizedWeight:
    """A tensor of Q8_0 or Q4_0 as it is stored: values int8 (..., columns), scales float32 that
    are exact in float16 (..., columns / 32)."""
    rows, (*outer, columns) = place.rows(), place.shape
    type, (size, block_bytes) = _KEPT[place.type], gguf.GGML_QUANT_SIZES[place.type]
    values = torch.empty(rows.shape[0], columns // size, size, dtype=torch.int8)
    scales = torch.empty(rows.shape[0], columns // size)
    step = max(1, _AT_ONCE // max(1, columns))
    for begin in range(0, rows.shape[0], step):
        here = slice(begin, begin + step)
        blocks = rows[here].unflatten(1, (-1, block_bytes))
        stored = blocks[..., _SCALE_BYTES:]
        if type.bits == 4:  # the first half of a group in the low nibbles
            stored = torch.cat((stored & 15, stored >> 4), dim=-1) - 8
        values[here] = stored.view(torch.int8)
        scales[here] = blocks[..., :_SCALE_BYTES].contiguous().view(torch.float16)[..., 0].float()
    return QuantizedWeight(values.view(*outer, columns), scales.view(*outer, -1), type)


def _open_parts(path: Path) -> list[GgufFile]:
    match = _PART.fullmatch(path.name)
    if match is None:
        file = GgufFile(path)
        if file.metadata.get("split.count", 1) not in (0, 1):
            raise ExportError(
                f"{path} is one of {file.metadata['split.count']!r} parts and is not called so; "
                "give the parts the names they had, which end in -00001-of-0000N.gguf."
            )
        return [file]
    count = int(match[3])
    names = [f"{match[1]}-{index + 1:05d}-of-{match[3]}.gguf" for index in range(count)]
    absent = [name for name in names if not (path.parent / name).is_file()]
    if absent or not 1 <= int(match[2]) <= count:
        raise ExportError(
            f"{path.parent} lacks {len(absent)} of the {count} parts of {path.name}: "
            f"{', '.join(absent[:5])}{', ...' if len(absent) > 5 else ''}; download them as well."
        )
    files = [GgufFile(path.with_name(name)) for name in names]
    seen: set[str] = set()
    for index, file in enumerate(files):
        position = file.metadata.get("split.no"), file.metadata.get("split.count")
        if position != (index, count) or not seen.isdisjoint(file.tensors):
            raise ExportError(
                f"{file.path} does not belong to the other parts; download all of them again."
            )
        seen |= file.tensors.keys()
    return files


def _check_types(path: Path, types: set[GGMLQuantizationType]) -> None:
    for type in sorted(types - _PLAIN.keys()):
        block_bytes = gguf.GGML_QUANT_SIZES[type][1]
        try:
            gguf.dequantize(np.zeros((1, block_bytes), np.uint8), type)
        except NotImplementedError:
            raise ExportError(
                f"{path} stores tensors as {type.name}, of which no floats can be made; convert "
                "the model to another type, such as Q8_0."
            ) from None


def _check_layers(metadata: Mapping[str, Any], fields: Mapping[str, Any], tensors: int) -> None:
    """Before a spec is made for each of them: a damaged number may ask for millions."""
    layers = fields.get("num_hidden_layers")
    if isinstance(layers, int) and layers > tensors:
        raise ExportError(
            f"{metadata['general.architecture']}.block_count is {layers}, and there are {tensors} "
            "tensors in all; download the file again."
        )


def _places(name: str, file: GgufFile, key: str) -> Iterator[tuple[str, Place]]:
    """The tensors that the one called `key` in a file is, by their Hugging Face names."""
    layer, is_experts, part = name.partition(EXPERTS)
    if not is_experts:
        yield name, Place(file, key)
        return
    tensor = file.tensors[key]
    for entry in range(tensor.shape[0] if tensor.size else 0):
        yield f"{layer}{EXPERTS}{entry}.{part}", Place(file, key, entry)


def hugging_face_name(name: str, kind: Architecture) -> str:
    """Returns what a tensor of an architecture's files is called in Hugging Face's."""
    module, _, what = name.rpartition(".")
    top = {**_TOP, **kind.names}.get(module)
    if top is not None:
        return f"{top}.{what}"
    match = re.fullmatch(r"blk\.(\d+)\.(.+)", name)
    if match is None:
        return name
    if match[2] in kind.names:  # of one tensor, whose name has no ending
        return f"model.layers.{match[1]}.{kind.names[match[2]]}"
    inner = {**_LAYER, **kind.names}.get(match[2].removesuffix(f".{what}"))
    if inner is None:
        return name
    end = "" if inner == _BARE else f".{what}"
    return f"model.layers.{match[1]}.{inner}{end}"


def _shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Hugging Face's shape of a tensor."""
    return (*shape[:1], 1, *shape[1:]) if name.endswith(_CONVOLUTION) else shape


def _layer(name: str) -> int:
    """Returns the number of a tensor's layer, whatever its name; -1 if it is in none."""
    match = re.match(r"(?:model\.layers|blk)\.(\d{1,9})\.", name)
    return -1 if match is None else int(match[1])
