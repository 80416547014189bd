"""What a chat template puts around a question about pictures."""

from dataclasses import dataclass

import jinja2

from exporter.chat_template import TemplateText
from exporter.chat_template.compile import load_as_kept
from exporter.chat_template.pictures import COUNTS, repeated
from exporter.chat_template.reduction import IrreducibleError

_TEXT = "What is a thimble?"  # which no template has in itself


@dataclass(frozen=True)
class Question:
    """A question about pictures: before, a place for each picture, the text, after.

    Attributes:
        before, after: empty where the template writes no places so.
        place: what stands for a picture; empty: its token alone.
        before_text: before, where the text comes first; empty: the same.
    """

    before: str = ""
    after: str = ""
    place: str = ""
    before_text: str = ""


def question_form(template: TemplateText | None, place: str) -> Question:
    """
    Args:
        place: the text of the token at which a picture stands.
    """
    if template is None:
        return Question()
    try:
        render, _ = load_as_kept(template.source, template.tokens)
        rendered = [
            render([{"role": "user", "content": [*count * [{"type": "image"}], text]}], True)
            for count in COUNTS
            for text in [{"type": "text", "text": _TEXT}]
        ]
        parts = [one.partition(_TEXT) for one in rendered]
        content = [{"type": "text", "text": _TEXT}, {"type": "image"}]
        before_text = render([{"role": "user", "content": content}], True).partition(_TEXT)[0]
        text = repeated([before for before, _, _ in parts], place)
    except (jinja2.TemplateError, IrreducibleError):
        return Question()
    after = parts[0][2]
    if text.after or any(not found or rest != after for _, found, rest in parts):
        return Question()
    picture = text.picture if text.picture != place else ""
    return Question(text.before, after, picture, before_text if before_text != text.before else "")
