"""The CPU delegate's op list, executed in numpy from the finished file: its meaning, plainly.

Written from delegates/op_list/program.fbs and runtime/cpp/kernels/layout/layout.h alone; it shares
no code with the packer, nor with the C++ that runs such files.
"""

import json
import subprocess
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import executorch
import numpy as np
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from numpy.typing import NDArray
from support.packed_weights import Weight, unpack
from torch import Tensor
from torch.nn import functional as F

SCHEMA = Path(__file__).resolve().parents[2] / "delegates" / "op_list" / "program.fbs"

Json = dict[str, Any]


@dataclass
class OpList:
    """One delegate call of a file.

    Attributes:
        program: the flatbuffer as flatc reads it, defaults filled in.
        data: the file's named data.
    """

    program: Json
    data: dict[str, bytes]
    caches: list[tuple[NDArray, NDArray]] = field(default_factory=list)
    states: list[NDArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        for cache in self.program["caches"]:
            shape = [cache[name] for name in ("max_context_len", "num_key_value_heads", "head_dim")]
            self.caches.append((np.zeros(shape, np.float32), np.zeros(shape, np.float32)))
        for state in self.program.get("states", []):
            self.states.append(np.zeros((state["rows"], state["width"]), np.float32))

    def describe(self) -> list[str]:
        """One line for each operator: its kind, flags and name."""
        lines = []
        for op in self.program["ops"]:
            kind = op["kind"]
            flags = [
                name
                for name in ("norm", "gated", "accumulate", "last_row", "prepared", "query_norm")
                if kind.get(name)
            ]
            if op["kind_type"] in ("Attention", "SharedAttention"):
                flags += ["rotate"] * ("cosines" in kind)
                flags += [name for name in ("window", "soft_cap", "sinks") if kind.get(name)]
            if op["kind_type"] == "Elementwise":
                flags.append(kind["function"])
            lines.append(" ".join([op["kind_type"], *flags, op["name"]]))
        return lines

    @cached_property
    def weights(self) -> list["Weight"]:
        return [unpack(self.data[item["key"]], **_facts(item)) for item in self.program["weights"]]

    def step(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        """A whole model's call: int64 (1, seq_len) and (1,) to logits (1, vocab_size)."""
        (rows,) = self.run(tokens.numpy()[0], int(input_pos))
        return torch.from_numpy(rows[-1:])

    def run(self, tokens: NDArray, start_pos: int) -> list[NDArray]:
        """The outputs, each (rows, width)."""
        slots: dict[int, NDArray] = {}
        prepared: NDArray | None = None
        for op in self.program["ops"]:
            kind = op["kind"]
            if op["kind_type"] == "Linear" and not kind["prepared"]:
                prepared = self._prepare(kind, slots)
            name = f"_{op['kind_type'].lower()}"
            result = getattr(self, name)(kind, slots, prepared, tokens, start_pos)
            width = self.program["slots"][kind["output"]]
            assert result.dtype == np.float32 and result.shape[1] == width, op["name"]
            slots[kind["output"]] = result
        return [slots[item["slot"]] for item in self.program["outputs"]]

    def _floats(self, place: Json) -> NDArray:
        blob = np.frombuffer(self.data[self.program["floats"]], np.float32)
        assert place["offset"] + place["length"] <= blob.size
        return blob[place["offset"] : place["offset"] + place["length"]]

    def _prepare(self, kind: Json, slots: dict[int, NDArray]) -> NDArray:
        x = slots[kind["input"]]
        if kind["last_row"]:
            x = x[-1:]
        return norm(x, self._floats(kind["norm"]), kind["norm_eps"]) if "norm" in kind else x

    def _embedding(self, kind: Json, slots: Any, _: Any, tokens: NDArray, __: int) -> NDArray:
        return self.weights[kind["weight"]].dequantized()[tokens]

    def _norm(self, kind: Json, slots: dict[int, NDArray], *_: Any) -> NDArray:
        x = slots[kind["input"]]
        heads = x.reshape(len(x), kind["num_heads"], -1)
        weight = self._floats(kind["weight"]) if "weight" in kind else np.float32(1)
        return norm(heads, weight, kind["eps"]).reshape(x.shape)

    def _layernorm(self, kind: Json, slots: dict[int, NDArray], *_: Any) -> NDArray:
        x = slots[kind["input"]]
        heads = x.reshape(len(x), kind["num_heads"], -1)
        centered = heads - heads.mean(axis=-1, keepdims=True)
        weight = self._floats(kind["weight"]) if "weight" in kind else np.float32(1)
        bias = self._floats(kind["bias"]) if "bias" in kind else np.float32(0)
        return (norm(centered, weight, kind["eps"]) + bias).reshape(x.shape)

    def _elementwise(self, kind: Json, slots: dict[int, NDArray], *_: Any) -> NDArray:
        x, number = slots[kind["input"]], np.float32(kind["number"])
        match kind["function"]:
            case "add":
                return x + slots[kind["other"]]
            case "multiply":
                other = slots[kind["other"]]
                return (x.reshape(*other.shape, -1) * other[..., None]).reshape(x.shape)
            case "scale":
                return x * number
            case "soft_cap":
                return number * np.tanh(x / number)
        return activation(kind["function"], x)

    def _xielu(self, kind: Json, slots: dict[int, NDArray], *_: Any) -> NDArray:
        x = slots[kind["input"]]
        alpha_p, alpha_n, beta = (np.float32(kind[name]) for name in ("alpha_p", "alpha_n", "beta"))
        positive, negative = np.maximum(x, 0), np.minimum(x, 0)
        curved = positive * positive * alpha_p + (np.expm1(negative) - negative) * alpha_n
        return curved + x * beta

    def _glu(self, kind: Json, slots: dict[int, NDArray], *_: Any) -> NDArray:
        return activation(kind["activation"], slots[kind["gate"]]) * slots[kind["up"]]

    def _selectlast(self, kind: Json, slots: dict[int, NDArray], *_: Any) -> NDArray:
        return slots[kind["input"]][-1:]

    def _rotate(
        self, kind: Json, slots: dict[int, NDArray], _: Any, tokens: Any, start_pos: int
    ) -> NDArray:
        x = slots[kind["input"]]
        heads = x.reshape(len(x), kind["num_heads"], -1)
        return self._rotated(kind, heads, start_pos).reshape(x.shape)

    def _rotated(self, kind: Json, x: NDArray, start_pos: int) -> NDArray:
        """Heads (rows, heads, head_dim) by the angles of their positions."""
        half, end = x.shape[2] // 2, start_pos + len(x)
        cos, sin = (
            self._floats(kind[table]).reshape(-1, 1, half)[start_pos:end]
            for table in ("cosines", "sines")
        )
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def _linear(self, kind: Json, slots: dict[int, NDArray], prepared: NDArray, *_: Any) -> NDArray:
        y = self.weights[kind["weight"]].product(prepared)
        if "bias" in kind:
            y = y + self._floats(kind["bias"])
        if kind["gated"]:
            halves = y.reshape(len(y), -1, 2, 16)
            gate, up = (halves[:, :, i].reshape(len(y), -1) for i in (0, 1))
            width = self.program["slots"][kind["output"]]
            y = (activation(kind["activation"], gate) * up)[:, :width]
        elif kind["activation"] != "add":
            y = activation(kind["activation"], y)
        return y + slots[kind["output"]] if kind["accumulate"] else y

    def _convolution(
        self, kind: Json, slots: dict[int, NDArray], _: Any, tokens: Any, start_pos: int
    ) -> NDArray:
        opening, gate, x = np.split(slots[kind["input"]], 3, axis=1)
        before = self.states[kind["state"]]
        before[: max(0, len(before) - start_pos)] = 0
        products = np.concatenate([before, opening * x])
        taps = self._floats(kind["weight"]).reshape(len(before) + 1, -1)
        mixed = sum(products[i : i + len(x)] * tap for i, tap in enumerate(taps))
        self.states[kind["state"]] = products[len(x) :]
        bias = self._floats(kind["bias"]) if "bias" in kind else np.float32(0)
        return gate * (mixed + bias)

    def _experts(self, kind: Json, slots: dict[int, NDArray], *_: Any) -> NDArray:
        x, scores = slots[kind["input"]], slots[kind["scores"]]
        count, chosen = scores.shape[1], kind["num_experts_per_tok"]
        out = np.zeros((len(x), self.program["slots"][kind["output"]]), np.float32)
        sigmoid = kind["sigmoid"]
        bias = self._floats(kind["choice_bias"]) if "choice_bias" in kind else np.float32(0)
        for row, own in enumerate(activation("sigmoid", scores) if sigmoid else scores):
            best = np.sort(np.argsort(-(own + bias), kind="stable")[:chosen])
            among = own[best] if kind["normalized"] or sigmoid else own
            if sigmoid:
                total = among.sum() + np.float32(1e-6) if kind["normalized"] else np.float32(1)
                shares = among / total * np.float32(kind["share_scale"])
            else:
                shares = np.exp(among - among.max()) / np.exp(among - among.max()).sum()
            for place, expert in enumerate(best):
                share = shares[place if kind["normalized"] or sigmoid else expert]
                out[row] += share * self._expert(kind, x[row : row + 1], expert, count)[0]
        return out

    def _expert(self, kind: Json, x: NDArray, expert: int, count: int) -> NDArray:
        """One expert's outputs of rows x."""

        def product(which: str, x: NDArray) -> NDArray:
            weight = self.weights[kind[f"{which}_weight"]].part(expert, count)
            y = weight.product(x)
            if f"{which}_bias" not in kind:
                return y
            return y + self._floats(kind[f"{which}_bias"]).reshape(count, -1)[expert]

        halves = product("up", x).reshape(len(x), -1, 2, 16)
        gate, up = (halves[:, :, i].reshape(len(x), -1) for i in (0, 1))
        if kind["limit"]:
            limit = np.float32(kind["limit"])
            gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit) + 1
        inner = self.program["weights"][kind["down_weight"]]["columns"]
        y = product("down", (activation(kind["activation"], gate) * up)[:, :inner])
        return y[:, : self.program["slots"][kind["output"]]]

    def _delta(
        self, kind: Json, slots: dict[int, NDArray], _: Any, tokens: Any, start_pos: int
    ) -> NDArray:
        before, state = self.states[kind["inputs"]], self.states[kind["state"]]
        before[: max(0, len(before) - start_pos)] = 0
        if start_pos == 0:
            state[:] = 0
        rows = np.concatenate([before, slots[kind["qkv"]]])
        self.states[kind["inputs"]] = rows[-len(before) :]
        taps = self._floats(kind["weight"]).reshape(len(before) + 1, -1)
        count = len(rows) - len(before)
        mixed = activation("silu", sum(rows[i : i + count] * tap for i, tap in enumerate(taps)))
        key_heads, key_dim, heads, value_dim = (
            kind[name]
            for name in ("num_key_heads", "key_head_dim", "num_value_heads", "value_head_dim")
        )
        keys = key_heads * key_dim
        q, k = (
            part.reshape(count, key_heads, key_dim).repeat(heads // key_heads, axis=1)
            for part in (mixed[:, :keys], mixed[:, keys : 2 * keys])
        )
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + np.float32(1e-6)) for x in (q, k))
        v = mixed[:, 2 * keys :].reshape(count, heads, value_dim)
        softplus = np.logaddexp(0, slots[kind["a"]] + self._floats(kind["dt_bias"]))
        decay = np.exp(-np.exp(self._floats(kind["a_log"])) * softplus)[..., None, None]
        beta = (1 / (1 + np.exp(-slots[kind["b"]])))[..., None]
        blocks = state.reshape(heads, -1, key_dim, 16).transpose(0, 2, 1, 3)
        s = blocks.reshape(heads, key_dim, -1)[:, :, :value_dim]
        out = np.zeros_like(v)
        for row in range(count):
            s = s * decay[row]
            delta = beta[row] * (v[row] - np.einsum("hkv,hk->hv", s, k[row]))
            s = s + np.einsum("hk,hv->hkv", k[row], delta)
            out[row] = np.einsum("hkv,hk->hv", s, q[row]) / np.sqrt(np.float32(key_dim))
        padded = np.zeros((heads, key_dim, -(-value_dim // 16) * 16), np.float32)
        padded[:, :, :value_dim] = s
        blocks = padded.reshape(heads, key_dim, -1, 16).transpose(0, 2, 1, 3)
        self.states[kind["state"]] = np.ascontiguousarray(blocks).reshape(1, -1)
        return out.reshape(count, -1).astype(np.float32)

    def _columns(self, kind: Json, slots: dict[int, NDArray], *_: Any) -> NDArray:
        end = kind["first"] + self.program["slots"][kind["output"]]
        return slots[kind["input"]][:, kind["first"] : end]

    def _sharedattention(
        self, kind: Json, slots: dict[int, NDArray], _: Any, tokens: Any, start_pos: int
    ) -> NDArray:
        x = slots[kind["query"]]
        query = x.reshape(len(x), kind["num_attention_heads"], -1)
        if "query_norm" in kind:
            query = norm(query, self._floats(kind["query_norm"]), kind["norm_eps"])
        if "cosines" in kind:
            query = self._rotated(kind, query, start_pos)
        return self._attended(kind, query, start_pos)

    def _attention(
        self, kind: Json, slots: dict[int, NDArray], _: Any, tokens: Any, start_pos: int
    ) -> NDArray:
        keys, values = self.caches[kind["cache"]]
        key_heads, head_dim = keys.shape[1:]
        heads = {
            "query": kind["num_attention_heads"],
            "key": key_heads,
            "value": key_heads,
        }
        taken = {}
        for name, count in heads.items():
            columns = slots[kind[name]][:, kind[f"{name}_offset"] :][:, : count * head_dim]
            taken[name] = columns.reshape(-1, count, head_dim)
        length = len(taken["query"])
        end = start_pos + length
        for name in ("query", "key"):
            x = taken[name]
            if f"{name}_norm" in kind:
                x = norm(x, self._floats(kind[f"{name}_norm"]), kind["norm_eps"])
            taken[name] = self._rotated(kind, x, start_pos) if "cosines" in kind else x
        keys[start_pos:end], values[start_pos:end] = taken["key"], taken["value"]
        return self._attended(kind, taken["query"], start_pos)

    def _attended(self, kind: Json, query: NDArray, start_pos: int) -> NDArray:
        """Queries (rows, heads, head_dim) attend to the cache."""
        length = len(query)
        end = start_pos + length
        keys, values = self.caches[kind["cache"]]
        group = query.shape[1] // keys.shape[1]
        k, v = (cache[:end].repeat(group, axis=1) for cache in (keys, values))
        scores = np.einsum("qhd,khd->hqk", query, k) * np.float32(kind["scale"])
        if kind["soft_cap"]:
            scores = kind["soft_cap"] * np.tanh(scores / kind["soft_cap"])
        ages = start_pos + np.arange(length)[:, None] - np.arange(end)
        scores[:, (ages < 0) | (ages >= (kind["window"] or np.inf))] = -np.inf
        sinks = self._floats(kind["sinks"])[:, None, None] if "sinks" in kind else -np.inf
        largest = np.maximum(scores.max(axis=2, keepdims=True), sinks)
        scores = np.exp(scores - largest)
        scores /= scores.sum(axis=2, keepdims=True) + np.exp(sinks - largest)
        return np.einsum("hqk,khd->qhd", scores, v).reshape(length, -1).astype(np.float32)


def norm(x: NDArray, weight: NDArray, eps: float) -> NDArray:
    mean = np.mean(x * x, axis=-1, keepdims=True, dtype=np.float32)
    return x * (1 / np.sqrt(mean + np.float32(eps))) * weight


def activation(name: str, x: NDArray) -> NDArray:
    """By the name that the schema's enum Function has."""
    functions: dict[str, Any] = {
        "silu": F.silu,
        "gelu": F.gelu,
        "gelu_tanh": partial(F.gelu, approximate="tanh"),
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "relu": F.relu,
        "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    }
    result: NDArray = functions[name](torch.from_numpy(x)).numpy()
    return result


def read_calls(path: Path, directory: Path) -> list[OpList]:
    """Every delegate call of a `.pte`, in its order; what flatc writes goes to `directory`."""
    file = deserialize_pte_binary(path.read_bytes())
    assert file.named_data is not None
    buffers = file.named_data.buffers
    data = {k: bytes(buffers[v.buffer_index]) for k, v in file.named_data.pte_data.items()}
    flatc = Path(executorch.__path__[0]) / "data" / "bin" / "flatc"
    calls = []
    for delegate in file.program.execution_plan[0].delegates:
        assert delegate.id == "ThimbleCpuBackend"
        blob = bytes(file.program.backend_delegate_data[delegate.processed.index].data)
        assert blob[4:8] == b"THCP"
        (directory / "call.bin").write_bytes(blob)
        options = ["--json", "--strict-json", "--defaults-json", "-o", str(directory)]
        command = [flatc, *options, SCHEMA, "--", directory / "call.bin"]
        subprocess.run(command, check=True, timeout=60)
        calls.append(OpList(json.loads((directory / "call.json").read_text()), data))
    return calls


def _facts(item: Json) -> Json:
    return {name: item[name] for name in ("format", "rows", "columns", "group_size")}
