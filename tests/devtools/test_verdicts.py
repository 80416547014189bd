"""What bounds a line is said alike by the page and by `devtools inspect`."""

import html
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.recorded_runs import Recorded
from support.tiers import checked

from devtools.profile import Call, Phase, Profile, load_profile
from devtools.profile.limits import Limits
from devtools.profile.report import make_report
from devtools.report import make_page
from devtools.report.source import anchor

LIMITS = Limits(1, 35e9, 469e9)


def as_it_is(profile: Profile) -> Profile:
    return profile


def with_an_interrupted_call(profile: Profile) -> Profile:
    """One call of decoding whose events all took fifty times as long."""
    chosen = profile.calls_of(Phase.DECODE)[2].index

    def change(call: Call) -> Call:
        if call.index != chosen:
            return call
        events = [
            replace(event, end_ns=event.start_ns + 50 * event.duration_ns) for event in call.events
        ]
        return replace(call, events=tuple(events), end_ns=call.start_ns + 50 * call.wall_ns)

    return replace(profile, calls=tuple(change(call) for call in profile.calls))


def with_half_untold(profile: Profile) -> Profile:
    """Every second event tells its bytes or its operations alone."""

    def change(call: Call) -> Call:
        events = list(call.events)
        for number in range(0, len(events), 4):
            events[number] = replace(events[number], bytes_moved=None)
        for number in range(2, len(events), 4):
            events[number] = replace(events[number], operations=None)
        return replace(call, events=tuple(events))

    return replace(profile, calls=tuple(change(call) for call in profile.calls))


def verdicts_of_page(profile: Profile) -> dict[tuple[str, str], str]:
    """By a line's place in the page and the phase."""
    found = {}
    page = make_page(profile, limits=LIMITS)
    for row in page.split('<details class="row" id="')[1:]:
        place = row[: row.index('"')]
        for phase, facts in re.findall(r'<dl class="in-(\w+)">(.*?)</dl>', row, re.DOTALL):
            bound = re.search("<dt>bound</dt><dd>(.*?)</dd>", facts)
            if bound is not None and phase != "all":
                found[place, phase] = html.unescape(bound[1])
    return found


def verdicts_of_inspect(profile: Profile) -> dict[tuple[str, str], str]:
    return {
        (anchor(row["file"], row["line"]), phase): row["verdict"]
        for phase, facts in make_report(profile, LIMITS)["phases"].items()
        for row in facts["by"]["line"]
        if row["verdict"] is not None and row["line"] is not None
    }


@pytest.mark.parametrize("change", [as_it_is, with_an_interrupted_call, with_half_untold])
@pytest.mark.parametrize("name", ["embedded_cpu_pte", *checked(["embedded_pte"])])
def test_the_page_and_inspect_agree_on_every_line(
    recorded: Recorded, name: str, change: Callable[[Profile], Profile]
) -> None:
    profile = change(load_profile(*recorded(name)))
    shown = verdicts_of_page(profile)
    assert {phase for _, phase in shown} == {"prefill", "decode"} and len(shown) >= 8
    assert shown == verdicts_of_inspect(profile)
