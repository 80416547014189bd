"""Answers held to grammars that name special tokens: sampled, forced, cached and drafted."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from support.free_text import free_text_until
from support.once import made_once
from support.tool_models import export_prepending_model, export_suffix_model, export_tool_model
from tokenizers import Tokenizer

from runtime import Engine, Runner, RunnerError
from runtime.commands.generate import why_incomplete

WEATHER = {
    "type": "object",
    "properties": {
        "name": {"enum": ["get_weather", "get_time"]},
        "arguments": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 6}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "arguments"],
    "additionalProperties": False,
}
CALL = "%json " + json.dumps(WEATHER)
SPECIAL = f'root ::= [a-z ]{{0,12}} (<|python_tag|> | <"[TOOL_CALLS]">) {CALL} <|call|>'
TEXT = f'root ::= "<tool_call>\\n" {CALL} "\\n</tool_call>"'
FREE = free_text_until("<tool_call>", "call") + f'call ::= "\\n" {CALL} "\\n</tool_call>"'
SAMPLED = {"temperature": 1.5, "max_new_tokens": 200}


@pytest.fixture(scope="module")
def tools_pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "tools", export_tool_model)


@pytest.fixture
def runner(tools_pte: Path, cpp_build: Path) -> Iterator[Runner]:
    with Runner(tools_pte, threads=1) as runner:
        yield runner


@pytest.fixture(scope="module")
def suffixed(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Path:
    return export_suffix_model(tmp_path_factory.mktemp("suffixed"))


def said(runner: Runner, grammar: str, prompt: str = "A call: ", **options: object) -> str:
    return "".join(runner.generate(prompt, grammar=grammar, **options))  # type: ignore[arg-type]


def is_cached(runner: Runner, text: str) -> bool:
    """Whether the cache has the text as the tokenizer splits it, special tokens in it by name."""
    list(runner.generate(text, 1))
    return int(runner.stats["prompt_tokens"]) <= 2  # the last of an answer is not in it yet


@pytest.mark.check
def test_every_call_is_valid(runner: Runner) -> None:
    """Special tokens are in no text: their calls are what is left."""
    for seed in range(20):
        answer = said(runner, SPECIAL, seed=seed, **SAMPLED)
        jsonschema.validate(json.loads(re.sub("^[a-z ]*", "", answer)), WEATHER)
        assert (runner.stats["stop_reason"], runner.stats["incomplete"]) == ("eos", False)
        answer = said(runner, TEXT, seed=seed, **SAMPLED)
        found = re.fullmatch(r"<tool_call>\n(.*)\n</tool_call>", answer)
        assert found is not None
        jsonschema.validate(json.loads(found[1]), WEATHER)
        assert (runner.stats["stop_reason"], runner.stats["incomplete"]) == ("complete", False)
        answer = said(runner, FREE, seed=seed, **(SAMPLED | {"max_new_tokens": 60}))
        free, literal, call = answer.partition("<tool_call>")
        if literal and not runner.stats["incomplete"]:
            jsonschema.validate(json.loads(call.removesuffix("</tool_call>")), WEATHER)


def test_forced_tokens_are_those_of_the_tokenizer(runner: Runner) -> None:
    """A special token is forced as itself; text by the added token that it is."""
    tokens = runner.encode("get({})")
    special = '<|python_tag|> "get({})" <"[TOOL_CALLS]"> "get({})" <|python_tag|>'
    last = said(runner, f"root ::= {special} [a-z]", prompt="A call:")[-1]
    assert int(runner.stats["forced_tokens"]) == 3 + 2 * len(tokens)
    assert is_cached(
        runner, f"A call:<|python_tag|>get({{}})[TOOL_CALLS]get({{}})<|python_tag|>{last}"
    )
    assert not is_cached(runner, f"A call:get({{}})get({{}}){last}")
    text = said(runner, 'root ::= "<tool_call>\\n{}\\n</tool_call>" [a-z]', prompt="A call:")
    assert runner.encode(text)[0] == runner.encode("<tool_call>")[0]
    assert len(runner.encode("<tool_call></tool_call>")) == 2
    assert is_cached(runner, f"A call:{text}")


def test_nothing_is_forced_where_the_model_may_end(
    runner: Runner, tools_pte: Path, cpp_build: Path
) -> None:
    assert said(runner, "root ::= <|call|>") == ""
    assert (runner.stats["stop_reason"], runner.stats["incomplete"]) == ("eos", False)
    assert said(runner, 'root ::= "x" <|call|> "y"') == "x"
    assert (runner.stats["stop_reason"], runner.stats["incomplete"]) == ("eos", True)
    said_in_python = why_incomplete(runner.stats)
    assert said_in_python == "<|call|> ends it, and its constraint goes on behind that"
    command = [cpp_build / "runner", tools_pte, "-p", "x", "--grammar", 'root ::= "x" <|call|> "y"']
    result = subprocess.run(command, capture_output=True, text=True)
    assert f"runner: the answer is not complete: {said_in_python}\n" in result.stderr
    assert result.returncode == 3


def test_a_text_that_begins_with_a_special_token(runner: Runner, tmp_path: Path) -> None:
    """Also where the first token of text loses its space, and where bytes are tokens."""
    for seed in range(5):
        call = said(runner, f'root ::= <"[TOOL_CALLS]"> {CALL}', prompt="", seed=seed, **SAMPLED)
        jsonschema.validate(json.loads(call), WEATHER)
    with Runner(export_prepending_model(tmp_path), threads=1) as prepending:
        for seed in range(5):
            grammar = 'root ::= <"[TOOL_CALLS]"> "Once upon a " [a-z]{3}'
            text = said(prepending, grammar, prompt="", seed=seed, **SAMPLED)
            assert re.fullmatch("Once upon a [a-z]{3}", text)


def test_engines_and_drafts_say_the_same(runner: Runner, tools_pte: Path) -> None:
    grammars = [SPECIAL, TEXT, FREE]
    options = {"temperature": 1.1, "seed": 4, "max_new_tokens": 50}
    expected = [said(runner, grammar, **options) for grammar in grammars]
    for draft in ("ngram", tools_pte):
        with Runner(tools_pte, threads=1, draft=draft) as drafting:
            assert [said(drafting, grammar, **options) for grammar in grammars] == expected
    with Engine(runner, sequences=3) as engine:
        work = [engine.submit("A call: ", grammar=grammar, **options) for grammar in grammars]
        assert [generation.text() for generation in work] == expected


@pytest.mark.check
def test_an_answer_behind_a_token_that_reads_otherwise_at_the_end(suffixed: Path) -> None:
    """A prompt and its answer are what the library makes of the tokens of both."""
    library = Tokenizer.from_file(str(suffixed.parent / "checkpoint" / "tokenizer.json"))
    with Runner(suffixed, threads=1) as runner:
        for prompt, token in (("a b", 5), ("a b", 3), ("ab ba a", 5), ("", 5)):
            answer = "".join(runner.generate(prompt, 3, logit_bias={token: 100}))
            ids = [*library.encode(prompt).ids, token, token, token]
            assert prompt + answer == library.decode(ids)


def test_refusals(runner: Runner, suffixed: Path) -> None:
    with pytest.raises(RunnerError, match=r"no special or added token <\|eom_id\|>$"):
        said(runner, "root ::= <|eom_id|>")
    with pytest.raises(RunnerError, match="no special or added token with the id 70$"):
        said(runner, "root ::= <[70]>")
    with (
        Runner(suffixed, threads=1) as other,
        pytest.raises(RunnerError, match="whose tokens read otherwise beside others"),
    ):
        said(other, 'root ::= <"[CLS]">')
    note = 'root ::= %json {"oneOf": [{"const": 1}, {"const": 2}]}'
    assert said(runner, note) in ("1", "2")
    assert runner.constraint_notes == [
        "the rule root: the JSON schema's oneOf at # is treated as anyOf: an answer may "
        "match several of its parts"
    ]
