"""Vulkan: the graph in the file, parsed back, holds the whole decoder and its 4-bit weights."""

import re
from collections import Counter
from pathlib import Path

import pytest
from executorch.backends.vulkan.serialization.vulkan_graph_schema import VkGraph
from executorch.backends.vulkan.serialization.vulkan_graph_serialize import (
    extract_vk_flatbuffer,
    flatbuffer_to_vk_graph,
)
from executorch.exir._serialize._program import deserialize_pte_binary
from support.decoder_specs import SMALL, varied
from support.small_models import quantized_model, random_model

from delegates import DelegateError
from delegates.vulkan import LIMITS, load, lower
from exporter.capture.program import capture
from exporter.models.decoder import CausalLM
from quant.modules import QuantizedLinear
from quant.scheme import Scheme

LAYERS = 2
CONFIG = varied(SMALL, num_hidden_layers=LAYERS)


def vulkan_graph(model: CausalLM, path: Path) -> VkGraph:
    """The one graph of the file that a model lowers to."""
    lowered = lower(capture(model, 24, 16), {}, {}, with_etrecord=False)
    assert lowered.report.calls == 1
    linears = 7 * model.config.num_hidden_layers + 1
    assert lowered.report.linears == lowered.report.linears_delegated == linears
    path.write_bytes(lowered.program.buffer)
    program = deserialize_pte_binary(path.read_bytes()).program
    (delegate,) = program.execution_plan[0].delegates
    assert delegate.id == "VulkanBackend"
    blob = program.backend_delegate_data[delegate.processed.index].data
    return flatbuffer_to_vk_graph(extract_vk_flatbuffer(blob))


def operators(graph: VkGraph) -> Counter[str]:
    return Counter(call.name for call in graph.chain)


@pytest.mark.soak
def test_a_quantized_model(tmp_path: Path) -> None:
    model = quantized_model(random_model(CONFIG), Scheme("rtn4"))
    graph = vulkan_graph(model, tmp_path / "model.pte")
    counted = operators(graph)
    assert counted["et_vk.linear_dq8ca_q4gsw.default"] == 7 * LAYERS
    assert counted["aten.linear.default"] == 1  # the 8-bit head
    linears = [m for m in model.model.layers.modules() if isinstance(m, QuantizedLinear)]
    weights = sum(linear.values.numel() for linear in linears)
    stored = sum(constant.length for constant in graph.constants)
    assert weights / 2 < stored < weights / 2 + 8 * weights / 32 + 20000 + 4 * 96 * 64
    assert load(tmp_path / "model.pte") is None


@pytest.mark.soak
def test_a_float_model(tmp_path: Path) -> None:
    graph = vulkan_graph(random_model(SMALL), tmp_path / "model.pte")
    assert operators(graph)["aten.linear.default"] == 8


@pytest.mark.check
def test_outputs_that_its_packing_does_not_fit_are_one_sentence() -> None:
    model = quantized_model(random_model(varied(SMALL, intermediate_size=66)), Scheme("rtn4"))
    with pytest.raises(DelegateError) as refused:
        lower(capture(model, 24, 16), {}, {}, with_etrecord=False)
    assert re.fullmatch(
        r"Vulkan's lowering cannot take this model \([^\n]+\): export with another --delegate\.",
        str(refused.value),
    )


def test_8_bit_layers() -> None:
    with pytest.raises(DelegateError) as refused:
        LIMITS.check_weights(8, 16)
    assert str(refused.value) == (
        "vulkan supports weights of 4 or 32 bits, but these have 8: export with --quant rtn4."
    )
