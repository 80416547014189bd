"""The kinds of what sees, each by the config's model_type."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exporter.catalogue.seeing import SEEING
from exporter.catalogue.weight_files import CONFIG
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models import gemma4_sight, gemma_sight, qwen_sight, siglip, siglip2
from exporter.models.family import Family
from exporter.module.shorter import Shorter
from exporter.seeing.picture_settings import PictureSettings

OfPatches = siglip2.Tower | qwen_sight.Tower | gemma4_sight.Tower
Tower = siglip.Tower | gemma_sight.Tower | OfPatches
TowerSpec = siglip.TowerSpec | siglip2.TowerSpec | qwen_sight.TowerSpec | gemma4_sight.TowerSpec


@dataclass(frozen=True)
class Kind:
    """
    Attributes:
        parts: of a checkpoint, by their names, or those below model.
    """

    family: Family[Any]
    parts: tuple[str, ...]


_KINDS = {
    "gemma_sight": Kind(gemma_sight.FAMILY, gemma_sight.PARTS),
    "gemma4_sight": Kind(gemma4_sight.FAMILY, gemma4_sight.PARTS),
    "siglip": Kind(siglip.FAMILY, siglip.PARTS),
    "siglip2": Kind(siglip2.FAMILY, siglip2.PARTS),
    "qwen_sight": Kind(qwen_sight.FAMILY, qwen_sight.PARTS),
}


def kind_of(directory: Path) -> Kind:
    """Returns that of a directory that is_seeing()."""
    return _KINDS[SEEING[read_object(directory / CONFIG)["model_type"]]]


def make_tower(spec: TowerSpec) -> Tower:
    """Returns the module, with the weights that a checkpoint has."""
    if isinstance(spec, gemma_sight.TowerSpec):
        return gemma_sight.Tower(spec)
    if isinstance(spec, siglip.TowerSpec):
        return siglip.Tower(spec)
    if isinstance(spec, gemma4_sight.TowerSpec):
        return gemma4_sight.Tower(spec)
    if isinstance(spec, qwen_sight.TowerSpec):
        return qwen_sight.Tower(spec)
    return siglip2.Tower(spec)


def fitted(spec: TowerSpec, settings: PictureSettings) -> TowerSpec:
    """Returns the spec with as many learned places as pictures of these settings have.

    Raises:
        ExportError: the model has fewer.
    """
    if settings.patches is None or not isinstance(spec, gemma4_sight.TowerSpec):
        return spec
    along = settings.patches.most_rows * spec.scale_factor
    if along > spec.trained:
        raise ExportError(
            f"position_embedding_size is {spec.trained}, but a picture of max_soft_tokens "
            f"{settings.patches.most_rows} may have {along} patches in a row; take both from the "
            "same model."
        )
    return replace(spec, trained=along)


def example_of(spec: TowerSpec, settings: PictureSettings) -> Tensor:
    """Returns numbers of chance, as the module takes them; the most, where pictures differ."""
    generator = torch.Generator().manual_seed(0)
    shape = [3, settings.side, settings.side]
    if isinstance(spec, siglip2.PatchSpec):
        shape = [most_rows(spec, settings) * spec.scale_factor**2, spec.numbers]
    return 2 * torch.rand(1, *shape, generator=generator) - 1


def most_rows(spec: TowerSpec, settings: PictureSettings) -> int:
    """Returns how many rows a tile or a whole picture becomes at most."""
    tile, patches = spec.rows(settings.side), settings.patches
    if patches is None:
        return tile
    return max(patches.most_rows, tile if patches.grids else 0)


def shorter_of(spec: TowerSpec) -> Shorter | None:
    """Returns which inputs may have fewer rows than the example."""
    if isinstance(spec, siglip2.PatchSpec):
        return Shorter("patches", ("patches",), spec.scale_factor**2)
    return None
