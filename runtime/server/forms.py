"""Forms with a file, multipart/form-data (RFC 7578), of a body that is complete."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser

from runtime.server.errors import HttpError

_MOST_FIELDS = 64


@dataclass
class Form:
    """
    Attributes:
        fields: text by its name; a list of those whose name ends with [], without that, and an
            object of those whose names end with a key in brackets.
        file: the bytes of the field `file`; None: it has none.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    file: bytes | None = None


def _member(fields: dict[str, Any], name: str, empty: Any) -> Any:
    """The list or object of a name, which must not be something else."""
    value = fields.setdefault(name, empty)
    if type(value) is not type(empty):
        raise HttpError(400, f"the form has {name[:40]} twice", name[:40])
    return value


class _Parser(MultiPartParser):
    """Starlette's, which sees the end of a form."""

    is_complete = False

    def on_end(self) -> None:
        self.is_complete = True


async def read_form(headers: Headers, body: bytes) -> Form:
    """Reads a form.

    Raises:
        HttpError: it is damaged or cut off, or repeats a field.
    """

    async def whole() -> AsyncGenerator[bytes, None]:
        yield body

    parser = _Parser(
        headers, whole(), max_files=1, max_fields=_MOST_FIELDS, max_part_size=len(body)
    )
    parser.spool_max_size = len(body) + 1  # never to a disk
    try:
        parts = await parser.parse()
    except MultiPartException as error:
        raise HttpError(400, f"the form cannot be read: {error.message}") from None
    if not parser.is_complete:
        raise HttpError(400, "the form is cut off: it lacks its last boundary")
    form = Form()
    for name, part in parts.multi_items():
        if not isinstance(part, str):
            if name != "file":
                raise HttpError(400, f"file is missing: the form's file is {name[:40]}", "file")
            form.file = await part.read()
        elif name == "file":
            raise HttpError(400, "file is text: give it a filename, as a file has", name)
        elif name.endswith("[]"):
            _member(form.fields, name[:-2], []).append(part)
        elif name.endswith("]") and "[" in name:
            name, key = name[:-1].split("[", 1)
            _member(form.fields, name, {})[key] = part
        elif name in form.fields:  # a list or an object too
            raise HttpError(400, f"the form has {name[:40]} twice", name[:40])
        else:
            form.fields[name] = part
    return form
