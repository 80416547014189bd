"""From a conversation and its functions to what an engine runs, and a reader of the answer."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.chat_format.calls import Tool
from runtime.chat_format.formats import find_format
from runtime.chat_format.formats.base import CallFormat
from runtime.chat_format.formats.harmony import Harmony
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.harmony_reader import HarmonyReader
from runtime.chat_format.messages import prepare_messages
from runtime.chat_format.reader import MarkedReader, Reader
from runtime.chat_format.reasoning import reasoning_marks
from runtime.chat_format.schemas import with_pointers
from runtime.chat_format.template import ChatTemplate, Piece
from runtime.errors import RunnerError
from runtime.one_constraint import one_constraint

_BLANK = '"\\n"{0,2}'  # between reasoning and the answer; more could fill the context
_ANSWER = "the-answer"  # what a grammar calls the constraint of an answer without calls
_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}

ToolChoice = str | Mapping[str, Any]
_Wanted = tuple[str, Any] | None  # the constraint of the answer: its option, and the value


@dataclass(frozen=True)
class Prompt:
    """A conversation as an engine runs it.

    Attributes:
        pieces: the text, up to where the answer begins.
        grammar: in GBNF, which the answer must match; None: any text.
        reader: of the answer, whose special tokens must be pieces of their own.
        described: of the grammar's rules that are constraints, what each describes.
        pictures: the numbers of the conversation's pictures, in the order of their places.
    """

    pieces: list[Piece]
    grammar: str | None
    reader: Reader
    described: Mapping[str, str]
    pictures: Sequence[int] = ()

    def explained(self, reason: str, answer: str) -> str:
        """Returns why the grammar was refused, in terms of what the client gave.

        Args:
            answer: the name of the field with the constraint of the answer.
        """

        fields = {
            rule: answer if of == _ANSWER else f"tools: the parameters of {of}"
            for rule, of in self.described.items()
        }
        reason = re.sub(r"the rule (schema-of-[\w-]+)", lambda m: fields.get(m[1], m[0]), reason)
        return reason.replace("the grammar, or a constraint in it,", " or ".join(fields.values()))


def prepare(
    template: ChatTemplate,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: ToolChoice = "auto",
    parallel_tool_calls: bool = True,
    json_schema: Mapping[str, Any] | bool | None = None,
    variables: Mapping[str, Any] | None = None,
    regex: str | None = None,
    choice: Sequence[str] | None = None,
    grammar: str | None = None,
) -> Prompt:
    """Returns the prompt of a conversation.

    Args:
        messages: in OpenAI's form.
        tools: functions in OpenAI's form. The arguments of a function with `strict`, and of one
            that must be called, match its schema; those of others are any object.
        tool_choice: whether the model may call functions: `auto`, `none`, `required`, or the one
            that it must call, exactly once, its name or in OpenAI's form.
        parallel_tool_calls: it may call several at once, if its format has that.
        json_schema, regex, choice, grammar: of AnswerOptions, at most one: what the answer is where
            it calls nothing.
        variables: what else the template knows, such as `enable_thinking`.

    Raises:
        RunnerError: a message or a function is not valid, the template refuses them, the model
            cannot call functions, or several constraints are given.
    """
    constraints: dict[str, Any] = {"json_schema": json_schema, "regex": regex}
    constraints |= {"choice": choice, "grammar": grammar}
    wanted = one_constraint(constraints.items())
    try:
        return _prepare(
            template, messages, tools, tool_choice, parallel_tool_calls, wanted, variables
        )
    except RecursionError:
        raise RunnerError("the messages or the functions are nested too deeply") from None


def _prepare(
    template: ChatTemplate,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    tool_choice: ToolChoice,
    parallel_tool_calls: bool,
    wanted: _Wanted,
    variables: Mapping[str, Any] | None,
) -> Prompt:
    template = template.with_tools if tools else template
    prepared = prepare_messages(messages, template.source)
    calls = _call_format(template) if tools else None
    called = _callable(tools, tool_choice)
    named = tool_choice not in ("auto", "none", "required")
    rendered = template.render(prepared, tools or None, variables)
    pieces, pictures = rendered.pieces, rendered.pictures
    grammar = Grammar(template.special)
    if isinstance(calls or find_format(template.source, template.special.texts), Harmony):
        text = _harmony_grammar(grammar, called, tool_choice, wanted)
        harmony = HarmonyReader(template.special, called)
        return Prompt(pieces, text, harmony, grammar.described, pictures)
    reasoning = reasoning_marks(template.source)
    prompt = "".join(piece for piece, literal in pieces if literal).rstrip()
    reasons = reasoning is not None and prompt.endswith(reasoning[0])
    reasoned = reasoning is not None and prompt.endswith(reasoning[1])
    several = parallel_tool_calls and calls is not None and calls.parallel and not named
    heads = [] if calls is None else calls.heads(_callable(tools, "auto"))
    writer = _Writer(grammar, calls, heads, reasoning, reasons, reasoned)
    text = writer.grammar(called, tool_choice, several, wanted)
    offered = None if reasoned and text is not None else reasoning
    is_json = wanted is not None and wanted[0] == "json_schema"
    reader = MarkedReader(
        template.special,
        calls,
        called,
        offered,
        reasons,
        one_branch=wanted is not None,
        marks_alone=is_json or tool_choice not in ("auto", "none"),
    )
    return Prompt(pieces, text, reader, grammar.described, pictures)


def _call_format(template: ChatTemplate) -> CallFormat:
    call_format = (
        find_format(template.source, template.special.texts) if template.takes_tools else None
    )
    if call_format is None:
        raise RunnerError(
            "the model cannot call functions: its chat template has no tools, or writes calls in a "
            "form that is not supported; leave out tools"
        )
    return call_format


def _callable(tools: Sequence[Mapping[str, Any]], choice: ToolChoice) -> list[Tool]:
    """The functions that the answer may call.

    Raises:
        RunnerError: a function is not valid, or the choice names none of them.
    """
    functions = [_function(tool) for tool in tools]
    if choice == "none" or (not tools and choice == "auto"):
        return []
    name_of_choice = choice if isinstance(choice, str) else _function(choice)["name"]
    any_of_them = name_of_choice in ("auto", "required")
    offered = []
    for function in functions:
        if any_of_them or function["name"] == name_of_choice:
            strict = choice != "auto" or bool(function.get("strict"))
            offered.append(Tool(function["name"], _parameters(function), strict))
    if not offered:
        name = "a function" if any_of_them else repr(name_of_choice)
        raise RunnerError(f"tool_choice asks for {name}, which is not in tools")
    return offered


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The function of a tool in OpenAI's form.

    Raises:
        RunnerError: it has none.
    """
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RunnerError(
            'a tool must be {"type": "function", "function": {"name": ..., "parameters": ...}}'
        )
    return function


def _parameters(function: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a function's arguments, which allows objects alone; without parameters, the
    empty object.

    Raises:
        RunnerError: it allows no object.
    """
    parameters = function.get("parameters") or _NO_PARAMETERS
    kinds = parameters.get("type", "object") if isinstance(parameters, Mapping) else None
    if (
        not isinstance(parameters, Mapping)
        or (kinds != "object" and not (isinstance(kinds, list) and "object" in kinds))
        or not isinstance(parameters.get("properties", {}), Mapping)
        or not isinstance(parameters.get("required", []), list)
    ):
        raise RunnerError(
            f"the parameters of {function['name']} are not a JSON schema of an object, with "
            "properties in an object and required in a list"
        )
    return {**with_pointers(parameters), "type": "object"}


class _Writer:
    """Writes the grammar of answers whose parts are set off by marks."""

    def __init__(
        self,
        grammar: Grammar,
        calls: CallFormat | None,
        heads: Sequence[str],
        reasoning: tuple[str, str] | None,
        reasons: bool,
        reasoned: bool,
    ) -> None:
        self._grammar = grammar
        self._calls = calls
        self._heads = heads
        self._reasoning = reasoning
        self._reasons = reasons
        self._reasoned = reasoned  # the prompt has ended the reasoning: it does not begin again

    def grammar(
        self,
        called: Sequence[Tool],
        choice: ToolChoice,
        several: bool,
        wanted: _Wanted,
    ) -> str | None:
        """Returns the grammar; None: any text."""
        grammar, calls = self._grammar, self._calls
        if wanted is None and calls is None:
            return None
        text = None if wanted is None else grammar.constrained(*wanted, _ANSWER)
        if calls is None:
            return self._root(text or "")
        if not called:  # `none`: there is text, and no call in it
            return self._root(text or self._text_without_calls(None))
        free = choice == "auto" and text is None
        rest = self._rest(called, several, free)
        call = f"{grammar.literal(calls.begin)} {rest}"
        if choice != "auto":
            return self._root(call)
        if text is not None:
            return self._root(f"{text} | {call}")
        return self._root(self._text_without_calls(rest))

    def _rest(self, called: Sequence[Tool], several: bool, free: bool) -> str:
        """What follows the beginning of a call: the call, and what may come behind it.

        Args:
            free: text may.
        """
        assert self._calls is not None
        grammar = self._grammar
        call = self._calls.grammar(grammar, called, several)
        rest = grammar.rule(call)
        if not self._calls.end:
            return rest
        again = rest if several else None
        if free:
            behind = self._text_without_calls(again)
        else:
            more = f"( {grammar.literal(self._calls.begin)} {again} )?" if several else ""
            behind = f'"\\n"? {more}'
        grammar.define(rest, f"{call} {behind}")
        return rest

    def _text_without_calls(self, rest: str | None) -> str:
        """Text, and then perhaps a call, of which `rest` follows the beginning; None: no call."""
        assert self._calls is not None
        begin = self._calls.begin
        if not self._calls.begins_answer:
            again: dict[str, str | None] = {}
            if self._reasoning is not None and self._reasoned:
                again[self._reasoning[0]] = None
            return self._grammar.text_until({begin: rest, **again}, may_end=True)
        text = self._grammar.text_not_beginning([begin + head for head in self._heads])
        return text if rest is None else f"{text} | {self._grammar.literal(begin)} {rest}"

    def _root(self, answer: str) -> str:
        """The grammar of an answer behind reasoning, if there is some."""
        if self._reasoning is None or self._reasoned:
            return self._grammar.text(answer)
        begin, end = self._reasoning
        name = self._grammar.rule(answer)
        reasoned = self._grammar.text_until({end: f"{_BLANK} {name}"}, may_end=False)
        if self._reasons:
            return self._grammar.text(reasoned)
        return self._grammar.text(f"{self._grammar.literal(begin)} {reasoned} | {name}")


def _harmony_grammar(
    grammar: Grammar,
    called: Sequence[Tool],
    choice: ToolChoice,
    wanted: _Wanted,
) -> str | None:
    """The grammar of gpt-oss's answers; None: any text."""
    if not called and wanted is None:
        return None
    text = ".*" if wanted is None else grammar.constrained(*wanted, _ANSWER)
    last = []
    if called:
        calls = Harmony().grammar(grammar, called, several=False)
        last.append(f"{grammar.literal(Harmony.begin)} {calls}")
    if not called or choice == "auto":
        last.append(f"{grammar.literal('<|channel|>final<|message|>')} {text}")
    before = [grammar.literal("<|channel|>analysis<|message|>")]
    if wanted is None:  # what the model tells of the call that it will make
        before.append(grammar.literal("<|channel|>commentary<|message|>"))
    end = grammar.literal("<|end|><|start|>assistant")
    return grammar.text(f"( {grammar.one_of(before)} .* {end} )* {grammar.one_of(last)}")
