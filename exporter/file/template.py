"""The texts of the chat templates in a `.pte`, without what compiles templates."""

import struct
from pathlib import Path

from flatbuffers.table import Table

from exporter.file.pte import CHAT_TEMPLATE, read_blob

SOURCE_SLOT, TOOL_SOURCE_SLOT = 3, 8  # of schemas/chat_template.fbs


def read_templates(path: Path) -> tuple[str | None, str | None]:
    """Returns the template's text, and that of the one that takes its place where functions are
    given; None: there is none, or the file is of a version that did not keep it.

    Raises:
        ExportError: it is not one of our `.pte` files, is damaged, or has no template.
    """
    data = read_blob(path, CHAT_TEMPLATE)
    root = Table(data, struct.unpack_from("<I", data)[0])

    def text(slot: int) -> str | None:
        offset = root.Offset(4 + 2 * slot)
        return root.String(root.Pos + offset).decode() if offset else None

    return text(SOURCE_SLOT), text(TOOL_SOURCE_SLOT)
