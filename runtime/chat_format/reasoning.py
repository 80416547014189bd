"""The marks of reasoning, and contents that begin with reasoning or speak of its marks."""

# The texts at which reasoning begins and ends, by what a template has of them.
_MARKS = {
    "</think>": ("<think>", "</think>"),
    "[/THINK]": ("[THINK]", "[/THINK]"),
    "<|channel>thought": ("<|channel>thought", "<channel|>"),
}


def reasoning_marks(source: str) -> tuple[str, str] | None:
    """Returns the texts at which reasoning begins and ends in a template; None: it has none."""
    return next((marks for text, marks in _MARKS.items() if text in source), None)


def behind_reasoning(content: str) -> str:
    """Returns what templates leave of an assistant's content that begins with reasoning."""
    if spells_reasoning(content):
        return content
    for _, end in _MARKS.values():
        content = content.rpartition(end)[2]
    return content


def spells_reasoning(content: str) -> bool:
    """Whether a content speaks of reasoning's marks: reasoning itself is where it begins."""
    for begin, end in _MARKS.values():
        before, begins, rest = content.partition(begin)
        if before.strip() and begins and end not in before and end in rest:
            return True
    return False
