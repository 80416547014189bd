"""A GGUF model in float32 whose rows are multiples of 256 numbers, as llama.cpp's K-quants need.

llama-quantize gives a matrix with other rows a larger type. Here zeros are added instead: to the
hidden and the inner dimension and as heads, so that the model computes what it did. Norms divide by
the root of the mean over all dimensions, so their weights and epsilon shrink as the mean does.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devtools.errors import BadRequest

_MULTIPLE = 256
_ROWS = {  # tensors of one decoder layer, by what their rows and columns are
    "attn_q": ("queries", "hidden"),
    "attn_k": ("keys", "hidden"),
    "attn_v": ("keys", "hidden"),
    "attn_output": ("hidden", "queries"),
    "ffn_gate": ("inner", "hidden"),
    "ffn_up": ("inner", "hidden"),
    "ffn_down": ("hidden", "inner"),
}
_NORMS = ("attn_norm", "ffn_norm", "output_norm", "post_attention_norm", "post_ffw_norm")
_AS_THEY_ARE = ("attn_q_norm", "attn_k_norm", "rope_freqs")
_SCALES_EMBEDDING = ("gemma3",)  # by the root of the hidden dimension


@dataclass(frozen=True)
class Padding:
    """Dimensions by name, and what they become."""

    before: dict[str, int]
    after: dict[str, int]

    def padded(self, array: NDArray[np.float32], names: tuple[str, ...]) -> NDArray[np.float32]:
        """An array whose axes have these names, with zeros behind; other axes have the name ""."""
        more = [(0, self.after.get(name, 0) - self.before.get(name, 0)) for name in names]
        return np.pad(array, more)


@dataclass(frozen=True)
class Source:
    """How many numbers each tensor of a model had before it was padded."""

    numbers: dict[str, int]

    def bits(self, path: Path) -> float:
        """Bits of a number on average, as llama-quantize stored the padded model, zeros aside."""
        import gguf

        total = 0.0
        for tensor in gguf.GGUFReader(path).tensors:
            block, size = gguf.GGML_QUANT_SIZES[tensor.tensor_type]
            total += self.numbers[tensor.name] * 8 * size / block
        return total / sum(self.numbers.values())


def write_padded(source: Path, out: Path) -> Source:
    """Writes a GGUF model as float32 with padded dimensions.

    Raises:
        BadRequest: the file is no GGUF model of a known layout.
    """
    import gguf
    from gguf.quants import dequantize

    try:
        reader = gguf.GGUFReader(source)
        name = _value(reader, "general.architecture")
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise BadRequest(f"{source} is not a readable GGUF model: {error}.") from None
    padding = _padding_of(reader, name)
    writer = gguf.GGUFWriter(out, name)
    _copy_fields(reader, writer, name, padding)
    numbers = {}
    for tensor in reader.tensors:
        array = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        numbers[tensor.name] = array.size
        writer.add_tensor(tensor.name, _padded(tensor.name, array, padding, name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Source(numbers)


def _value(reader: Any, key: str, default: Any = None) -> Any:
    field = reader.fields.get(key)
    if field is None and default is None:
        raise BadRequest(f"the file has no {key}; it is not a model that llama.cpp can quantize.")
    return default if field is None else field.contents()


def _padding_of(reader: Any, name: str) -> Padding:
    hidden = _value(reader, f"{name}.embedding_length")
    inner = _value(reader, f"{name}.feed_forward_length")
    heads = _value(reader, f"{name}.attention.head_count")
    key_heads = _value(reader, f"{name}.attention.head_count_kv", heads)
    if not all(isinstance(number, int) for number in (hidden, inner, heads, key_heads)):
        raise BadRequest(f"layers of different shapes, as in this {name}, are not supported.")
    head_dim = _value(reader, f"{name}.attention.key_length", hidden // heads)
    more = key_heads
    while more * (heads // key_heads) * head_dim % _MULTIPLE:
        more += 1
    before = {"hidden": hidden, "inner": inner}
    after = {key: number + -number % _MULTIPLE for key, number in before.items()}
    for which, count in ((before, key_heads), (after, more)):
        which |= {"heads": count * (heads // key_heads), "key_heads": count, "head_dim": head_dim}
        which |= {"queries": which["heads"] * head_dim, "keys": count * head_dim}
    return Padding(before, after)


def _copy_fields(reader: Any, writer: Any, name: str, padding: Padding) -> None:
    import gguf

    changed = {
        f"{name}.embedding_length": "hidden",
        f"{name}.feed_forward_length": "inner",
        f"{name}.attention.head_count": "heads",
        f"{name}.attention.head_count_kv": "key_heads",
    }
    epsilon = f"{name}.attention.layer_norm_rms_epsilon"
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        value, kind = field.contents(), field.types[0]
        if key in changed:
            value = padding.after[changed[key]]
        if key == epsilon:
            value *= padding.before["hidden"] / padding.after["hidden"]
        inside = field.types[-1] if kind is gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, value, kind, inside)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for key in ("key_length", "value_length"):
        if f"{name}.attention.{key}" not in reader.fields:
            writer.add_uint32(f"{name}.attention.{key}", padding.before["head_dim"])


def _padded(
    tensor: str, array: NDArray[np.float32], padding: Padding, name: str
) -> NDArray[np.float32]:
    stem, _, kind = tensor.removeprefix("blk.").rpartition(".")
    part = stem.rpartition(".")[2]
    shrunk = math.sqrt(padding.before["hidden"] / padding.after["hidden"])
    scales = name in _SCALES_EMBEDDING
    if part in _AS_THEY_ARE:
        return array
    if part in ("token_embd", "output"):
        return padding.padded(array, ("", "hidden")) * np.float32(shrunk if scales else 1)
    if part in _NORMS:
        factor = 1 if scales and part == "output_norm" else shrunk
        return padding.padded(array, ("hidden",)) * np.float32(factor)
    if part in _ROWS:
        rows, columns = _ROWS[part]
        return padding.padded(array, (rows, columns) if kind == "weight" else (rows,))
    raise BadRequest(f"the tensor {tensor} is not one that can be padded; this is a known gap.")
