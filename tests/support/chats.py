"""A model to chat with, and what a saved chat holds."""

import json
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

from support.exported import Quiet

from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<' + message['role'] + '> ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant> ' }}{% endif %}"
)
WITHOUT_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    + TEMPLATE
)
FLOAT = Scheme("none")
ROLES = ("system", "user", "assistant")


def export_chat_model(
    original: Path,
    directory: Path,
    template: str | Mapping[str, str] = TEMPLATE,
    scheme: Scheme = FLOAT,
    max_context_len: int = 256,
) -> Path:
    """A checkpoint with a template that it never saw: what it says is nonsense, but greedy. For the
    CPU delegate, whose sessions can be kept. Several templates are given by their names."""
    checkpoint = shutil.copytree(original, directory / "checkpoint")
    config = {"chat_template": template, "bos_token": "<s>", "eos_token": "</s>"}
    (checkpoint / "tokenizer_config.json").write_text(json.dumps(config))
    options = ExportOptions(
        model=str(checkpoint),
        out=directory / "chat.pte",
        scheme=scheme,
        max_context_len=max_context_len,
        delegate="cpu",
    )
    return export_model(options, Quiet()).out


def messages_of(session: Path) -> list[tuple[str, str]]:
    """(role, content) of every message in a session's file."""
    data = session.read_bytes()
    version, token_count = struct.unpack_from("<II", data, 8)
    assert data.startswith(b"THIMSESS") and version == 2
    (size,) = struct.unpack_from("<I", data, 40)
    at = 48 + 4 * token_count
    end = at + size
    messages = []
    while at < end:
        role, length = struct.unpack_from("<II", data, at)
        content = data[at + 8 : at + 8 + length].decode()
        messages.append((ROLES[role], content))
        at += 8 + length
    assert at == end
    return messages


def rendered(messages: list[tuple[str, str]]) -> str:
    """The messages as the template writes them, up to where an answer starts; without BOS."""
    return "".join(f"<{role}> {content}\n" for role, content in messages) + "<assistant> "
