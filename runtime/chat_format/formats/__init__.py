"""How each family of models writes calls of functions."""

from runtime.chat_format.formats.base import CallFormat
from runtime.chat_format.formats.gemma4 import Gemma4
from runtime.chat_format.formats.harmony import Harmony
from runtime.chat_format.formats.hermes import Hermes
from runtime.chat_format.formats.lfm2 import Lfm2
from runtime.chat_format.formats.llama3 import Llama3
from runtime.chat_format.formats.mistral import Mistral, MistralList
from runtime.chat_format.formats.phi4 import Phi4
from runtime.chat_format.formats.qwen_xml import QwenXml

# The first whose marks a template has is the model's.
FORMATS: tuple[CallFormat, ...] = (
    Harmony(),
    QwenXml(),
    Hermes(),
    Gemma4(),
    Phi4(),
    Lfm2(),
    Mistral(),
    MistralList(),
    Llama3(),
)


def find_format(source: str, special_tokens: frozenset[str]) -> CallFormat | None:
    """Returns the format of a template's calls; None if it is none of these."""
    return next((f for f in FORMATS if f.is_of(source, special_tokens)), None)
