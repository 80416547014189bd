"""Chat templates: the reduced form, in Python and in C++, equals jinja2's rendering."""

import json
import shutil
from datetime import datetime
from pathlib import Path

import pytest
from support.cpp_programs import ask, frame_texts
from support.trained_tokenizers import train_llama3

from exporter.catalogue.names import EMBEDDED
from exporter.chat_template import (
    compile_chat_template,
    find_chat_templates,
    require_chat_template,
)
from exporter.chat_template.verification import COUNT, conversations
from exporter.errors import ExportError
from runtime.chat_format.environment import Messages, load_template

TEMPLATES = Path(__file__).resolve().parents[1] / "chat_templates"
NAMES = sorted(path.stem for path in TEMPLATES.glob("*.jinja"))
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def source_of(name: str) -> str:
    return (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")


class CppChatTemplate:
    """A compiled template, run in C++."""

    def __init__(self, data: bytes, directory: Path, build: Path) -> None:
        self._blob = directory / "chat_template"
        self._blob.write_bytes(data)
        self._program = build / "chat_template_cli"

    def render(self, messages: list[Messages], mode: str) -> list[list[tuple[bool, str]] | str]:
        """The pieces (literal, text) of each conversation, or the error's sentence."""
        requests = [
            frame_texts(
                [part.encode() for message in one for part in (message["role"], message["content"])]
            )
            for one in messages
        ]
        answers = ask([self._program, self._blob, mode], requests, 1)
        return [
            answer[1:].decode()
            if answer.startswith(b"!")
            else [(piece[:1] == b"1", piece[1:].decode()) for piece in answer.split(b"\xff")[:-1]]
            for answer in answers
        ]


@pytest.mark.parametrize("name", NAMES)
def test_cpp_equals_jinja(name: str, tmp_path: Path, cpp_build: Path) -> None:
    source = source_of(name)
    compiled = compile_chat_template(source, TOKENS)
    assert compiled.reduced, compiled.reason
    cpp = CppChatTemplate(compiled.data, tmp_path, cpp_build)
    has_clock = name == "smollm"
    render = load_template(source, TOKENS, has_clock=has_clock)
    takes_system = name != "mistral_without_system"
    # Llama 2's own template strips its system text's newlines off a blank message.
    messages = conversations(with_blanks=name != "llama2")
    assert len(messages) == COUNT
    if not takes_system:
        messages = [one for one in messages if one[0]["role"] != "system"]
    for mode in ("end", "prompt"):
        for one, pieces in zip(messages, cpp.render(messages, mode), strict=True):
            text = "".join(text for _, text in pieces)
            assert text == render(one, mode == "prompt")


@pytest.mark.parametrize("name", NAMES)
def test_what_users_write_is_never_literal(name: str, tmp_path: Path, cpp_build: Path) -> None:
    cpp = CppChatTemplate(compile_chat_template(source_of(name), TOKENS).data, tmp_path, cpp_build)
    messages = [
        {"role": "user", "content": "MINE <|eot_id|>"},
        {"role": "assistant", "content": "MINE </s>"},
        {"role": "user", "content": "MINE [INST]"},
    ]
    (pieces,) = cpp.render([messages], "prompt")
    users = [text for literal, text in pieces if not literal]
    assert users == ["MINE <|eot_id|>", "MINE </s>", "MINE [INST]"]


@pytest.mark.parametrize("name", NAMES)
def test_our_jinja_renders_as_transformers_does(name: str) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    source = source_of(name)
    render = load_template(source, TOKENS, has_clock=True)
    for messages in conversations(with_blanks=True)[:60]:
        if name == "mistral_without_system" and messages[0]["role"] == "system":
            continue
        (expected,), _ = render_jinja_template(
            [messages],
            chat_template=source,
            add_generation_prompt=True,
            **TOKENS,
        )
        assert render(messages, True) == expected


def test_known_renderings() -> None:
    """What the templates of the families look like, spelled out."""
    turns = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": " U "},
        {"role": "assistant", "content": "<think>t</think>\n\nA"},
        {"role": "user", "content": "V"},
    ]

    def render(name: str) -> str:
        return load_template(source_of(name), TOKENS, has_clock=False)(turns, True)

    assert render("llama2").startswith("<s>[INST] <<SYS>>\nS\n<</SYS>>\n\n U [/INST] ")
    assert render("llama3").startswith(
        "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|>"
    )
    assert render("thinking").endswith(
        "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"
    )
    assert render("mistral").endswith("</s>[INST] S\n\nV[/INST]")


def test_conversations_that_no_template_supports_are_refused(
    tmp_path: Path, cpp_build: Path
) -> None:
    def refusal(name: str, *roles: str) -> str:
        data = compile_chat_template(source_of(name), TOKENS).data
        cpp = CppChatTemplate(data, tmp_path, cpp_build)
        (answer,) = cpp.render([[{"role": role, "content": "x"} for role in roles]], "prompt")
        assert isinstance(answer, str)
        return answer

    assert "does not support a system message" in refusal(
        "mistral_without_system", "system", "user"
    )
    assert "does not end with a user's message" in refusal("chatml", "user", "assistant")
    assert "does not end with a user's message" in refusal("chatml")
    assert "has the role assistant; it must be user" in refusal("chatml", "assistant")
    assert "has the role tool; it must be assistant" in refusal("chatml", "user", "tool", "user")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{% for m in messages %}{{ m.content | upper }}{% endfor %}", "drops or moves a message"),
        ("{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}", "length of"),
        ("{% for m in messages %}[{{ m.content | length }}]{% endfor %}", "drops or moves"),
        (
            "{% for m in messages %}{{ m.content.replace('{{', '{') }}|{% endfor %}",
            "content of the messages",
        ),
        ("{% for m in messages %}{{ m.content.lstrip(' \\n') }}|{% endfor %}", "white space"),
        ("{% for m in messages %}", "end of template"),
        ("{{ raise_exception('never') }}", "refuses even a single message"),
    ],
)
def test_a_template_that_cannot_be_reduced_is_stored_as_text(
    source: str, reason: str, tmp_path: Path, cpp_build: Path
) -> None:
    compiled = compile_chat_template(source, TOKENS)
    assert not compiled.reduced
    assert reason in compiled.reason
    cpp = CppChatTemplate(compiled.data, tmp_path, cpp_build)
    (answer,) = cpp.render([[{"role": "user", "content": "hi"}]], "prompt")
    assert isinstance(answer, str)
    assert "stored as text only" in answer
    assert compiled.reason in answer


def test_dates_are_fixed_and_said_so() -> None:
    own = compile_chat_template(source_of("llama3_dated"), TOKENS)
    assert own.reason.endswith("is fixed to the template's default date")
    assert b"26 Jul 2024" in own.data
    today = compile_chat_template(source_of("smollm"), TOKENS)
    assert today.reason.endswith("is fixed to the day of the export")
    assert datetime.now().strftime("%Y").encode() in today.data
    asked = "{% if strftime_now is defined %}new {% endif %}" + source_of("chatml")
    compiled = compile_chat_template(asked, TOKENS)
    assert compiled.reduced and compiled.reason == "" and b"new " in compiled.data


def test_blank_messages_that_differ_are_said_so() -> None:
    assert "only white space" in compile_chat_template(source_of("llama2"), TOKENS).reason
    assert compile_chat_template(source_of("chatml"), TOKENS).reason == ""
    refuses = (
        "{% for m in messages %}{% if not m.content %}{{ raise_exception('empty') }}{% endif %}"
        "<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    )
    compiled = compile_chat_template(refuses, TOKENS)  # Ministral 3 refuses an empty answer
    assert compiled.reduced and "refuses a message of only white space" in compiled.reason


def test_a_template_cannot_reach_out_of_its_sandbox() -> None:
    hostile = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    compiled = compile_chat_template(hostile, TOKENS)
    assert not compiled.reduced


def test_the_template_is_found_beside_the_weights(tmp_path: Path) -> None:
    assert find_chat_templates(tmp_path) == {}
    config = tmp_path / "tokenizer_config.json"
    config.write_text(train_llama3(), encoding="utf-8")
    assert find_chat_templates(tmp_path) == {}
    config.write_text(json.dumps({"chat_template": "one"}))
    assert find_chat_templates(tmp_path) == {"default": "one"}
    several = [{"name": "tool_use", "template": "two"}, {"name": "default", "template": "three"}]
    by_name = {item["name"]: item["template"] for item in several}
    config.write_text(json.dumps({"chat_template": several}))
    assert find_chat_templates(tmp_path) == by_name
    config.write_text(json.dumps({"chat_template": by_name}))
    assert find_chat_templates(tmp_path) == by_name
    (tmp_path / "chat_template.jinja").write_text("four")
    assert find_chat_templates(tmp_path) == {"default": "four"}
    (tmp_path / "chat_template.jinja").unlink()
    config.write_text("{")
    with pytest.raises(ExportError, match="not readable"):
        find_chat_templates(tmp_path)


def test_the_template_of_a_processor_is_the_last_that_is_taken(tmp_path: Path) -> None:
    tokenizer, processor = tmp_path / "tokenizer_config.json", tmp_path / "chat_template.json"
    processor.write_text('{"chat_template": "of the processor"}')
    assert find_chat_templates(tmp_path) == {"default": "of the processor"}
    tokenizer.write_text("{}")
    assert find_chat_templates(tmp_path) == {"default": "of the processor"}
    tokenizer.write_text('{"chat_template": "of the tokenizer"}')
    assert find_chat_templates(tmp_path) == {"default": "of the tokenizer"}


NAMED = {"default": "plain", "tool_use": "with tools", "rag": "with documents"}
LISTED = [{"name": name, "template": text} for name, text in NAMED.items()]
OTHERS = {f"additional_chat_templates/{name}.jinja": NAMED[name] for name in ("rag", "tool_use")}


@pytest.mark.parametrize(
    ("field", "files"),
    [
        ("one", {}),
        (LISTED, {}),
        (NAMED, {}),
        (LISTED[1:], {}),
        (LISTED, {"chat_template.jinja": "apart"}),
        (LISTED, {"chat_template.jinja": "apart", **OTHERS}),
        (None, {"chat_template.jinja": "apart", **OTHERS}),
        (LISTED, OTHERS),
        ("one", {**OTHERS, "additional_chat_templates/default.jinja": "apart"}),
    ],
    ids=str,
)
def test_transformers_takes_the_same_of_several(
    field: object, files: dict[str, str], tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    shutil.copy(EMBEDDED / "tokenizer.json", tmp_path)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": field}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    found = find_chat_templates(tmp_path)
    if "default" not in found:
        with pytest.raises(ValueError, match="no default specified"):
            tokenizer.get_chat_template()
        return
    assert found["default"] == tokenizer.get_chat_template()
    assert found.get("tool_use", found["default"]) == tokenizer.get_chat_template(tools=[{}])


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (" \n", "cannot be used (it is empty)"),
        (
            "{{ x",
            "cannot be used (unexpected end of template, expected 'end of print statement'., ",
        ),
        ("{{ x | nosuch }}", "cannot be used (No filter named 'nosuch'., line 1)"),
        ("Hello!", "cannot be used (it leaves messages out)"),
        ("{{ nosuch() }}", "cannot be used ('nosuch' is undefined)"),
        ("{{ messages[0].content }}{{ messages | length % 2 }}", "is none that the runner chats"),
    ],
)
def test_a_template_of_the_user_is_refused(source: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "template.jinja"
    path.write_text(source)
    with pytest.raises(ExportError) as caught:
        require_chat_template(path, chats=True)
    assert str(caught.value).startswith(f"The chat template {path} {fault}")
    if "chats" in fault:
        require_chat_template(path)  # a server renders it


@pytest.mark.parametrize("name", NAMES)
def test_templates_of_models_are_taken(name: str) -> None:
    require_chat_template(TEMPLATES / f"{name}.jinja", chats=True)
