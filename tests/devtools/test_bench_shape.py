"""What the benchmark knows of a model: what a token reads and computes, by its kinds of layers."""

from pathlib import Path
from typing import Any

import pytest

from devtools.bench.shape import SHAPE_FIELDS, Model, Shape, describe_model
from devtools.commands.peers import PeerOptions
from devtools.commands.rivals import RivalOptions, make_rivals
from devtools.errors import BadRequest


def described(**facts: Any) -> Model:
    """A file of the CPU delegate: a byte for a weight, 2 for a number in a cache."""
    model: dict[str, Any] = {name: 8 for name in SHAPE_FIELDS} | {"name": "m"}
    model |= {"tie_word_embeddings": False, "parameters": 9000}
    quantization = {"scheme": "rtn8", "bits_per_weight": 8.0, "linear_bits_per_weight": 8.0}
    quantization |= {"embedding_bytes": 64, "layer_input_bytes": 2000, "group_size": 32}
    quantization |= {"head_bits": 8}
    delegation = {"delegate": "cpu"}
    report = {"model": model | facts, "quantization": quantization, "delegation": delegation}
    said = {
        "report": report,
        "runs_with": "float16 cache of 99 positions",
        "file_bytes": 1,
        "max_seq_len": 9,
    }
    return describe_model({**said, "max_context_len": 99}, "model.pte")


def test_a_model_knows_its_work() -> None:
    """Llama 3.2 1B: 0.973 G weights in its layers, 0.263 G in its head (the model card)."""
    shape = Shape(2048, 8192, 16, 32, 8, 64, 128256, True)
    model = described(**shape.to_dict(), parameters=1_235_814_400)
    assert model.shape == shape
    assert model.head_weights == 262_668_288
    assert model.weights_per_token == 1_235_814_400 - 262_668_288
    assert model.prefill_operations(128) == 2 * (973_146_112 * 128 + 262_668_288)


def test_a_window_bounds_what_decoding_reads() -> None:
    model = described(num_hidden_layers=2, sliding_window=[5, 0])
    assert model.cache_bytes_per_position == 2 * 2 * 8 * 8 * 2  # keys, values, layers, heads, dim
    assert model.context_bytes(4) == 4 * 512
    assert model.context_bytes(9) == (5 + 9) * 256


def test_states_are_read_and_written_and_have_no_positions() -> None:
    model = described(num_hidden_layers=5, gated_delta_rules=3, delta_state_size=100)
    assert model.state_bytes == 3 * 100 * 4 * 2
    assert model.cache_bytes_per_position == 2 * 256  # of the two layers with attention
    assert model.context_bytes(10) == 2400 + 10 * 512
    assert model.shape is None


def test_layers_that_share_keys_keep_none_and_a_table_is_not_read() -> None:
    sizes = {"head_dim": [8, 16, 8], "sliding_window": [5, 0, 5], "num_kv_shared_layers": 1}
    model = described(num_hidden_layers=3, vocab_size=24, hidden_size_per_layer_input=4, **sizes)
    assert model.cache_bytes_per_position == 256 + 512
    # 3 layers x 4 numbers: a table of 24 rows and a projection of 8 columns share 2000 bytes.
    assert model.weight_bytes_per_token == 9000 - 64 - 1500
    assert model.weights_per_token == 9000 - 2 * 8 * 24 - 3 * 4 * 24
    assert model.shape is None


def test_of_experts_the_chosen_ones_are_read() -> None:
    model = described(num_hidden_layers=2, num_experts=5, num_experts_per_tok=2)
    idle = 2 * 3 * 3 * 8 * 8  # layers, experts, matrices of 8 x 8
    assert model.weight_bytes_per_token == 9000 - 64 - idle
    assert model.weights_per_token == 9000 - 2 * 64 - idle
    assert model.shape is None


def test_no_rival_is_made_of_layers_of_several_kinds(tmp_path: Path) -> None:
    model = described(num_hidden_layers=5, gated_delta_rules=3, delta_state_size=100)
    options = RivalOptions(Path(), "default", False, PeerOptions(tmp_path, (), ()))
    with pytest.raises(BadRequest, match="of several kinds or sizes"):
        make_rivals("xnnpack", tmp_path / "model.pte", model, options, print)
