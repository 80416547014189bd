"""What the run was: the machine, the kernels, the prompt, and when."""

from pathlib import Path

from devtools.format_numbers import counted
from devtools.profile.profile_types import Phase, Profile

_UNKNOWN = "not recorded"
_LONGEST_PROMPT = 160  # characters
_KERNELS = "kernels "


def run_facts(profile: Profile) -> list[tuple[str, str]]:
    """Names and values, in the order of the page; a value that is not recorded says so."""
    facts = profile.facts
    parts = [part for part in facts.get("runs_with", "").split(", ") if part]
    kernels = [part.removeprefix(_KERNELS) for part in parts if part.startswith(_KERNELS)]
    rest = [part for part in parts if not part.startswith(_KERNELS) and " thread" not in part]
    pairs = [
        ("model", Path(facts.get("model", "")).name),
        ("recorded", facts.get("date", "").replace("T", " ").replace("Z", " UTC")),
        ("processor", facts.get("processor", "")),
        ("kernels", ", ".join(kernels or profile.delegates)),
        ("threads", str(profile.threads or "")),
        ("prompt", _prompt(profile)),
    ]
    if rest:
        pairs.append(("memory", ", ".join(rest)))
    return [(name, value or _UNKNOWN) for name, value in pairs]


def _prompt(profile: Profile) -> str:
    text = " ".join(profile.facts.get("prompt", "").split())
    if len(text) > _LONGEST_PROMPT:
        text = text[: _LONGEST_PROMPT - 1].rstrip() + "…"
    calls = profile.calls_of(Phase.PREFILL)
    lengths = [call.seq_len for call in calls if call.seq_len is not None]
    tokens = f"{counted(sum(lengths), 'token')} in {counted(len(calls), 'prefill call')}"
    known = [f"“{text}”"] if text else []
    return ", ".join([*known, *([tokens] if lengths and len(lengths) == len(calls) else [])])
