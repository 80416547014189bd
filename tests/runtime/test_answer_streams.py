"""Streams equal whole answers: each text, in pieces of many sizes, is read as it is at once."""

import copy
import itertools
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.answer_pieces import joined, pieces_of
from support.call_templates import HERMES, SPECIAL_TOKENS, TEMPLATES
from support.exported import Quiet
from support.real_models import gemma3, smollm2
from tokenizers import Tokenizer

from exporter.catalogue.names import EMBEDDED
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme
from runtime import Engine, Runner
from runtime.binding.answer_stream import Special
from runtime.chat_format.calls import Event, Reasoning, Text, ToolCall
from runtime.chat_format.conversation import prepare
from runtime.chat_format.reader import Reader
from runtime.chat_format.stop_reader import StopReader
from runtime.chat_format.template import ChatTemplate

USER = [{"role": "user", "content": "What is the weather in Paris, and what time is it?"}]
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("get_weather", "get_time")
]
SPECIAL = (*SPECIAL_TOKENS, "<|python_tag|>", "<|channel>", "<channel|>", "[THINK]", "[/THINK]")
THINKING = HERMES + "{# <think> </think> #}"
FORMS = {
    **TEMPLATES,
    "thinking": THINKING,
    "begun": THINKING + "{{ '<think>\\n' if add_generation_prompt }}",
    "magistral": TEMPLATES["mistral"] + "{# [THINK] [/THINK] #}",
    "gemma-4": TEMPLATES["gemma-4"] + "{# <|channel>thought #}",
}
WEATHER = ToolCall("get_weather", '{"city": "Paris"}')
TIME = ToolCall("get_time", '{"zone": "Europe/Paris", "seconds": false}')
JSON = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
TIME_JSON = '{"name": "get_time", "arguments": {"zone": "Europe/Paris", "seconds": false}}'
HEADER = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
LOOK = 'It may be {"city": "Paris"}.'

# Answers in the forms that the models' documentation shows.
RECORDED: list[tuple[str, str, list[Event]]] = [
    ("hermes", f"I look.\n<tool_call>\n{JSON}\n</tool_call>", [Text("I look."), WEATHER]),
    (
        "hermes",
        f"<tool_call>\n{JSON}\n</tool_call>\n<tool_call>\n{TIME_JSON}\n</tool_call>",
        [WEATHER, TIME],
    ),
    ("hermes", "Use `<tool_call>` 中文 é.\n", [Text("Use `<tool_call>` 中文 é.\n")]),
    (
        "thinking",
        f"<think>\n{LOOK}\n</think>\n\n<tool_call>\n{JSON}\n</tool_call>",
        [Reasoning(LOOK), WEATHER],
    ),
    ("thinking", "<think>\n\n</think>\n\n18 °C.\n\n- sun\n", [Text("18 °C.\n\n- sun\n")]),
    ("begun", f"{LOOK}\n</think>\n\nIt is 18 °C.", [Reasoning(LOOK), Text("It is 18 °C.")]),
    (
        "qwen-xml",
        "I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
        "</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n<parameter=zone>\n"
        "Europe/Paris\n</parameter>\n</function>\n</tool_call>",
        [Text("I look."), WEATHER, ToolCall("get_time", '{"zone": "Europe/Paris"}')],
    ),
    ("llama-3", JSON.replace("arguments", "parameters"), [WEATHER]),
    (
        "llama-3",
        '<|python_tag|>brave_search.call(query="Paris")',
        [Text('brave_search.call(query="Paris")')],
    ),
    ("llama-3", 'A call is {"name": "get_weather"}.', [Text('A call is {"name": "get_weather"}.')]),
    ("mistral-list", f"[TOOL_CALLS] [{JSON}, {TIME_JSON}]", [WEATHER, TIME]),
    ("mistral", '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}', [WEATHER]),
    (
        "magistral",
        f'[THINK]{LOOK}[/THINK]I look.[TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4e[ARGS]{{"city": '
        f'"Paris"}}[TOOL_CALLS]get_time[ARGS]{TIME.arguments}',
        [Reasoning(LOOK), Text("I look."), WEATHER, TIME],
    ),
    ("phi-4", f"<|tool_call|>[{JSON}, {TIME_JSON}]<|/tool_call|>", [WEATHER, TIME]),
    (
        "lfm2",
        '<|tool_call_start|>[get_weather(city="Paris"), get_time(zone="Europe/Paris", '
        "seconds=False)]<|tool_call_end|>I look at both.",
        [WEATHER, TIME, Text("I look at both.")],
    ),
    (
        "gemma-4",
        f'<|channel>thought\n{LOOK}<channel|><|tool_call>call:get_weather{{city:<|"|>Paris'
        '<|"|>}<tool_call|>',
        [Reasoning(LOOK), WEATHER],
    ),
    (
        "harmony",
        f"<|channel|>analysis<|message|>{LOOK}<|end|><|start|>assistant<|channel|>commentary"
        "<|message|>I look.<|end|><|start|>assistant"
        f'{HEADER}{{"city": "Paris"}}<|call|>',
        [Reasoning(LOOK), Text("I look."), WEATHER],
    ),
    (
        "harmony",
        f"<|channel|>analysis<|message|>{LOOK}<|end|><|start|>assistant<|channel|>final"
        "<|message|>It is 18 °C.\n",
        [Reasoning(LOOK), Text("It is 18 °C.\n")],
    ),
]


@cache
def template_of(name: str, special: tuple[str, ...]) -> ChatTemplate:
    return ChatTemplate(FORMS[name], "", "</s>", special)


def reader_of(name: str, schema: Any = None, special: tuple[str, ...] = SPECIAL) -> Reader:
    return prepare(template_of(name, special), USER, TOOLS, json_schema=schema).reader


def read(reader: Reader, pieces: list[str]) -> list[Event]:
    """The events, texts behind each other as one."""
    reader = copy.deepcopy(reader)
    return joined([e for piece in pieces for e in reader.push(piece)] + reader.finish())


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(EMBEDDED / "tokenizer.json"))


def splits(text: str, seeds: int = 3) -> list[list[str]]:
    """Pieces of the text: characters, a model's tokens, and random sizes."""
    whole = pieces_of(text, SPECIAL)
    found = [pieces_of(text, SPECIAL, 1)]
    found.append(cut(whole, lambda part: [end for _, end in tokenizer().encode(part).offsets]))
    for seed in range(seeds):
        places = random.Random(seed).sample(range(len(text)), len(text) // (seed % 5 + 2))
        found.append(cut(whole, lambda _, at=places: at))  # type: ignore[misc]
    return found


def cut(pieces: list[str], places: Any) -> list[str]:
    """The pieces, but special tokens, cut at these places."""
    found: list[str] = []
    for piece in pieces:
        if isinstance(piece, Special):
            found.append(piece)
            continue
        ends = sorted({0, len(piece), *(at for at in places(piece) if at < len(piece))})
        found += [piece[a:b] for a, b in zip(ends, ends[1:], strict=False)]
    return found


@pytest.mark.parametrize(("name", "text", "events"), RECORDED)
def test_recorded_answers(name: str, text: str, events: list[Event]) -> None:
    """By their own readers, the same for each split, and by those of every other format."""
    assert read(reader_of(name), pieces_of(text, SPECIAL)) == events
    for pieces in splits(text, seeds=40):
        assert read(reader_of(name), pieces) == events
    for other in FORMS:
        readers = [reader_of(other), reader_of(other, {"type": "object"})]
        for reader in [*readers, StopReader(readers[0], ["\n", "Paris", "°"])]:
            whole = read(reader, pieces_of(text, SPECIAL))
            for pieces in splits(text):
                assert read(reader, pieces) == whole, (other, pieces)


ASKED = [
    "What is the weather in Paris?",
    f"Repeat this: {JSON}",
    "Write a JSON object with your name.",
    "Write an HTML page with <b>, and a Python list of three numbers.",
]


EXAMPLES = "\n".join(
    f"Question: {question}\nAnswer: {said}\n"
    for question, (_, said, _) in zip(ASKED * 2, RECORDED[::2], strict=False)
)


@pytest.mark.soak
@pytest.mark.parametrize("fetch", [smollm2, gemma3])
def test_answers_of_real_models(cpp_build: Path, tmp_path: Path, fetch: Any) -> None:
    """Sampled, in the pieces in which they come, by the readers of every format."""
    model, out = str(fetch(tmp_path)), tmp_path / "real.pte"
    options = ExportOptions(model=model, out=out, delegate="cpu", scheme=Scheme("rtn8"))
    with Runner(export_model(options, Quiet()).out) as runner, Engine(runner) as engine:
        answers = []
        for seed, question in enumerate(ASKED * 2):
            prompt = f"{EXAMPLES}\nQuestion: {question}\nAnswer:"  # a base model goes on with it
            generation = engine.submit(prompt, 200, temperature=0.7, seed=seed, special_apart=True)
            answers.append(list(generation))
    said = ["".join(pieces) for pieces in answers]
    assert all(any(mark in text for text in said) for mark in ("{", "<", "get_weather"))
    for pieces in answers:
        joined: list[str] = []
        for piece in pieces:
            is_text = not isinstance(piece, Special)
            if is_text and joined and not isinstance(joined[-1], Special):
                joined[-1] += piece
            else:
                joined.append(piece)
        for name, special in itertools.product(FORMS, (SPECIAL, ())):  # (): marks are text
            readers = [reader_of(name, schema, special) for schema in (None, {"type": "object"})]
            for reader in [*readers, StopReader(readers[0], ["\n\n", "]", "Paris"])]:
                assert read(reader, pieces) == read(reader, joined), name
