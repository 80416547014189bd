"""A `tokenizer.json` as the library `tokenizers` itself reads it."""

import json
from typing import Any

import tokenizers

from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.layout import check_document

Json = dict[str, Any]


def load_library_tokenizer(document: Json) -> tokenizers.Tokenizer:
    """Loads what a `tokenizer.json` holds.

    Raises:
        LayoutError: it is not laid out as one; some such files would end the process.
        TokenizerError: the library cannot load it.
    """
    check_document(document)
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(document))
    except BaseException as error:  # it raises bare Exception, or panics below it
        raise as_tokenizer_error(error, "cannot be loaded") from None


def as_tokenizer_error(error: BaseException, what: str) -> BaseException:
    """Converts an error of the library to one sentence; keeps an interruption as it is."""
    if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
        return error
    why = " ".join(str(error).split())
    return TokenizerError(f"the tokenizer {what} ({why}): download its files again.")


def settings_of(component: Any) -> Json | None:
    """A component's settings with all defaults filled in; None where there is no component."""
    if component is None:
        return None
    return dict(json.loads(component.__getstate__()))
