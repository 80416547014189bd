"""Special tokens, told apart from text that spells them."""

import re
from collections.abc import Collection

from runtime.binding.answer_stream import Special

# Readers write a special token as half of a surrogate pair: no text has such a character.
_FIRST, _COUNT = 0xD800, 0x800
_CHARACTERS = re.compile("[\ud800-\udfff]")


class SpecialTokens:
    """The special tokens of a model's tokenizer.

    Args:
        texts: of the tokens.
        source: of the model's chat template.
    """

    def __init__(self, texts: Collection[str], source: str) -> None:
        self.texts = frozenset(text for text in texts if len(text) > 1)
        longest_first = sorted(self.texts, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        # Should there be too many, those that the template does not write are left out.
        first = sorted(self.texts, key=lambda text: (text not in source, text))[:_COUNT]
        self._characters = {text: chr(_FIRST + n) for n, text in enumerate(first)}

    def symbols(self, text: str) -> list[str]:
        """The characters of a format's text, and its special tokens whole."""
        symbols, at = [], 0
        for match in self.pattern.finditer(text):
            symbols += [*text[at : match.start()], match[0]]
            at = match.end()
        return symbols + list(text[at:])

    def written(self, text: str) -> str:
        """A format's text as readers have it: each special token is one character."""
        return self.pattern.sub(lambda match: self._characters.get(match[0], ""), text)

    def read(self, piece: str) -> str:
        """A piece of an answer in the same form."""
        return self._characters.get(piece, "") if isinstance(piece, Special) else piece


def without_special(text: str) -> str:
    """What a reader has, without special tokens."""
    return _CHARACTERS.sub("", text)
