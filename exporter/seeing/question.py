"""What a chat template puts around a question about pictures."""

import jinja2

from exporter.chat_template import TemplateText
from runtime.chat_format.environment import load_template

_TEXT = "What is a thimble?"  # which no template has in itself


def question_form(template: TemplateText | None, place: str) -> tuple[str, str]:
    """Returns what stands before the first picture, and behind the text: a question is the first, a
    place for each picture, the text, the second. Both are empty where the template writes no
    places so.

    Args:
        place: the text of the token at which a picture stands.
    """
    if template is None:
        return "", ""
    try:
        render = load_template(template.source, template.tokens, has_clock=False)
        rendered = [
            render([{"role": "user", "content": [*count * [{"type": "image"}], text]}], True)
            for count in (1, 2)
            for text in [{"type": "text", "text": _TEXT}]
        ]
    except jinja2.TemplateError:
        return "", ""
    before, _, rest = rendered[0].partition(place)
    text, _, after = rest.partition(_TEXT)
    known = [before + count * place + _TEXT + after for count in (1, 2)]
    return (before, after) if rendered == known and not text else ("", "")
