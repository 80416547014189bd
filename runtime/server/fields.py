"""Fields of requests that the server does not know."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from runtime.server.errors import HttpError

_ANYTHING = object()
_ADAPTERS = ("adapter", "adapter_id", "adapter_name", "lora", "lora_path", "lora_request")
# Fields that would change the answer, so that a client must not believe that they were obeyed:
# those of vLLM, of llama.cpp, of Ollama and of OpenAI that the server does not have. Of each the
# value that asks for nothing, or several; of those without one false, 0 and what is empty do.
UNSUPPORTED: dict[str, object] = {
    **dict.fromkeys(
        (
            *(
                *_ADAPTERS,
                "allowed_token_ids",
                "audio",
                "bad_words",
                "bad_words_ids",
                "chat_template",
            ),
            *("continue_final_message", "dimensions", "disable_additional_properties", "document"),
            *("documents", "dry_sequence_breakers", "early_stopping", "ebnf", "echo"),
            *("grammar_lazy", "ignore_eos", "image", "image_data", "image_url", "images"),
            *("include", "include_stop_str_in_output", "input_audio", "keywords"),
            *("known_speaker_names", "known_speaker_references", "languages"),
            *("logit_bias_eog", "logits_processors", "logprob_token_ids"),
            *("logprobs", "min_keep", "min_tokens"),
            *("mm_processor_kwargs", "multimodal_data", "n_indent", "n_probs", "no_stop_trim"),
            *("post_sampling_probs", "prompt_embeds", "raw"),
            *("reasoning_in_content", "repetition_detection", "return_tokens_as_token_ids"),
            *("samplers", "stop_token_ids", "structural_tag", "t_max_predict_ms", "top_a"),
            *("top_logprobs", "truncate_prompt_tokens", "use_beam_search", "watermarking"),
            *("whitespace_pattern", "guided_whitespace_pattern"),
            *("suffix", "vllm_xargs"),
        ),
        None,
    ),
    "adaptive_target": -1,
    "add_generation_prompt": True,
    "best_of": 1,
    "length_penalty": 1,
    "n_cmpl": 1,
    "n_predict": -1,
    "parse_tool_calls": True,
    "prompt_logprobs": _ANYTHING,
    "reasoning_budget": -1,
    "reasoning_budget_tokens": -1,
    "reasoning_format": ("auto", "deepseek", "parsed"),
    "repeat_penalty": 1,
    "skip_special_tokens": True,
    "tfs_z": 1,
    "thinking_budget": -1,
    "thinking_budget_tokens": -1,
    "thinking_token_budget": -1,
    "top_n_sigma": -1,
    "typ_p": 1,
    "web_search_options": (),  # an empty object asks for a search
}
# The same of the other paths, whose own APIs refuse what chat completions obey.
UNSUPPORTED_BESIDE_CHATS: dict[str, object] = {
    **UNSUPPORTED,
    "repeat_last_n": -1,
    **dict.fromkeys(
        (
            *("chat_template_kwargs", "choice", "dry_multiplier", "dynatemp_range"),
            *("frequency_penalty", "function_call", "functions", "grammar", "guided_choice"),
            *("guided_grammar", "guided_json", "guided_regex", "json_schema", "logit_bias"),
            *("max_completion_tokens", "max_tokens", "min_p", "mirostat", "prediction"),
            *("presence_penalty", "reasoning_effort", "regex", "response_format", "stop"),
            *("structured_outputs", "tool_choice", "tools", "xtc_probability"),
        ),
        None,
    ),
    "n": 1,
    "parallel_tool_calls": True,
    "repetition_penalty": 1,
    "seed": _ANYTHING,
    "top_k": (0, -1),
    "typical_p": 1,
}
# What the server calls otherwise.
_CALLED = {
    **dict.fromkeys(_ADAPTERS, "--adapter when the server is started"),
    "ebnf": "grammar",
    "keywords": "prompt",
    "languages": "language",
    "n_cmpl": "n",
    "n_predict": "max_tokens",
    "n_probs": "logprobs",
    "repeat_penalty": "repetition_penalty",
}
_LOG = logging.getLogger("uvicorn.error")
_MOST_TOLD = 200  # names, since clients choose them
_LONGEST = 80  # characters of one


class Fields(BaseModel):
    """An object of a request. Fields that it does not list are kept apart, for UnknownFields.

    Attributes:
        UNSUPPORTED: those that would change the answer, as the tables above.
    """

    model_config = ConfigDict(extra="allow", strict=True)
    UNSUPPORTED: ClassVar[Mapping[str, object]] = UNSUPPORTED


class UnknownFields:
    """Takes the fields that the server does not know out of requests.

    Args:
        strict: they are refused; otherwise those alone that change the answer, and the log tells
            once of each other.
    """

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._told: set[str] = set()

    def take(self, body: Fields) -> list[str]:
        """Removes them from a request; returns their names.

        Raises:
            HttpError: one is refused.
        """
        taken = list(_taken(body, ""))
        for name, value in taken:
            last = name.rpartition(".")[2]
            if self._strict or _changes_answer(body.UNSUPPORTED, last, value):
                other = f": use {_CALLED[last]}" if last in _CALLED else ""
                reason = f"{name} is not supported{other}"
                raise HttpError(400, reason, name, "unsupported_parameter")
        names = list(dict.fromkeys(name for name, _ in taken))
        for name in names:
            if name not in self._told and len(self._told) < _MOST_TOLD:
                self._told.add(name)
                _LOG.warning("requests have the field %s, which has no effect", name)
        return names


def _changes_answer(unsupported: Mapping[str, object], name: str, value: Any) -> bool:
    if name not in unsupported:
        return False
    nothing = unsupported[name]
    if nothing is None:
        return bool(value)
    return value not in nothing if isinstance(nothing, tuple) else value != nothing


def _taken(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Iterates over the fields inside a value that are not known; their names leave the numbers of
    lists' members out."""
    if isinstance(value, list):
        for member in value:
            yield from _taken(member, place)
    if not isinstance(value, BaseModel):
        return
    extra = value.__pydantic_extra__ or {}
    for name, given in list(extra.items()):
        del extra[name]
        if given is not None:
            yield f"{place}{_plain(name)}", given
    for name, field in type(value).model_fields.items():
        yield from _taken(getattr(value, name), f"{place}{field.alias or name}.")


def _plain(name: str) -> str:
    """A name that a header and a log can have: clients choose it."""
    shown = (c if "!" <= c <= "~" and c != "," else "?" for c in name[:_LONGEST])
    return "".join(shown) or "?"
