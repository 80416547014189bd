"""Special tokens in an answer: their text where it is asked for, and the one that ends it."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.chats import TEMPLATE
from support.exported import Quiet

from exporter.catalogue.find import EMBEDDED
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme
from runtime import Chat, Engine, Runner, RunnerError

MARK = "def"  # a word of the model's vocabulary, which is made a special token here


@pytest.fixture(scope="module")
def special_pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("special")
    checkpoint = shutil.copytree(EMBEDDED, directory / "checkpoint")
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
    added = {**tokenizer["added_tokens"][0], "content": MARK}
    added["id"] = tokenizer["model"]["vocab"][MARK]
    tokenizer["added_tokens"].append(added)
    (checkpoint / "tokenizer.json").write_text(json.dumps(tokenizer))
    (checkpoint / "chat_template.jinja").write_text(TEMPLATE)
    options = ExportOptions(
        model=str(checkpoint),
        out=directory / "special.pte",
        scheme=Scheme("rtn4"),
        delegate="cpu",
    )
    return export_model(options, Quiet()).out


@pytest.fixture
def runner(special_pte: Path, cpp_build: Path) -> Iterator[Runner]:
    with Runner(special_pte, threads=1) as runner:
        yield runner


def number(runner: Runner, text: str) -> int:
    (token,) = runner.encode_pieces([(text, True)])
    return token


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
    with pytest.raises(RunnerError, match="a piece is 5, but must be a string"):
        runner.encode_pieces([(5, True)])  # type: ignore[list-item]
    assert runner.encode_pieces([("x\0y", False)]) == runner.encode("x\0y")
    with Engine(runner) as engine:
        assert runner.encode_pieces([(text, True)]) == [end]
        assert engine.submit([0, *runner.encode("Once")], 3).text()
    runner.close()
    with pytest.raises(RunnerError, match="closed"):
        runner.encode_pieces([("a", True)])
