"""Forms with a file, multipart/form-data (RFC 7578), of a body that is complete."""

import re
from dataclasses import dataclass, field
from typing import Any

from runtime.server.errors import HttpError

_MOST_PARTS, _MOST_HEADERS = 64, 8192  # of a form; bytes of a part's
_BOUNDARY = re.compile(r';\s*boundary=(?:"([^"]{1,70})"|([^\s";,]{1,70}))', re.IGNORECASE)
_NAME = re.compile(rb';\s*name="([^"\r\n]{0,200})"', re.IGNORECASE)
_LINE = b"\r\n"


@dataclass
class Form:
    """
    Attributes:
        fields: text by its name; a list of those whose name ends with [], without that.
        file: the bytes of the field `file`; None: it has none.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    file: bytes | None = None


def read_form(content_type: str, body: bytes) -> Form:
    """Reads a form.

    Raises:
        HttpError: it is damaged or cut off, or repeats a field.
    """
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise HttpError(400, "Content-Type has no boundary, by which a form is read")
    delimiter = _LINE + b"--" + (found[1] or found[2]).encode("latin-1")
    data = _LINE + body  # the first line has no end before it
    at = data.find(delimiter)
    form = Form()
    for _ in range(_MOST_PARTS):
        begin = at + len(delimiter)
        if at < 0:
            raise HttpError(400, "the form is cut off: it lacks its last boundary")
        if data.startswith(b"--", begin):
            return form
        at = data.find(delimiter, begin)
        if at >= 0:
            _take(form, data, begin, at)
    raise HttpError(400, f"the form has more than {_MOST_PARTS} parts")


def _take(form: Form, data: bytes, begin: int, end: int) -> None:
    headers_end = data.find(_LINE + _LINE, begin, min(end, begin + _MOST_HEADERS))
    if headers_end < 0:
        raise HttpError(400, "a part of the form has no headers")
    headers = data[begin:headers_end]
    named = _NAME.search(headers)
    if named is None:
        raise HttpError(400, "a part of the form has no name")
    content = data[headers_end + 2 * len(_LINE) : end]
    try:
        name = named[1].decode()
        if name == "file":
            _require_first(name, form.file is None)
            form.file = content
            return
        text = content.decode()
    except UnicodeDecodeError:
        raise HttpError(400, "a field of the form is not UTF-8") from None
    if name.endswith("[]"):
        form.fields.setdefault(name[:-2], []).append(text)
        return
    _require_first(name, name not in form.fields)
    form.fields[name] = text


def _require_first(name: str, is_first: bool) -> None:
    if not is_first:
        raise HttpError(400, f"the form has {name[:40]} twice", name[:40])
