"""Puts what the assistant says beside calls where Gemma 4's template keeps a turn whole."""

from runtime.chat_format.environment import Messages

_REASONING = ("reasoning_content", "reasoning", "thinking")


def turns_that_end_once(messages: Messages) -> Messages:
    """Returns the messages with content in one place of each of the assistant's turns.

    The template writes what is said with calls behind their results, and ends the turn there.
    What follows, another call or the answer, would stand outside of any turn. So the content of a
    turn is that of its last message; where the model goes on behind a result, it is what the model
    thought before the call.
    """
    mended: Messages = []
    at = 0
    while at < len(messages):
        end = at
        while end < len(messages) and messages[end]["role"] in ("assistant", "tool"):
            end += 1
        if end == at:
            mended.append(messages[at])
            at += 1
        else:
            mended += _turn(messages[at:end], goes_on=end == len(messages))
            at = end
    return mended


def _turn(turn: Messages, goes_on: bool) -> Messages:
    said = [n for n, message in enumerate(turn) if message["role"] == "assistant"]
    if not said or (len(said) == 1 and not goes_on):
        return turn
    is_thought = goes_on and turn[-1]["role"] == "tool"
    mended: Messages = []
    left: list[str] = []  # what was said and has no place yet
    for n, message in enumerate(turn):
        if n not in said:
            mended.append(message)
            continue
        left += [message["content"]] if message["content"] else []
        if is_thought and "tool_calls" in message:
            thought = [*filter(None, [message.get("reasoning_content")]), *left]
            reasoning = dict.fromkeys(_REASONING, "\n\n".join(thought)) if thought else {}
            mended.append({**message, "content": "", **reasoning})
            left = []
        elif n == said[-1]:
            mended.append({**message, "content": "\n\n".join(left)})
        elif "tool_calls" in message:
            mended.append({**message, "content": ""})
    return mended
