"""The text of the chat template in a `.pte`, without what compiles templates."""

import struct
from pathlib import Path

from flatbuffers.table import Table

from exporter.file.pte import CHAT_TEMPLATE, read_blob

SOURCE_SLOT = 3  # of schemas/chat_template.fbs


def read_template(path: Path) -> str | None:
    """Returns the template's text; None: the file is of a version that did not keep it.

    Raises:
        ExportError: it is not one of our `.pte` files, is damaged, or has no template.
    """
    data = read_blob(path, CHAT_TEMPLATE)
    root = Table(data, struct.unpack_from("<I", data)[0])
    offset = root.Offset(4 + 2 * SOURCE_SLOT)
    return root.String(root.Pos + offset).decode() if offset else None
