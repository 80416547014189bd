"""Fields of requests that the server does not know."""

import logging
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from runtime.server.errors import HttpError

# They change the answer, so a client must not believe that they were obeyed.
UNSUPPORTED = frozenset(
    {
        "add_generation_prompt",
        "allowed_token_ids",
        "audio",
        "bad_words",
        "bad_words_ids",
        "continue_final_message",
        "dimensions",
        "document",
        "documents",
        "dry_sequence_breakers",
        "early_stopping",
        "ignore_eos",
        "image",
        "image_url",
        "images",
        "input_audio",
        "length_penalty",
        "min_tokens",
        "mm_processor_kwargs",
        "prompt_embeds",
        "prompt_logprobs",
        "stop_token_ids",
        "thinking_budget",
        "thinking_token_budget",
        "truncate_prompt_tokens",
        "use_beam_search",
        "web_search_options",
    }
)
_LOG = logging.getLogger("uvicorn.error")
_MOST_TOLD = 200  # names, since clients choose them
_LONGEST = 80  # characters of one


class UnknownFields:
    """Takes the fields that the server does not know out of requests.

    Args:
        strict: they are refused; otherwise those alone that change the answer, and the log tells
            once of each other.
    """

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._told: set[str] = set()

    def take(self, body: BaseModel) -> list[str]:
        """Removes them from a request; returns their names.

        Raises:
            HttpError: one is refused.
        """
        names = list(dict.fromkeys(_taken(body, "")))
        for name in names:
            if self._strict or name.rpartition(".")[2] in UNSUPPORTED:
                raise HttpError(400, f"{name} is not supported", name, "unsupported_parameter")
        for name in names:
            if name not in self._told and len(self._told) < _MOST_TOLD:
                self._told.add(name)
                _LOG.warning("requests have the field %s, which has no effect", name)
        return names


def _taken(value: Any, place: str) -> Iterator[str]:
    """Iterates over the names of fields inside a value; numbers of lists' members are left out."""
    if isinstance(value, list):
        for member in value:
            yield from _taken(member, place)
    if not isinstance(value, BaseModel):
        return
    extra = value.__pydantic_extra__ or {}
    for name, given in list(extra.items()):
        del extra[name]
        if given is not None:
            yield f"{place}{_plain(name)}"
    for name, field in type(value).model_fields.items():
        yield from _taken(getattr(value, name), f"{place}{field.alias or name}.")


def _plain(name: str) -> str:
    """A name that a header and a log can have: clients choose it."""
    shown = (c if "!" <= c <= "~" and c != "," else "?" for c in name[:_LONGEST])
    return "".join(shown) or "?"
