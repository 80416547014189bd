"""What Ollama's requests ask for, in the words of chat completions."""

from runtime.server.ollama.requests import GenerateBody, Message
from runtime.server.ollama.routes import _messages


def test_results_belong_to_the_functions_that_they_name() -> None:
    named = [{"function": {"name": name}} for name in ("f", "g", "f")]
    results = [{"role": "tool", "tool_name": n, "content": n} for n in ("g", "f", "other", "f")]
    told = [{"role": "assistant", "tool_calls": named}, *results]
    calls, *answers = _messages([Message.model_validate(message) for message in told])
    first, second, third = (call["id"] for call in calls["tool_calls"])
    assert [answer["tool_call_id"] for answer in answers] == [second, first, third, "call"]


def test_a_seed_of_chance_and_an_empty_schema() -> None:
    asked = {"model": "stories", "options": {"seed": -1}, "format": {}}
    fields = GenerateBody.model_validate(asked).fields
    assert fields["seed"] is None and fields["response_format"]["schema"] == {}
