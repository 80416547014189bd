"""Presets: their sizes are the published ones, and names lead to them."""

from pathlib import Path

import pytest
import torch

from exporter.catalogue.names import ALIASES
from exporter.catalogue.presets import PRESETS, resolve_model
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM

# As the model cards and the hub state them; a tied head counts once.
PARAMETERS = {
    "llama2-7b": 6_738_415_616,
    "llama3-8b": 8_030_261_248,
    "llama3.1-8b": 8_030_261_248,
    "llama3.1-70b": 70_553_706_496,
    "llama3.2-1b": 1_235_814_400,
    "llama3.2-3b": 3_212_749_824,
    "llama3.3-70b": 70_553_706_496,
    "mistral-7b": 7_248_023_552,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3.5-0.8b": 752_393_024,  # without the vision tower and the head of more tokens
    "gemma4-e2b": 4_628_569_379,  # without the vision and audio towers
    "smollm2-135m": 134_515_008,
    "smollm2-360m": 361_821_120,
    "smollm2-1.7b": 1_711_376_384,
    "smollm3-3b": 3_075_098_624,
    "phi3-mini": 3_821_079_552,
    "phi4-mini": 3_836_021_760,
    "granite3.3-2b": 2_533_539_840,
    "granite4-micro": 3_402_836_480,
    "olmo2-1b": 1_484_916_736,
    "olmo3-7b": 7_298_011_136,
    "gemma3-270m": 268_098_176,
    "gemma3-1b": 999_885_952,
    "gemma3-4b": 3_880_263_168,  # without the vision tower
    "exaone4-1.2b": 1_279_391_488,
    "ministral3-3b": 3_429_006_336,  # without the vision tower
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_published_number_of_parameters(name: str) -> None:
    with torch.device("meta"):
        model = CausalLM(PRESETS[name].config)
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize(
    ("alias", "name"),
    [("llama2", "llama2-7b"), ("llama3", "llama3.2-1b"), ("LLaMA3", "llama3.2-1b")],
)
def test_an_alias_is_its_preset(alias: str, name: str) -> None:
    assert resolve_model(alias) is PRESETS[name]


def test_aliases_lead_to_presets() -> None:
    assert set(ALIASES.values()) <= set(PRESETS)


def test_a_directory_is_a_model(shared_data: Path) -> None:
    directory = shared_data / "stories260K"
    model = resolve_model(str(directory))
    assert (model.name, model.source) == ("stories260K", str(directory))
    assert model.config.layers[0].feed_forward.intermediate_size == 172


def test_an_unknown_name_gets_close_ones_and_the_list() -> None:
    with pytest.raises(ExportError) as raised:
        resolve_model("lama3.2-1b")
    message = str(raised.value)
    assert message.startswith("There is no model 'lama3.2-1b' (did you mean llama3.2-1b or ")
    assert all(name in message for name in (*ALIASES, *PRESETS))


def test_a_name_like_nothing_gets_the_list_alone() -> None:
    with pytest.raises(ExportError, match="^There is no model '42'; name one of llama2, llama3, "):
        resolve_model("42")
