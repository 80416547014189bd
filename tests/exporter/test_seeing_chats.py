"""Conversations about pictures: templates of parts, sessions, drafts and engines."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support import seeing_models as models
from support.pictures import picture

from exporter.chat_template import TemplateText, compile_chat_template
from exporter.seeing.question import question_form
from runtime import Chat, Engine, Runner, RunnerError, ask
from runtime.binding.library import library
from runtime.chat_format.messages import prepare_messages
from runtime.chat_format.template import ChatTemplate
from runtime.pictures import PicturePrompt

pytest.importorskip("transformers")
TOKENS = 10
OPTIONS: Any = {"max_new_tokens": TOKENS, "temperature": 0, "logprobs": 0}
FIRST, SECOND = picture(40, 30), picture(30, 90)
NAMES = {"bos_token": "<|im_start|>", "eos_token": "<end_of_utterance>"}
Seeing = tuple[Path, Any, Path]


@pytest.fixture(scope="module")
def runner(seeing_model: Seeing, cpp_build: Path) -> Iterator[Runner]:
    with Runner(seeing_model[0], threads=1) as runner:
        yield runner


def expected(seeing: Seeing, messages: list[Any], images: list[Image.Image]) -> list[int]:
    """The tokens of transformers, which renders the template itself."""
    _, model, directory = seeing
    processor = models.processor_of(directory)
    text = processor.apply_chat_template(
        messages, chat_template=models.TEMPLATE, add_generation_prompt=True
    )
    inputs = processor(text=text, images=images, return_tensors="pt")
    with torch.no_grad():
        generated = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)
    tokens: list[int] = generated[0, inputs["input_ids"].shape[1] :].tolist()
    return tokens[: tokens.index(models.END)] if models.END in tokens else tokens


def user(text: str, images: int = 0) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [*images * [{"type": "image"}], {"type": "text", "text": text}],
    }


def ids(runner: Runner, pieces: Iterator[str]) -> tuple[list[int], str]:
    text = "".join(pieces)
    return [one.token for one in runner.logprobs], text


def test_a_chat_has_pictures_in_each_message(seeing_model: Seeing, runner: Runner) -> None:
    chat = Chat(runner)
    first, text = ids(runner, chat.say([{"image": FIRST}, "What?"], **OPTIONS))
    history = [user("What?", 1)]
    assert first == expected(seeing_model, history, [FIRST])
    rows = runner.stats["image_rows"]
    assert rows == models.ROWS * 10
    history += [{"role": "assistant", "content": [{"type": "text", "text": text}]}]
    second, text = ids(runner, chat.say("Where?", **OPTIONS))
    assert second == expected(seeing_model, [*history, user("Where?")], [FIRST])
    assert runner.stats["image_rows"] == 0 and runner.stats["cached_tokens"] > rows
    with pytest.raises(RunnerError, match="a picture follows a text"):
        list(chat.say(["What?", {"image": FIRST}]))
    with pytest.raises(RunnerError, match="is not a picture that is read"):
        list(chat.say([{"image": b"a text, and no picture"}, "What?"]))
    assert chat.turns == 2
    # Others before it, and two at once: known ones are not computed again.
    other = Chat(runner)
    images = [SECOND, FIRST]
    third, _ = ids(runner, other.say([*({"image": one} for one in images), "Both?"], **OPTIONS))
    assert third == expected(seeing_model, [user("Both?", 2)], images)
    assert 0 < runner.stats["image_rows"] <= models.ROWS * 10


def test_the_command_line_chats(
    seeing_model: Seeing, runner: Runner, cpp_build: Path, tmp_path: Path
) -> None:
    FIRST.save(tmp_path / "1.png")
    chat = Chat(runner)
    texts = ["".join(chat.say([{"image": FIRST}, "What?"], **OPTIONS))]
    texts.append("".join(chat.say("Where?", **OPTIONS)))
    out, session = tmp_path / "stats.json", tmp_path / "s"
    command = [cpp_build / "runner", seeing_model[0], "--chat", "--temperature", "0"]
    command += ["-n", str(TOKENS), "--session", session, "--json", out]

    def run(lines: list[str]) -> tuple[str, str, int]:
        text = "".join(line + "\n" for line in lines)
        done = subprocess.run(command, input=text.encode(), capture_output=True)
        stats = json.loads(out.read_text())
        return done.stdout.decode(errors="replace"), done.stderr.decode(), stats["image_rows"]

    printed, said, rows = run(
        ["/image", f"/image {tmp_path}/no", f"/image {tmp_path}/1.png", "What?"]
    )
    assert printed == texts[0] + "\n" and rows == models.ROWS * 10
    assert "/image needs a file" in said and "cannot read" in said
    printed, said, rows = run(["Where?"])  # what was saved has the picture
    assert printed == texts[1] + "\n" and rows == 0 and "1 turn" in said


def test_a_list_stands_in_the_template_once(runner: Runner) -> None:
    """Also without pictures, and with the template's own words before a text that comes first."""
    form = library().thimble_picture_form(runner._open())
    first = {"image": np.zeros((9, 9, 3), np.uint8)}
    for parts, said in ((["hi"], " hi"), ([first, "a"], "<image>a"), (["a", first], " a<image>")):
        text = f"<|im_start|>User:{said}<end_of_utterance>\nAssistant:"
        assert PicturePrompt(parts, form).text == text
        if first not in parts:
            right, _ = ids(runner, runner.generate(text, **OPTIONS))
            assert ids(runner, runner.generate(parts, **OPTIONS))[0] == right
    with pytest.raises(RunnerError, match="an empty list"):
        runner.generate([])


def test_sessions_hold_pictures(runner: Runner, seeing_model: Seeing, tmp_path: Path) -> None:
    chat = Chat(runner)
    list(chat.say([{"image": SECOND}, "What?"], **OPTIONS))
    runner.save(tmp_path / "s")
    right, _ = ids(runner, chat.say("Where?", **OPTIONS))
    with Runner(seeing_model[0], threads=1) as other:
        list(other.generate([{"image": FIRST}, "Other numbers"], **OPTIONS))
        other.restore(tmp_path / "s")
        resumed = Chat(other)
        assert ids(other, resumed.say("Where?", **OPTIONS))[0] == right
        assert other.stats["image_rows"] == 0
        other.restore(tmp_path / "s")
        other.truncate(0)  # the rows are computed from the pixels in the file
        assert ids(other, Chat(other).say("Where?", **OPTIONS))[0] == right
        assert other.stats["image_rows"] > 0
        data = bytearray((tmp_path / "s").read_bytes())
        data[100] ^= 1
        (tmp_path / "damaged").write_bytes(data)
        with pytest.raises(RunnerError, match="is damaged"):
            other.restore(tmp_path / "damaged")


def test_drafts_guess_behind_pictures(runner: Runner, seeing_model: Seeing) -> None:
    prompt: Any = [{"image": FIRST}, "abc abc abc abc abc"]
    options = {**OPTIONS, "max_new_tokens": 60}
    right, _ = ids(runner, runner.generate(prompt, **options))
    with Runner(seeing_model[0], threads=1, draft="ngram") as drafting:
        assert ids(drafting, drafting.generate(prompt, **options))[0] == right
        assert drafting.stats["drafted_tokens"] > 0


def test_an_engine_answers_about_pictures(seeing_model: Seeing, runner: Runner) -> None:
    questions: list[tuple[list[Image.Image], str]] = [
        ([FIRST], "What?"),
        ([SECOND, FIRST], "Both?"),
        ([], "No picture"),
    ]
    right = []
    for images, text in questions:
        parts = [*({"image": one} for one in images), text]
        right.append("".join(Chat(runner).say(parts, **OPTIONS)))
    template = ChatTemplate(**(runner.chat_template or {}))

    def pieces(images: int, text: str) -> Any:
        content = [*images * [{"type": "image_url"}], {"type": "text", "text": text}]
        messages = [{"role": "user", "content": content}]
        return template.render(prepare_messages(messages, template.source)).pieces

    with Runner(seeing_model[0], threads=1) as other, Engine(other, sequences=2) as engine:

        def submit(images: list[Image.Image], text: str) -> Any:
            tokens = other.encode_pieces(pieces(len(images), text), images)
            return engine.submit(tokens, **OPTIONS)

        work = [submit(*question) for question in questions]
        assert ["".join(one) for one in work] == right
        assert sum(one.stats["image_rows"] for one in work) <= 2 * models.ROWS * 10
        again = submit(*questions[0])
        assert "".join(again) == right[0] and again.stats["image_rows"] == 0
        parts = [{"type": "image", "image": FIRST}, {"type": "text", "text": "What?"}]
        reply = ask(engine, [{"role": "user", "content": parts}], **OPTIONS)
        assert reply.text == right[0]
        with pytest.raises(RunnerError, match="a picture of the messages is a URL"):
            ask(engine, [{"role": "user", "content": [{"type": "image_url"}]}])
        for count, sentence in {
            2: "1 place <image>, but there are 2 pictures",
            40: "positions, but the model's context holds 1024",
        }.items():
            with pytest.raises(RunnerError, match=sentence):
                other.encode_pieces(pieces(1, "Which?"), count * [FIRST])


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (models.TEMPLATE, ""),
        (
            "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}"
            "{% else %}{% for p in m.content %}{% if p.type == 'image' %}[<image>]"
            "{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}</s>{% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}",
            "",
        ),
        (
            "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}",
            "takes no pictures",
        ),
    ],
)
def test_templates_of_parts(source: str, reason: str) -> None:
    """Those of parts alone, of both, and of strings alone."""
    compiled = compile_chat_template(source, NAMES, "<image>")
    assert compiled.reduced and (reason in compiled.reason if reason else not compiled.reason)
    template = ChatTemplate(source, **NAMES, special_tokens=["<image>", "</s>"])
    content = [{"type": "text", "text": "a <image>"}, {"type": "image_url"}]
    prepared = prepare_messages([{"role": "user", "content": content}], source)
    if reason:
        with pytest.raises(RunnerError, match="no lists of parts, and so no pictures"):
            template.render(prepared)
        return
    literal = [piece for piece, is_literal in template.render(prepared).pieces if is_literal]
    assert "".join(literal).count("<image>") == 1


@pytest.mark.parametrize("default", ["", "{% if not strftime_now is defined %}{% endif %}"])
def test_a_question_in_a_template_with_a_date(default: str) -> None:
    """The date is that of the file's template for chats: today's, where it names no other."""
    plain = question_form(TemplateText(models.TEMPLATE, NAMES), "<image>")
    dated = default + "[{{ strftime_now('%Y')[:2] }}]" + models.TEMPLATE
    found = question_form(TemplateText(dated, NAMES), "<image>")
    dated_texts = {name: f"[20]{getattr(plain, name)}" for name in ("before", "before_text")}
    assert plain.before and found == replace(plain, **dated_texts)
