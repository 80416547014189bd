"""Reads a text that a user names."""

import io
from pathlib import Path

from exporter.errors import ExportError


def read_text_file(path: Path, what: str = "calibration text") -> tuple[str, bytes]:
    """Returns a text, and its file's bytes.

    Args:
        what: the text is, as the option is called that named it.

    Raises:
        ExportError: it cannot be read, or is not UTF-8.
    """
    if path.exists() and not path.is_file() and not path.is_dir():  # it is read again
        raise ExportError(
            f"The {what} {path} is a pipe or a device; name a UTF-8 text file with {_option(what)}."
        )
    try:
        data = path.read_bytes()
        lines = io.StringIO(data.decode("utf-8-sig"), newline=None)  # any line ends, as in a file
        return lines.read(), data
    except OSError as error:
        raise ExportError(
            f"The {what} {path} cannot be read ({error.strerror}); name a UTF-8 text file with "
            f"{_option(what)}."
        ) from None
    except UnicodeDecodeError as error:
        raise ExportError(
            f"The {what} {path} is not UTF-8 (byte {error.start}: {error.reason}); name a UTF-8 "
            f"text file with {_option(what)}."
        ) from None


def _option(what: str) -> str:
    """ "chat template" to "--chat-template", "calibration text" to "--calibration"."""
    return "--" + what.removesuffix(" text").replace(" ", "-")
