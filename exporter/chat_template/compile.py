"""Compiles a model's chat template into literal text that the runner puts around messages."""

from dataclasses import dataclass
from pathlib import Path

import jinja2

from exporter.chat_template.blob import TemplateText, write_forms, write_text
from exporter.chat_template.form import Form
from exporter.chat_template.pictures import add_picture_edges, of_parts
from exporter.chat_template.reduction import IrreducibleError, conversation, reduce_form
from exporter.chat_template.verification import conversations
from exporter.errors import ExportError
from exporter.text.file import read_text_file
from runtime.chat_format.environment import Render, inserts_date, load_template

_Forms = tuple[Form | None, Form | None]  # with and without a system message
_LIKELY_TOKENS = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad", "unk")}
_PLACE = "<image>"
_MESSAGE = "What is a thimble?"  # a message that no template has in itself


@dataclass(frozen=True)
class CompiledChatTemplate:
    """A chat template in the runner's form.

    Attributes:
        data: the flatbuffer of schemas/chat_template.fbs.
        reduced: whether the runner can render it; otherwise only its text is stored.
        reason: why it could not be reduced; or, if it was reduced, a remark (often empty).
    """

    data: bytes
    reduced: bool
    reason: str


def compile_chat_template(
    template: str,
    tokens: dict[str, str],
    place: str | None = None,
    tool_template: str | None = None,
) -> CompiledChatTemplate:
    """Reduces a jinja2 chat template to literal text, and verifies it on generated conversations.

    If the template inserts a date, it is the template's own default date, which it uses without a
    clock, or else today's; `reason` tells which.

    Args:
        tokens: the texts of the tokens that have a name, such as `bos_token`; others are undefined
            in the template.
        place: of a model that sees, the text at which a picture stands: messages may begin with
            pictures.
        tool_template: what is rendered in its place where functions are given; stored as text.
    """
    text = TemplateText(template, tokens, tool_template)
    try:
        render, notes = load_as_kept(template, tokens)
        try:
            forms, more = _reduce(render)
        except IrreducibleError:
            if place is None:
                raise
            render = of_parts(render, all_messages=True)
            forms, more = _reduce(render)
        else:
            render = render if place is None else of_parts(render, all_messages=False)
        notes += more
        if place is not None:
            notes += _add_pictures(render, forms, place)
        with_system, without_system = forms
    except (IrreducibleError, jinja2.TemplateError) as error:
        reason = str(error) or type(error).__name__
        return CompiledChatTemplate(write_text(text, reason), False, reason)
    data = write_forms(text, with_system, without_system)
    return CompiledChatTemplate(data, True, "; ".join(notes))


def require_chat_template(path: Path, chats: bool = False) -> None:
    """Checks the file of a template that a user names, before there is a model for it.

    Args:
        chats: whether the runner is to chat with it.

    Raises:
        ExportError: it cannot be read, or writes no message, whatever form this has; or the runner
            cannot chat with it.
    """
    source, _ = read_text_file(path, "chat template")
    faults = []
    for as_parts in (False, True):
        try:
            render = load_template(source, _LIKELY_TOKENS, has_clock=True)
            if as_parts:
                render = of_parts(render, all_messages=True)
            if _MESSAGE in render([{"role": "user", "content": _MESSAGE}], True):
                break
            faults.append("it leaves messages out" if source.strip() else "it is empty")
        except jinja2.TemplateSyntaxError as error:
            faults.append(f"{error.message}, line {error.lineno}")
        except jinja2.TemplateError as error:
            faults.append(error.message or type(error).__name__)
    else:
        raise ExportError(
            f"The chat template {path} cannot be used ({faults[0]}); correct it, or leave out "
            "--chat-template."
        )
    compiled = compile_chat_template(source, _LIKELY_TOKENS, _PLACE) if chats else None
    if compiled is not None and not compiled.reduced:
        raise ExportError(
            f"The chat template {path} is none that the runner chats with ({compiled.reason}); "
            "correct it, or continue texts with --complete."
        )


def _reduce(render: Render) -> tuple[_Forms, list[str]]:
    """Returns the forms with and without a system message, and remarks.

    Raises:
        IrreducibleError: there are none.
    """
    forms = reduce_form(render, with_system=True), reduce_form(render, with_system=False)
    if forms == (None, None):
        raise IrreducibleError("it refuses even a single message")
    return forms, _verify(render, forms)


def _add_pictures(render: Render, forms: _Forms, place: str) -> list[str]:
    """Adds the places of pictures to the forms, if they can be told; else returns why not."""
    try:
        for with_system, form in zip((True, False), forms, strict=True):
            if form is not None:
                add_picture_edges(form, render, with_system, place)
        if _differs(render, forms, with_blanks=False, pictures=True):
            raise IrreducibleError("its places of pictures depend on the content of the messages")
    except IrreducibleError as error:
        for form in filter(None, forms):
            form.picture_edges.clear()
        return [f"a chat of the runner takes no pictures, because of the template: {error}"]
    return []


def first_turn(template: str, tokens: dict[str, str]) -> str | None:
    """What a template writes in front of a conversation's first message; None where it renders
    none as it is."""
    try:
        render = load_as_kept(template, tokens)[0]
        text = render([{"role": "user", "content": _MESSAGE}], True)
    except jinja2.TemplateError:
        return None
    before, message, _ = text.partition(_MESSAGE)
    return before if message else None


def load_as_kept(template: str, tokens: dict[str, str]) -> tuple[Render, list[str]]:
    """Returns a template as a file keeps it, whose date does not change, and remarks on it."""
    with_clock = load_template(template, tokens, has_clock=True)
    if not inserts_date(template):
        return with_clock, []
    without_clock = load_template(template, tokens, has_clock=False)
    try:
        without_clock(conversation(1, with_system=False), True)
    except jinja2.UndefinedError:
        return with_clock, [
            "the chat template inserts a date, which is fixed to the day of the export"
        ]
    return without_clock, [
        "the chat template inserts a date, which is fixed to the template's default date"
    ]


def _verify(render: Render, forms: _Forms) -> list[str]:
    """Compares the forms with the template.

    Raises:
        IrreducibleError: a conversation without blank messages renders differently.
    """
    try:
        if not _differs(render, forms, with_blanks=True):
            return []
        how = "renders a message of only white space differently"
    except jinja2.TemplateError:
        how = "refuses a message of only white space"
    if _differs(render, forms, with_blanks=False):
        raise IrreducibleError("it depends on the content of the messages")
    return [f"the chat template {how}"]


def _differs(render: Render, forms: _Forms, with_blanks: bool, pictures: bool = False) -> bool:
    with_system, without_system = forms
    for messages in conversations(with_blanks, pictures):
        form = with_system if messages[0]["role"] == "system" else without_system
        if form is not None and any(
            form.render(messages, prompt) != render(messages, prompt) for prompt in (False, True)
        ):
            return True
    return False
