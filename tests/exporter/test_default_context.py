"""The context of a file for which the user chose none."""

import pytest

from delegates import get_limits
from exporter.catalogue.presets import PRESETS
from exporter.plan.kv_caches import kv_caches
from exporter.plan.lengths import CACHES_SIZE, context_note, default_context


@pytest.mark.parametrize(
    ("preset", "delegate", "item_bytes", "context"),
    [
        ("smollm2-135m", "cpu", 1, 8192),  # the model's own
        ("phi3-mini", "cpu", 1, 4096),
        ("llama3.2-1b", "cpu", 1, 8192),
        ("llama3.2-1b", "cpu", 4, 7680),  # as many as 512 MB hold
        ("llama3.1-8b", "cpu", 1, 7424),
        ("llama3.1-70b", "cpu", 1, 2816),
        ("llama2-7b", "cpu", 2, 2048),  # no fewer
        ("gemma3-4b", "cpu", 4, 4608),  # most of its layers see a window
        ("qwen3.5-0.8b", "cpu", 4, 8192),  # most keep a state
        ("phi4-mini", "cpu", 1, 7424),  # longrope: both its tables are in the file
        ("phi4-mini", "coreml", 1, 2048),  # the longer one alone
        ("llama3.2-1b", "xnnpack", 4, 2048),
        ("llama2-7b", "xnnpack", 4, 2048),
        ("llama3.2-1b", "cpu,xnnpack", 1, 2048),
    ],
)
def test_the_context_by_default(preset: str, delegate: str, item_bytes: int, context: int) -> None:
    spec, limits = PRESETS[preset].config, get_limits(delegate)
    assert default_context(spec, limits, item_bytes) == context
    if 2048 < context < min(8192, spec.context_limit):
        sizes = [
            sum(cache.size for cache in kv_caches(spec, limits, item_bytes, length, length))
            for length in (context, context + 256)
        ]
        assert sizes[0] <= CACHES_SIZE < sizes[1]


def test_what_is_said_of_it() -> None:
    llama, cpu = PRESETS["llama3.2-1b"].config, get_limits("cpu")
    said = (
        "The file's context is {} of the model's 131072 tokens{}; --max-context-len sets another."
    )
    caches = ", because the caches of more take over 512 MB"
    assert context_note(llama, cpu, 8192) == said.format(8192, "")
    assert context_note(llama, cpu, 7680) == said.format(7680, caches)
    assert context_note(llama, get_limits("xnnpack"), 2048) == said.format(2048, "")
    assert context_note(PRESETS["smollm2-135m"].config, cpu, 8192) is None
