"""The part of LFM2-VL that sees: the rows of transformers, of pictures of any size, in one call."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.exported import Quiet

from exporter.errors import ExportError
from exporter.models.siglip2 import FAMILY, Tower, place_weights
from exporter.module.options import ModuleOptions
from exporter.module.pipeline import export_made
from exporter.module.shorter import Shorter
from exporter.module.source import Inputs, Made
from runtime import Program

transformers = pytest.importorskip("transformers")
PATCH, TRAINED, MOST = 4, 4, 64
SHAPES = [(8, 8), (2, 2), (2, 20), (14, 4), (6, 10)]  # of patches: height, width


def model_of(layer_norm: bool = True) -> Any:
    torch.manual_seed(3)
    vision = {
        **{"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2},
        **{"num_attention_heads": 3, "num_patches": TRAINED**2, "patch_size": PATCH},
        "vision_use_head": False,
    }
    text = {
        **{"model_type": "lfm2", "hidden_size": 64, "intermediate_size": 96},
        **{"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2},
        **{"vocab_size": 300, "layer_types": ["conv"]},
    }
    config = transformers.Lfm2VlConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=259,
        projector_hidden_size=40,
        projector_use_layernorm=layer_norm,
    )
    model = transformers.Lfm2VlForConditionalGeneration(config).eval()
    with torch.no_grad():  # so that a row depends on its pixels and its place
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


def tower_of(model: Any) -> Tower:
    spec = FAMILY.spec(model.config.to_dict())
    weights = model.state_dict()
    tower = Tower(spec)
    named = {name: FAMILY.stored(spec, name).among(weights) for name in tower.state_dict()}
    tower.load_state_dict({name: weights[one.names[0]] for name, one in named.items()})
    tower.fit(0)
    return tower.eval().requires_grad_(False)


def pictures() -> list[torch.Tensor]:
    """Patches of each shape, (height, width, numbers)."""
    random = torch.Generator().manual_seed(1)
    return [torch.rand(*shape, 3 * PATCH**2, generator=random) * 2 - 1 for shape in SHAPES]


def rows_of(model: Any, patches: list[torch.Tensor]) -> list[torch.Tensor]:
    """As transformers computes them, of all pictures together."""
    padded = torch.zeros(len(patches), MOST, 3 * PATCH**2)
    mask = torch.zeros(len(patches), MOST, dtype=torch.int32)
    for index, one in enumerate(patches):
        flat = one.flatten(0, 1)
        padded[index, : len(flat)] = flat
        mask[index, : len(flat)] = 1
    shapes = torch.tensor([one.shape[:2] for one in patches])
    with torch.no_grad():
        return list(model.get_image_features(padded, shapes, mask).pooler_output)


def squares(patches: torch.Tensor) -> torch.Tensor:
    """As the tower reads them."""
    height, width = patches.shape[:2]
    both = torch.cat([patches, place_weights(TRAINED, height, width)], 2)
    blocks = both.unflatten(1, (-1, 2)).unflatten(0, (-1, 2)).transpose(1, 2)
    return blocks.reshape(1, height * width, -1).contiguous()


@pytest.mark.parametrize("layer_norm", [True, False])
def test_rows_are_those_of_transformers(layer_norm: bool) -> None:
    model = model_of(layer_norm)
    tower = tower_of(model)
    for patches, expected in zip(pictures(), rows_of(model, pictures()), strict=True):
        torch.testing.assert_close(tower(squares(patches))[0], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.check
def test_one_call_computes_pictures_of_any_size(tmp_path: Path, cpp_build: Path) -> None:
    """What it computes of a picture is as much as its patches are."""
    model = model_of()
    made = Made(
        tower_of(model),
        Inputs((squares(pictures()[0]),)),
        None,
        (),
        shorter=Shorter("patches", ("patches",), 4),
    )
    options = ModuleOptions(source=None, out=tmp_path / "m.pte", delegate="cpu", quant="none")  # type: ignore[arg-type]
    result = export_made(options, tmp_path / "x", lambda: {"vision_encoder": made}, {}, Quiet())
    delegation = result.methods["vision_encoder"].delegation
    assert delegation.calls == 1 and not delegation.left
    with Program(result.out, threads=1) as program:
        encode = program.method("vision_encoder")
        for patches, expected in zip(pictures(), rows_of(model, pictures()), strict=True):
            rows = np.array(encode(squares(patches).numpy())[0])
            assert rows.shape == tuple(expected.shape)
            np.testing.assert_allclose(rows, expected, atol=1e-4 * expected.abs().max())


def test_what_is_not_supported() -> None:
    config = model_of().config.to_dict()
    vision = config["vision_config"]
    for sentence, fields in {
        "num_patches of vision_config is 15; it must be a square": {
            "vision_config": {**vision, "num_patches": 15}
        },
        "projector_hidden_act 'relu' is not supported": {"projector_hidden_act": "relu"},
        "image_token_id is 300, but vocab_size is 300": {"image_token_id": 300},
        "hidden_size 47 of vision_config is not a multiple": {
            "vision_config": {**vision, "hidden_size": 47}
        },
    }.items():
        with pytest.raises(ExportError, match=sentence):
            FAMILY.spec({**config, **fields})
