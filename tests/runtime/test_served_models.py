"""What the server knows of a model before it loads it."""

from pathlib import Path

import pytest

from delegates import get_limits
from exporter.catalogue.presets import PRESETS
from exporter.plan.kv_caches import kv_caches, states
from runtime.commands.served_models import cache_bytes
from runtime.server.model_process import ModelOptions

LENGTHS = {"max_context_len": 8192, "max_seq_len": 512}


@pytest.mark.parametrize("name", ["llama3.2-1b", "gemma3-1b", "gemma4-e2b", "qwen3.5-0.8b"])
@pytest.mark.parametrize(
    ("kv_cache", "item"), [("default", 2), ("int8", 1), ("int4", 0.5), ("int8-int4", 0.75)]
)
def test_the_caches_of_a_file_are_those_of_its_export(
    name: str, kv_cache: str, item: float
) -> None:
    """Of layers with windows, with the keys of others, and without attention too."""
    config = PRESETS[name].config
    report = {"model": {**config.dimensions(), **LENGTHS}, "quantization": {"scheme": "gptq4"}}
    found = cache_bytes(report, ModelOptions(Path("model.pte"), kv_cache=kv_cache))
    spec = config.for_context(LENGTHS["max_context_len"])
    caches = kv_caches(spec, get_limits("cpu"), item, *LENGTHS.values())
    exported = sum(cache.size for cache in caches) + sum(state.size for state in states(spec))
    # Short convolutions keep a little more, which is more beside caches of fewer bits.
    assert found == pytest.approx(exported, rel=0.02 if item >= 1 else 0.03)
    windowed = any(cache.window for cache in caches)
    everywhere = kv_caches(spec, get_limits("xnnpack"), item, *LENGTHS.values())
    assert windowed == (found < 0.6 * sum(cache.size for cache in everywhere))
