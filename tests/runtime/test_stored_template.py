"""The chat template that a file keeps, for programs that render it themselves."""

import subprocess
from pathlib import Path

import flatbuffers
import pytest
from support.asked import TOOLS, USER
from support.call_templates import TEMPLATES
from support.chats import TEMPLATE, export_chat_model
from support.tiers import checked

from exporter.chat_template import blob, compile_chat_template
from exporter.file.template import read_templates
from runtime import Chat, Engine, Runner, RunnerError
from runtime.chat_format.conversation import prepare
from runtime.chat_format.template import ChatTemplate

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

IRREDUCIBLE = "{% for m in messages %}{{ m.content | upper }}é{% endfor %}"


def test_a_template_that_the_runner_renders(chat_pte: Path, cpp_build: Path) -> None:
    with Runner(chat_pte, threads=1) as runner:
        stored = runner.chat_template
        assert stored == {
            "source": TEMPLATE,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "special_tokens": ["<s>", "</s>"],
            "tokens": {},
            "tool_source": None,
        }
        with Engine(runner):
            assert runner.chat_template == stored
        for text in stored["special_tokens"]:
            assert any(token < 3 for token in runner.encode_pieces([(text, True)]))
            assert all(token > 2 for token in runner.encode_pieces([(text, False)]))


def test_a_template_that_it_cannot_render(
    one_layer_checkpoint: Path, tmp_path: Path, cpp_build: Path
) -> None:
    pte = export_chat_model(one_layer_checkpoint, tmp_path, IRREDUCIBLE)
    with Runner(pte, threads=1) as runner:
        assert runner.chat_template is not None
        assert runner.chat_template["source"] == IRREDUCIBLE
        with pytest.raises(RunnerError, match="stored as text only"):
            Chat(runner)


def test_the_template_that_is_taken_where_functions_are_given(
    one_layer_checkpoint: Path, tmp_path: Path, cpp_build: Path
) -> None:
    named = {"default": TEMPLATE, "tool_use": TEMPLATES["hermes"] + "{{ unk_token }}"}
    pte = export_chat_model(one_layer_checkpoint, tmp_path, named)
    assert read_templates(pte) == tuple(named.values())
    with Runner(pte, threads=1) as runner:
        stored = runner.chat_template or {}
    assert (stored["source"], stored["tool_source"]) == tuple(named.values())
    template = ChatTemplate(**stored)
    alone = ChatTemplate(**{**stored, "source": stored["tool_source"], "tool_source": None})
    assert prepare(template, USER, TOOLS).pieces == prepare(alone, USER, TOOLS).pieces
    plain = ChatTemplate(**{**stored, "tool_source": None})
    assert prepare(template, USER).pieces == prepare(plain, USER).pieces
    assert prepare(template, USER).pieces != prepare(alone, USER).pieces


def test_a_file_without_one(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    with Runner(embedded_cpu_pte, threads=1) as runner:
        assert runner.chat_template is None


def old(builder: flatbuffers.Builder, text: blob.TemplateText, offsets: dict[int, int]) -> bytes:
    """What _finish() of version 1 wrote: a source only where there are no forms, and no tokens."""
    if 4 in offsets:
        offsets[3] = builder.CreateString(text.source)
    builder.StartObject(5)
    builder.PrependUint32Slot(0, 1, 0)
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"THCT")
    return bytes(builder.Output())


@pytest.mark.parametrize("template", [TEMPLATE, *checked([IRREDUCIBLE])])
def test_a_file_of_an_earlier_version(
    template: str,
    one_layer_checkpoint: Path,
    tmp_path: Path,
    cpp_build: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(blob, "_finish", old)
        pte = export_chat_model(one_layer_checkpoint, tmp_path / "old", template)
    with Runner(pte, threads=1) as runner:
        assert runner.chat_template is None
        if template == TEMPLATE:
            with Runner(export_chat_model(one_layer_checkpoint, tmp_path / "new")) as new:
                said = [list(Chat(one).say("One?", 9)) for one in (runner, new)]
            assert said[0] == said[1]
        else:
            with pytest.raises(RunnerError, match="stored as text only"):
                Chat(runner)


def test_another_version(tmp_path: Path, cpp_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob, "VERSION", 3)
    path = tmp_path / "template"
    path.write_bytes(compile_chat_template(TEMPLATE, TOKENS).data)
    result = subprocess.run(
        [cpp_build / "chat_template_cli", path, "prompt"], capture_output=True, text=True
    )
    assert result.stderr == (
        "the compiled chat template has version 3; this program reads versions 1 to 2: export the "
        "model again"
    )
