"""Chat templates whose messages are lists of parts, texts and pictures."""

from typing import Any

import jinja2

from exporter.chat_template.form import Form, PictureText, place_messages
from exporter.chat_template.reduction import PROBES, IrreducibleError, conversation
from runtime.chat_format.environment import Messages, Render

COUNTS = (1, 2, 3)  # of pictures of a message


def of_parts(render: Render, all_messages: bool) -> Render:
    """Returns what renders messages that tell how many `pictures` are before their content.

    Args:
        all_messages: those without pictures are lists of parts, too.
    """

    def rendered(messages: Messages, add_generation_prompt: bool, **variables: object) -> str:
        written = []
        for message in messages:
            count, content = message.get("pictures", 0), message["content"]
            if count or all_messages:
                text = {"type": "text", "text": content}
                content = [*count * [{"type": "image"}], text]
            written.append({"role": message["role"], "content": content})
        return render(written, add_generation_prompt, **variables)

    return rendered


def add_picture_edges(form: Form, render: Render, with_system: bool, place: str) -> None:
    """Finds what stands for pictures before each message of a user.

    Args:
        render: what of_parts() returns.
        place: the text of a picture's place.

    Raises:
        IrreducibleError: it is not the same text for each, before the message.
    """
    for turns in PROBES[:3]:
        for prompt in (False, True):
            messages = conversation(turns, with_system)
            places = place_messages(messages, prompt, form.system_before_last_user)
            for (origin, _), (target, word) in zip(places, places[1:], strict=False):
                if not word.startswith("qzuser"):
                    continue
                edge = (origin, target)
                gaps = [_gap(form.edges[edge], render, messages, prompt, word, n) for n in COUNTS]
                text = repeated(gaps, place)
                if form.picture_edges.setdefault(edge, text) != text:
                    raise IrreducibleError("its places of pictures depend on the conversation")


def _gap(edge: str, render: Render, messages: Messages, prompt: bool, word: str, count: int) -> str:
    """What stands in front of the message `word` if it begins with pictures; `edge`: if not."""
    with_pictures: list[dict[str, Any]] = [
        {**message, "pictures": count} if message["content"] == word else message
        for message in messages
    ]
    before, _, after = render(messages, prompt).partition(word)
    try:
        shown, found, rest = render(with_pictures, prompt).partition(word)
    except jinja2.TemplateError as error:
        raise IrreducibleError(f"it refuses pictures: {error}") from None
    known = before.removesuffix(edge)
    if not found or rest != after or not shown.startswith(known):
        raise IrreducibleError("it does not write pictures before a message")
    return shown.removeprefix(known)


def repeated(gaps: list[str], place: str) -> PictureText:
    """The text of one, two and three pictures as what is repeated, and what is around it.

    Raises:
        IrreducibleError: it is no such text, of one place a picture.
    """
    one, two, _ = gaps
    length = len(two) - len(one)
    end = next(
        (n for n, pair in enumerate(zip(one, two, strict=False)) if len(set(pair)) > 1), len(one)
    )
    text = PictureText(one[: end - length], one[end - length : end], one[end:])
    known = [text.render(count) for count in COUNTS] == gaps and length > 0
    if not known or text.picture.count(place) != 1 or place in text.before + text.after:
        raise IrreducibleError("it does not write a place for each picture")
    return text
