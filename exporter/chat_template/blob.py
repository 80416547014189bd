"""Writes the flatbuffer of schemas/chat_template.fbs; the slots below are its fields, in order."""

import re
from dataclasses import dataclass

import flatbuffers

from exporter.chat_template.form import Form, PictureText, Place, Rule
from exporter.file.flatbuffer_tables import Flag, Number, table, tables
from exporter.file.template import SOURCE_SLOT, TOOL_SOURCE_SLOT

VERSION = 2
_IDENTIFIER = b"THCT"


@dataclass(frozen=True)
class TemplateText:
    """A template as a model's files have it, and the texts of the tokens that have a name.

    Attributes:
        tool_source: the template that takes its place where functions are given; None: itself.
    """

    source: str
    tokens: dict[str, str]
    tool_source: str | None = None

    def mentions(self, name: str) -> bool:
        """Whether a template calls a token by this name."""
        both = f"{self.source}\n{self.tool_source or ''}"
        return re.search(rf"\b{re.escape(name)}\b", both) is not None


def write_forms(text: TemplateText, with_system: Form | None, without_system: Form | None) -> bytes:
    """Returns the flatbuffer of a reduced template."""
    builder = flatbuffers.Builder(4096)
    offsets = {
        slot: _form(builder, form)
        for slot, form in ((1, with_system), (2, without_system))
        if form is not None
    }
    return _finish(builder, text, offsets)


def write_text(text: TemplateText, reason: str) -> bytes:
    """Returns the flatbuffer of a template that could not be reduced, and the reason."""
    builder = flatbuffers.Builder(4096)
    return _finish(builder, text, {4: builder.CreateString(reason)})


def _finish(builder: flatbuffers.Builder, text: TemplateText, offsets: dict[int, int]) -> bytes:
    for slot, part in (
        (SOURCE_SLOT, text.source),
        (TOOL_SOURCE_SLOT, text.tool_source),
        *((slot, _stored(text, name)) for slot, name in ((5, "bos_token"), (6, "eos_token"))),
    ):
        if part is not None:
            offsets[slot] = builder.CreateString(part)
    others = {
        name: token
        for name, token in sorted(text.tokens.items())
        if name not in ("bos_token", "eos_token") and text.mentions(name)
    }
    if others:
        offsets[7] = tables(builder, [_token(builder, *item) for item in others.items()])
    builder.StartObject(9)
    builder.PrependUint32Slot(0, VERSION, 0)
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    builder.Finish(builder.EndObject(), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _stored(text: TemplateText, name: str) -> str | None:
    """The text of a token; None where the template must see that there is no such token."""
    return text.tokens.get(name, None if text.mentions(name) else "")


def _token(builder: flatbuffers.Builder, name: str, token: str) -> int:
    return table(builder, builder.CreateString(name), builder.CreateString(token))


def _form(builder: flatbuffers.Builder, form: Form) -> int:
    pictures = [_picture_edge(builder, *edge, text) for edge, text in form.picture_edges.items()]
    return table(
        builder,
        tables(builder, [_edge(builder, *edge, text) for edge, text in form.edges.items()]),
        tables(builder, [_rule(builder, place, rule) for place, rule in form.rules.items()]),
        Flag(form.system_before_last_user),
        *([tables(builder, pictures)] if pictures else []),
    )


def _picture_edge(
    builder: flatbuffers.Builder, origin: Place, target: Place, text: PictureText
) -> int:
    places = Number("Uint8", origin), Number("Uint8", target)
    parts = [builder.CreateString(part) for part in (text.before, text.picture, text.after)]
    return table(builder, *places, *parts)


def _edge(builder: flatbuffers.Builder, origin: Place, target: Place, text: str) -> int:
    places = Number("Uint8", origin), Number("Uint8", target)
    return table(builder, *places, builder.CreateString(text))


def _rule(builder: flatbuffers.Builder, place: Place, rule: Rule) -> int:
    return table(
        builder,
        Number("Uint8", place),
        Number("Uint8", rule.strip_left),
        Number("Uint8", rule.strip_right),
        builder.CreateString(rule.behind),
    )
