"""Reads the text that a user gives for calibration."""

import io
from pathlib import Path

from exporter.errors import ExportError


def read_text_file(path: Path) -> tuple[str, bytes]:
    """Returns a text, and its file's bytes.

    Raises:
        ExportError: it cannot be read, or is not UTF-8.
    """
    try:
        data = path.read_bytes()
        lines = io.StringIO(data.decode("utf-8-sig"), newline=None)  # any line ends, as in a file
        return lines.read(), data
    except OSError as error:
        raise ExportError(
            f"The calibration text {path} cannot be read ({error.strerror}); name a UTF-8 text "
            "file with --calibration."
        ) from None
    except UnicodeDecodeError as error:
        raise ExportError(
            f"The calibration text {path} is not UTF-8 (byte {error.start}: {error.reason}); name "
            "a UTF-8 text file with --calibration."
        ) from None
