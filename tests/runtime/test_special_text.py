"""Special tokens in an answer: their text where it is asked for, and the one that ends it."""

import json
import subprocess
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from support.call_templates import TEMPLATES
from support.chats import TEMPLATE, messages_of
from support.once import made_once
from support.special_models import HARMONY, export_with_special_tokens
from support.tiers import checked

from runtime import Chat, Engine, Runner, RunnerError, ask
from runtime.binding.answer_stream import Special

MARK = "def"  # a word of the model's vocabulary, which is made a special token here


@pytest.fixture(scope="module")
def special_pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(directory: Path) -> Path:
        return export_with_special_tokens(directory, (MARK, *HARMONY), TEMPLATE)

    return made_once(tmp_path_factory, "special", make)


@pytest.fixture(scope="module")
def gemma_pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("gemma")
    return export_with_special_tokens(directory, ("<|channel>", "<channel|>"), TEMPLATE)


@pytest.fixture
def runner(special_pte: Path, cpp_build: Path) -> Iterator[Runner]:
    with Runner(special_pte, threads=1) as runner:
        yield runner


def number(runner: Runner, text: str) -> int:
    (token,) = runner.encode_pieces([(text, True)])
    return token


@pytest.mark.check
def test_the_text_of_special_tokens(runner: Runner) -> None:
    """The model is made to say a token that ends no answer, between others."""
    mark = number(runner, MARK)
    choices = {"logit_bias": {mark: 7.5}, "temperature": 1.0, "seed": 6, "logprobs": 0}
    plain = "".join(runner.generate("Once", 40, **choices))  # type: ignore[arg-type]
    tokens = [entry.token for entry in runner.logprobs]
    assert 3 < tokens.count(mark) < 38
    assert MARK not in plain
    shown = "".join(runner.generate("Once", 40, special_text=True, **choices))  # type: ignore[arg-type]
    assert [entry.token for entry in runner.logprobs] == tokens
    assert b"".join(entry.data for entry in runner.logprobs).decode() == shown
    assert shown.replace(MARK, "") == plain
    assert shown.count(MARK) == tokens.count(mark)
    with Engine(runner) as engine:
        generation = engine.submit("Once", 40, special_text=True, **choices)  # type: ignore[arg-type]
        assert generation.text() == shown
    before, _, _ = shown.partition(MARK)
    stopped = runner.generate("Once", 40, special_text=True, stop=MARK, **choices)  # type: ignore[arg-type]
    assert "".join(stopped) == before
    assert runner.stats["stop_reason"] == "stop"


def test_the_token_that_ends_an_answer(runner: Runner) -> None:
    for text in ("<|begin_of_text|>", "<|end_of_text|>"):
        end = number(runner, text)
        options = {"logit_bias": {end: 100}, "special_text": True, "logprobs": 2}
        assert list(runner.generate("Once", 5, **options)) == []  # type: ignore[arg-type]
        stats = runner.stats
        assert (stats["stop_reason"], stats["end_token"], stats["end_text"]) == ("eos", end, text)
        assert runner.logprobs == []
        with Engine(runner) as engine:
            generation = engine.submit("Once", 5, **options)  # type: ignore[arg-type]
            assert generation.text() == ""
            assert generation.stats is not None
            assert generation.stats["end_token"] == end
    list(runner.generate("Once", 2))
    assert (runner.stats["end_token"], runner.stats["end_text"]) == (-1, "")


def test_a_chat_and_the_command(runner: Runner, special_pte: Path, cpp_build: Path) -> None:
    mark = number(runner, MARK)
    bias = {mark: 100}
    assert "".join(Chat(runner).say("One?", 3, special_text=True, logit_bias=bias)) == MARK * 3
    options = ["-p", "Once", "-n", "3", "--special-text", "--logit-bias", f"{mark}=100"]
    result = subprocess.run(
        [cpp_build / "runner", special_pte, *options], capture_output=True, text=True
    )
    assert (result.stdout, result.returncode) == (MARK * 3, 0), result.stderr


# Answers that think first, as grammars, and the pieces of them.
THOUGHTS = {
    "harmony": [
        *(Special("<|channel|>"), "analysis", Special("<|message|>"), "A sum <|end|>."),
        *(Special("<|end|>"), Special("<|start|>"), "assistant", Special("<|channel|>")),
        *("final", Special("<|message|>"), "Four, <|end|>."),
    ],
    "gemma-4": [
        *(Special("<|channel>"), "thought\nA sum.\n", Special("<channel|>"), "\nFour, <|end|>."),
    ],
}


def joined(pieces: list[str]) -> list[str]:
    """With texts behind each other as one."""
    found: list[str] = []
    for kind, part in groupby(pieces, type):
        texts = list(part)
        found += texts if kind is Special else ["".join(texts)]
    return found


def grammar_of(pieces: list[str]) -> str:
    terminals = [f"<{json.dumps(p)}>" if isinstance(p, Special) else json.dumps(p) for p in pieces]
    return "root ::= " + " ".join(terminals)


@pytest.mark.parametrize("name", THOUGHTS)
def test_what_a_model_thinks_is_not_what_it_says(
    special_pte: Path, gemma_pte: Path, cpp_build: Path, tmp_path: Path, name: str
) -> None:
    """Nor is it kept, nor seen by stop texts; text that spells special tokens is."""
    path = special_pte if name == "harmony" else gemma_pte
    pieces = THOUGHTS[name]
    grammar = grammar_of(pieces)
    with Runner(path, threads=1) as runner:
        with Engine(runner) as engine:
            generation = engine.submit("Once", grammar=grammar, special_apart=True)
            found = list(generation)
            assert joined(found) == pieces
            assert generation.text() == "".join(pieces)
            stopped = engine.submit(
                "Once", grammar=grammar, special_apart=True, wanted=lambda piece: "A" not in piece
            )
            assert stopped.text().endswith("A") and stopped.stats is not None
            assert stopped.stats["stop_reason"] == "stop"
        chat = Chat(runner)
        assert "".join(chat.say("2 + 2?", grammar=grammar)) == "Four, <|end|>."
        runner.save(tmp_path / "session")
        assert messages_of(tmp_path / "session")[-1] == ("assistant", "Four, <|end|>.")
        stops = ["sum", "thought", "final", ", "]
        assert "".join(chat.say("2 + 2?", grammar=grammar, stop=stops)) == "Four"
        shown = "".join(chat.say("2 + 2?", grammar=grammar, special_text=True))
        assert shown == "".join(pieces)
    options = ["--chat", "-p", "2 + 2?", "--grammar", grammar]
    result = subprocess.run([cpp_build / "runner", path, *options], capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ("Four, <|end|>.\n", 0), result.stderr


@pytest.mark.parametrize(
    ("said", "content"),
    [
        (["Four."], "Four."),
        (["to be"], "to be"),
        (["assistant"], "assistant"),
        (["I.", Special("<|end|>"), "Four."], "I.Four."),
        (["to", Special("<|end|>"), "Four."], "toFour."),
        (
            ["to", Special("<|end|>"), Special("<|start|>"), *THOUGHTS["harmony"]],
            "toFour, <|end|>.",
        ),
        (["\n", Special("<|end|>")], ""),
        (["assistant", *THOUGHTS["harmony"]], "Four, <|end|>."),
    ],
)
def test_messages_without_a_header(
    special_pte: Path, cpp_build: Path, said: list[str], content: str
) -> None:
    with Runner(special_pte, threads=1) as runner:
        assert "".join(Chat(runner).say("2 + 2?", grammar=grammar_of(said))) == content


def test_an_end_of_reasoning_that_has_not_begun(gemma_pte: Path, cpp_build: Path) -> None:
    """What the model says behind it is kept as it is."""
    grammar = grammar_of(["Four", Special("<channel|>"), "\n or five."])
    with Runner(gemma_pte, threads=1) as runner:
        assert "".join(Chat(runner).say("2 + 2?", grammar=grammar)) == "Four\n or five."


@pytest.mark.check
def test_a_call_is_read_once(cpp_build: Path, tmp_path: Path) -> None:
    """Also where the answer's end alone ends it."""
    path = export_with_special_tokens(tmp_path, (), TEMPLATES["llama-3"])
    tools = [{"type": "function", "function": {"name": "now"}}]
    with Runner(path, threads=1) as runner, Engine(runner) as engine:
        reply = ask(engine, [{"role": "user", "content": "Hi"}], tools, "now")
        assert reply.text == "" and [call.name for call in reply.calls] == ["now"]
        assert list(reply) == [] and len(reply.events) == 1


BEGUN = TEMPLATE + "{% if add_generation_prompt %}{{ '<think>\\n' }}{% endif %}"


@pytest.fixture(
    scope="module", params=[("<think>", "</think>"), *checked([()])], ids=["special", "text"]
)
def thinking_pte(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("thinking")
    return export_with_special_tokens(directory, request.param, BEGUN)


@pytest.mark.check
def test_reasoning_that_the_prompt_begins(
    thinking_pte: Path, cpp_build: Path, tmp_path: Path
) -> None:
    """It is not what the model says, nor kept, nor seen by stop texts, in every turn."""
    with Runner(thinking_pte, threads=1) as runner:
        assert runner.chat_template is not None
        marks = set(runner.chat_template["special_tokens"]) & {"<think>", "</think>"}
        end = Special("</think>") if marks else "</think>"
        content = "Four: a < b, <think>."
        pieces = ["I see: </thin <think> 4.\n", end, "\n\n" + content]
        grammar = grammar_of(pieces)
        chat = Chat(runner)
        for _ in range(2):
            assert "".join(chat.say("2 + 2?", grammar=grammar)) == content
            stopped = "".join(chat.say("2 + 2?", grammar=grammar, stop=["see", "4", ": a"]))
            assert stopped == "Four"
            assert "".join(chat.say("2 + 2?", 5)) == ""  # it was cut
            # A constraint that does not end it is of the content.
            said = list(chat.say("2 + 2?", json_schema={"const": ["4 </think>", 4]}))
            assert "".join(said) == '["4 </think>",4]'
            assert len(said) > 1  # JSON comes as it is written
            assert "".join(chat.say("2 + 2?", choice=["Four, 4."], stop=[" 4"])) == "Four,"
        shown = "".join(chat.say("2 + 2?", grammar=grammar, special_text=True))
        assert shown == "".join(pieces)
        runner.save(tmp_path / "session")
    texts = [text for role, text in messages_of(tmp_path / "session") if role == "assistant"]
    assert texts == [content, "Four", "", '["4 </think>",4]', "Four,"] * 2 + [shown]
    command = [cpp_build / "runner", thinking_pte, "--chat", "--grammar", grammar]
    result = subprocess.run(command, input="2 + 2?\nAnd?\n", capture_output=True, text=True)
    assert (result.stdout, result.returncode) == (f"{content}\n" * 2, 0), result.stderr
    assert "reasoning" not in result.stderr
    result = subprocess.run([*command[:3], "-p", "2?", "-n", "5"], capture_output=True, text=True)
    assert result.stdout == "\n" and "within the model's reasoning" in result.stderr


@pytest.mark.check
@pytest.mark.parametrize(
    ("form", "may_end_it"),
    [
        ({"regex": "(4 </thin[^k]k?){5}"}, False),
        ({"choice": ["4, and four it is.", "4, and four it was"]}, False),
        ({"grammar": 'root ::= "4" ( ", " root )?'}, False),
        ({"regex": "(4 ){20}(</think>)?"}, True),
    ],
)
def test_constraints_of_answers_in_reasoning(
    thinking_pte: Path, form: dict[str, Any], may_end_it: bool
) -> None:
    """Where none of their texts can end it, the answer is content, as it is written."""
    with Runner(thinking_pte, threads=1) as runner:
        assert runner.chat_template is not None
        is_special = "</think>" in runner.chat_template["special_tokens"]
        pieces = list(Chat(runner).say("2 + 2?", 12, **form))
    assert "".join(pieces).startswith("4")
    assert (len(pieces) > 1) == (is_special or not may_end_it)


def test_pieces_of_text(runner: Runner) -> None:
    """Only those that may contain special tokens have them."""
    text = "<|end_of_text|>"
    end = number(runner, text)
    assert runner.encode_pieces([]) == []
    assert runner.encode_pieces([("Once upon", False)]) == runner.encode("Once upon")
    mixed = runner.encode_pieces([("a" + text, False), (text, True), (f"b {text} c", False)])
    assert mixed.count(end) == 1
    assert runner.encode_pieces([(text[:5], True), (text[5:], True)]) == [end]
    assert end not in runner.encode_pieces([(text[:5], True), (text[5:], False)])
    for wrong in ((5, True), ("x",), ("x", True, 1), "ab", b"ab", None, ("x", "y")):
        with pytest.raises(RunnerError, match="a piece is .*, but must be a string and True or"):
            runner.encode_pieces([wrong])  # type: ignore[list-item]
    for all_wrong in ("x", None, 5):
        with pytest.raises(RunnerError, match="pieces are .*, but must be a list of pairs"):
            runner.encode_pieces(all_wrong)  # type: ignore[arg-type]
    assert runner.encode_pieces([("x\0y", False)]) == runner.encode("x\0y")
    with Engine(runner) as engine:
        assert runner.encode_pieces([(text, True)]) == [end]
        assert engine.submit([0, *runner.encode("Once")], 3).text()
    runner.close()
    with pytest.raises(RunnerError, match="closed"):
        runner.encode_pieces([("a", True)])
