"""Text that grows, of a text that may change: words that two versions in a row agree on."""

import os


class AgreedText:
    def __init__(self) -> None:
        self._before, self._told = "", ""

    def more(self, text: str) -> str:
        """Returns the words that the next version agrees on with the one before, and that were not
        told; none if what was told has changed."""
        same = os.path.commonprefix([self._before, text])
        self._before = text
        whole = len(same) if text[len(same) : len(same) + 1] == " " else max(same.rfind(" "), 0)
        return self._grown(text[:whole])

    def end(self, text: str) -> str:
        """Returns what was not told of the final version; "" if what was told has changed."""
        rest = self._grown(text)
        self._before = self._told = ""
        return rest

    def _grown(self, text: str) -> str:
        if not text.startswith(self._told):
            return ""
        rest, self._told = text[len(self._told) :], text
        return rest
