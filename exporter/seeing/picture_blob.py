"""Writes how a model reads pictures: schemas/picture.fbs."""

import flatbuffers
import numpy as np

from exporter.file.flatbuffer_tables import Flag, Number, table
from exporter.models.siglip import TowerSpec
from exporter.seeing.picture_settings import PictureSettings

PICTURE = "thimble.picture"  # the name of the blob in a file
_VERSION = 1
_IDENTIFIER = b"THPI"


def write_picture(
    settings: PictureSettings, spec: TowerSpec, question: tuple[str, str] = ("", "")
) -> bytes:
    """Returns the flatbuffer.

    Args:
        question: as question_form() returns it.
    """
    builder = flatbuffers.Builder(1024)
    numbers = [
        builder.CreateNumpyVector(np.array(values, np.float32))
        for values in (settings.mean, settings.std)
    ]
    fake, whole = settings.fake, settings.fake + settings.whole
    texts = [
        builder.CreateString(text)
        for text in (
            *(settings.place, fake + "<row_{row}_col_{column}>", "\n", "\n" + whole, whole),
            *(fake, *question),
        )
    ]
    root = table(
        builder,
        Number("Uint32", _VERSION),
        Number("Uint32", settings.longest_edge),
        Number("Uint32", settings.side),
        Flag(settings.tiles),
        Number("Uint8", settings.filter),
        Number("Float64", settings.rescale),
        *numbers,
        Number("Uint32", spec.rows(settings.side)),
        Number("Int32", spec.image_token_id),
        *texts,
    )
    builder.Finish(root, file_identifier=_IDENTIFIER)
    return bytes(builder.Output())
