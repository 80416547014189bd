"""Grammars of free text."""


def free_text_until(literal: str, then: str) -> str:
    """A grammar in GBNF: any text without `literal`; then, or not, the literal and the rule `then`.

    Its rules are the states of the automaton that searches the literal (Knuth, Morris and Pratt,
    1977): how many of its characters the text ends with.
    """
    letters = sorted(set(literal))

    def next_state(state: int, letter: str) -> int:
        text = literal[:state] + letter
        return max(n for n in range(len(text) + 1) if text.endswith(literal[:n]))

    rules = ["root ::= seen-0"]
    for state in range(len(literal)):
        choices = [f"[^{''.join(map(_escaped, letters))}] seen-0", '""']
        for letter in letters:
            reached = next_state(state, letter)
            rule = then if reached == len(literal) else f"seen-{reached}"
            choices.append(f"[{_escaped(letter)}] {rule}")
        rules.append(f"seen-{state} ::= {' | '.join(choices)}")
    return "\n".join(rules) + "\n"


def _escaped(letter: str) -> str:
    return f"\\U{ord(letter):08x}"
