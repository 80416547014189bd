"""Writes how a model reads pictures: schemas/picture.fbs."""

import flatbuffers
import numpy as np

from exporter.file.flatbuffer_tables import Flag, Number, table
from exporter.models import gemma4_sight, qwen_sight, siglip2
from exporter.seeing.patch_settings import PatchSettings
from exporter.seeing.picture_settings import PictureSettings
from exporter.seeing.question import Question
from exporter.seeing.towers import TowerSpec

PICTURE = "thimble.picture"  # the name of the blob in a file
_VERSION, _PATCH_VERSION, _TURNED_VERSION, _BOTH_WAYS_VERSION, _NEWEST_VERSION = range(1, 6)
_IDENTIFIER = b"THPI"
_NO_QUESTION = Question()


def write_picture(
    settings: PictureSettings, spec: TowerSpec, question: Question = _NO_QUESTION
) -> bytes:
    """Returns the flatbuffer."""
    builder = flatbuffers.Builder(1024)
    numbers = [
        builder.CreateNumpyVector(np.array(values, np.float32))
        for values in (settings.mean, settings.std)
    ]
    text, patches = settings.text, None
    texts = [
        builder.CreateString(one)
        for one in (
            *(text.place, text.before_tile, text.after_row, text.before_whole, text.before_only),
            *(text.after_picture, question.before, question.after),
        )
    ]
    before = builder.CreateString(text.before_picture) if text.before_picture else None
    if settings.patches is not None and isinstance(spec, siglip2.PatchSpec):
        patches = _patches(builder, settings.patches, spec)
    version = _VERSION if patches is None else _PATCH_VERSION
    axes: int | None = None
    question_place = builder.CreateString(question.place) if question.place else None
    if isinstance(spec, qwen_sight.TowerSpec):
        axes = builder.CreateNumpyVector(np.array(spec.axes, np.uint8))
    if axes is not None or question_place is not None:
        version = _TURNED_VERSION
    row_place = builder.CreateString(text.row_place) if text.row_place else None
    before_text = builder.CreateString(question.before_text) if question.before_text else None
    if row_place is not None or spec.both_ways:
        version = _BOTH_WAYS_VERSION
    blank: Number | None = None
    if isinstance(spec, gemma4_sight.TowerSpec):
        version, blank = _NEWEST_VERSION, Number("Int32", spec.blank)
    root = table(
        builder,
        Number("Uint32", version),
        Number("Uint32", settings.longest_edge),
        Number("Uint32", settings.side),
        Flag(settings.tiles),
        Number("Uint8", settings.filter),
        Number("Float64", settings.rescale),
        *numbers,
        Number("Uint32", spec.rows(settings.side)),
        Number("Int32", spec.image_token_id),
        *texts,
        before,
        Flag(settings.torch),
        patches,
        axes,
        question_place,
        row_place,
        Flag(spec.both_ways),
        blank,
        before_text,
    )
    builder.Finish(root, file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _patches(builder: flatbuffers.Builder, patches: PatchSettings, spec: siglip2.PatchSpec) -> int:
    turned: list[Number | Flag] = []
    if spec.theta is not None:
        turned = [
            Number("Float64", patches.least_pixels),
            Number("Float64", patches.most_pixels),
            Number("Uint32", spec.turned),
            Number("Float64", spec.theta),
            *([Flag(True)] if spec.by_axis else []),
        ]
    grids = builder.CreateNumpyVector(np.array(patches.grids, np.uint32).reshape(-1))
    return table(
        builder,
        Number("Uint32", patches.size),
        Number("Uint32", patches.square),
        Number("Uint32", patches.least_rows),
        Number("Uint32", patches.most_rows),
        Number("Float64", patches.tolerance),
        grids,
        Number("Uint32", spec.trained),
        *turned,
    )
