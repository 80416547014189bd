"""Writes an OpenVINO model of a shape with random weights, as OpenVINO GenAI would run it.

    PYTHON openvino_build.py SHAPE.json OUT.xml

It needs the packages openvino and nncf. SHAPE.json has Hugging Face's names of a Llama's
dimensions and head_bits.

The graph is the one that OpenVINO recognises and fuses (RMSNorm, rotary embedding, SDPA with its
key/value cache): keys and values are states, reordered by beam_idx, concatenated with the call's;
logits of the last position only. Weights: int4, symmetric, in groups of 128 (by
nncf.compress_weights); the embedding and the head are int8, or int4 too where head_bits is 4.
"""

import json
import sys

import nncf
import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.op.util import Variable, VariableInfo

GROUP_SIZE = 128
INPUTS = ("input_ids", "attention_mask", "position_ids", "beam_idx")
FLOAT = np.float32


def constant(values: object, dtype: type = FLOAT) -> ov.Node:
    return ops.constant(np.asarray(values, dtype=dtype))


def random_weight(rng: np.random.Generator, rows: int, columns: int) -> ov.Node:
    """(rows, columns), stored in 16 bits as converted checkpoints are."""
    values = rng.standard_normal((rows, columns), dtype=FLOAT) * FLOAT(0.02)
    return ops.convert(ops.constant(values.astype(np.float16)), "f32")


def linear(rng: np.random.Generator, x: ov.Node, outputs: int, inputs: int, name: str) -> ov.Node:
    product = ops.matmul(x, random_weight(rng, outputs, inputs), False, True)
    product.set_friendly_name(name)
    return product


def rms_norm(x: ov.Node, size: int) -> ov.Node:
    variance = ops.reduce_mean(ops.power(x, constant([[[2.0]]])), constant([-1], np.int64), True)
    root = ops.sqrt(ops.add(variance, constant([[[1e-5]]])))
    normed = ops.multiply(x, ops.divide(constant([[[1.0]]]), root))
    return ops.multiply(constant(np.ones((1, 1, size))), normed)


def heads(x: ov.Node, count: int, head_dim: int) -> ov.Node:
    """(batch, seq_len, count * head_dim) -> (batch, count, seq_len, head_dim)"""
    split = ops.reshape(x, constant([0, 0, count, head_dim], np.int64), True)
    return ops.transpose(split, constant([0, 2, 1, 3], np.int64))


def rotate(x: ov.Node, cosines: ov.Node, sines: ov.Node, head_dim: int) -> ov.Node:
    axis, step = constant([3], np.int64), constant([1], np.int64)
    middle = constant([head_dim // 2], np.int64)
    low = ops.slice(x, constant([0], np.int64), middle, step, axis)
    high = ops.slice(x, middle, constant([np.iinfo(np.int64).max], np.int64), step, axis)
    negative = ops.multiply(high, constant([[[[-1.0]]]]))
    turned = ops.concat([negative, low], -1)
    return ops.add(ops.multiply(x, cosines), ops.multiply(turned, sines))


def rotary_tables(position_ids: ov.Node, head_dim: int) -> tuple[ov.Node, ov.Node]:
    """Cosines and sines, each (batch, 1, seq_len, head_dim)."""
    exponents = np.arange(0, head_dim, 2, dtype=FLOAT) / head_dim
    frequencies = constant((1.0 / 500000.0**exponents).reshape(1, head_dim // 2, 1))
    rows = ops.convert(ops.unsqueeze(position_ids, constant(1, np.int64)), "f32")
    angles = ops.transpose(
        ops.matmul(frequencies, rows, False, False), constant([0, 2, 1], np.int64)
    )
    both, one = ops.concat([angles, angles], -1), constant(1, np.int64)
    return ops.unsqueeze(ops.cos(both), one), ops.unsqueeze(ops.sin(both), one)


def causal_mask(position_ids: ov.Node, attention_mask: ov.Node) -> ov.Node:
    """float32 (batch, 1, seq_len, context): 0 where a query may look, else the lowest number."""
    context = ops.gather(
        ops.shape_of(attention_mask, "i64"), constant(1, np.int64), constant(0, np.int64)
    )
    keys = ops.range(constant(0, np.int64), context, constant(1, np.int64), "i64")
    queries = ops.unsqueeze(position_ids, constant([1, 3], np.int64))
    seen = ops.less_equal(ops.unsqueeze(keys, constant([0, 1, 2], np.int64)), queries)
    return ops.select(seen, constant(0.0), constant(np.finfo(FLOAT).min))


class Cache:
    """One tensor of keys or values, kept between calls."""

    def __init__(self, name: str, count: int, head_dim: int, batch: ov.Node, beam: ov.Node) -> None:
        info = VariableInfo()
        info.data_shape = ov.PartialShape([-1, count, -1, head_dim])
        info.data_type = ov.Type.f32
        info.variable_id = name
        self.variable = Variable(info)
        empty = ops.concat([batch, constant([count, 0, head_dim], np.int64)], 0)
        past = ops.read_value(ops.broadcast(constant(0.0), empty), self.variable)
        self.past = ops.gather(past, beam, constant(0, np.int64))
        self.assign: ov.Node | None = None

    def extend(self, new: ov.Node) -> ov.Node:
        """Everything up to and with the call's own (batch, count, context, head_dim)."""
        whole = ops.concat([self.past, new], -2)
        self.assign = ops.assign(whole, self.variable)
        return whole


def repeat_heads(x: ov.Node, times: int, count: int, head_dim: int) -> ov.Node:
    """Each key/value head for its group of query heads, in the way that SDPA's fusion knows."""
    if times == 1:
        return x
    shape = ops.shape_of(x, "i64")
    first, last = constant([0, 1], np.int64), constant([2, 3], np.int64)
    axis = constant(0, np.int64)
    wide = ops.concat(
        [
            ops.gather(shape, first, axis),
            constant([times], np.int64),
            ops.gather(shape, last, axis),
        ],
        0,
    )
    spread = ops.broadcast(
        ops.unsqueeze(x, constant(2, np.int64)), wide, broadcast_spec="BIDIRECTIONAL"
    )
    return ops.reshape(spread, constant([0, count * times, -1, head_dim], np.int64), True)


def build(shape: dict[str, int]) -> ov.Model:
    rng = np.random.default_rng(0)
    hidden, head_dim = shape["hidden_size"], shape["head_dim"]
    num_heads, kv_heads = shape["num_attention_heads"], shape["num_key_value_heads"]
    inner, vocab = shape["intermediate_size"], shape["vocab_size"]
    input_ids, attention_mask, position_ids = (ops.parameter([-1, -1], np.int64) for _ in range(3))
    beam_idx = ops.parameter([-1], np.int32)
    parameters = [input_ids, attention_mask, position_ids, beam_idx]
    batch = ops.gather(
        ops.shape_of(input_ids, "i64"), constant([0], np.int64), constant(0, np.int64)
    )
    cosines, sines = rotary_tables(position_ids, head_dim)
    mask = causal_mask(position_ids, attention_mask)
    embedding = random_weight(rng, vocab, hidden)
    x = ops.gather(embedding, input_ids, constant(0, np.int64))
    caches = []
    for layer in range(shape["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        normed = rms_norm(x, hidden)
        q = heads(
            linear(rng, normed, num_heads * head_dim, hidden, at + "q_proj"), num_heads, head_dim
        )
        k = heads(
            linear(rng, normed, kv_heads * head_dim, hidden, at + "k_proj"), kv_heads, head_dim
        )
        v = heads(
            linear(rng, normed, kv_heads * head_dim, hidden, at + "v_proj"), kv_heads, head_dim
        )
        q, k = rotate(q, cosines, sines, head_dim), rotate(k, cosines, sines, head_dim)
        keys = Cache(f"past_key_values.{layer}.key", kv_heads, head_dim, batch, beam_idx)
        values = Cache(f"past_key_values.{layer}.value", kv_heads, head_dim, batch, beam_idx)
        caches += [keys, values]
        times = num_heads // kv_heads
        attention = ops.scaled_dot_product_attention(
            q,
            repeat_heads(keys.extend(k), times, kv_heads, head_dim),
            repeat_heads(values.extend(v), times, kv_heads, head_dim),
            mask,
        )
        rows = ops.reshape(
            ops.transpose(attention, constant([0, 2, 1, 3], np.int64)),
            constant([0, 0, num_heads * head_dim], np.int64),
            True,
        )
        x = ops.add(x, linear(rng, rows, hidden, num_heads * head_dim, at + "o_proj"))
        normed = rms_norm(x, hidden)
        gate = ops.swish(linear(rng, normed, inner, hidden, at + "gate_proj"))
        up = linear(rng, normed, inner, hidden, at + "up_proj")
        x = ops.add(x, linear(rng, ops.multiply(gate, up), hidden, inner, at + "down_proj"))
    last = ops.slice(
        rms_norm(x, hidden),
        constant([-1], np.int64),
        constant([np.iinfo(np.int64).max], np.int64),
        constant([1], np.int64),
        constant([1], np.int64),
    )
    tied = shape["tie_word_embeddings"]
    head = embedding if tied else random_weight(rng, vocab, hidden)
    logits = ops.matmul(last, head, False, True)
    logits.set_friendly_name("lm_head")
    assigns = [cache.assign for cache in caches]
    model = ov.Model([ops.result(logits)], assigns, parameters, "llama")
    for name, place in zip(INPUTS, model.inputs, strict=True):
        place.set_names({name})
    model.output(0).set_names({"logits"})
    return model


def main() -> None:
    shape_path, out = sys.argv[1:]
    with open(shape_path, encoding="utf-8") as file:
        shape = json.load(file)
    model = nncf.compress_weights(
        build(shape),
        mode=nncf.CompressWeightsMode.INT4_SYM,
        group_size=GROUP_SIZE,
        ratio=1.0,
        all_layers=shape["head_bits"] == 4,
    )
    ov.save_model(model, out, compress_to_fp16=True)


if __name__ == "__main__":
    main()
