"""The report in a real browser: wide and narrow, light and dark, loaded and clicked."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.browser import Page, open_page
from support.recorded_runs import Recorded
from support.tiers import checked

from devtools.profile import load_profile
from devtools.profile.limits import Limits
from devtools.report import write_report
from devtools.report.program import read_program

KINDS = ("k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "kx")  # what fills marks
SIZES = [(375, False), (375, True), (1280, False), (1280, True)]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture(scope="module", params=["embedded_cpu_pte", *checked(["embedded_pte"])])
def report(
    browser: Page,
    request: pytest.FixtureRequest,
    recorded: Recorded,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    pte: Path = request.getfixturevalue(request.param)
    profile = load_profile(*recorded(request.param))
    out = tmp_path_factory.mktemp("page") / "report.html"
    write_report(profile, out, read_program(pte), Limits(1, 35e9, 469e9))
    return out


@pytest.mark.parametrize(("width", "dark"), SIZES)
def test_it_fits_any_screen(browser: Page, report: Path, width: int, dark: bool) -> None:
    browser.show(report, width, dark=dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.complaints == []
    assert {address.partition(":")[0] for address in browser.requests} <= {"file", "data", "about"}
    paper = luminance(browser, "document.body", "backgroundColor")
    assert paper < 0.05 if dark else paper > 0.9
    for selector in ("h1", ".lead", ".note", "td", ".row code", ".row .m", "a", "caption"):
        assert contrast(browser, selector) >= 4.5, selector  # WCAG 2.2, 1.4.3
    for kind in KINDS:
        browser.run(f"document.querySelector('.stack span').className = '{kind}'")
        assert contrast(browser, f".stack .{kind}") >= 4.5, kind
    hottest = browser.run("document.querySelector('#lines .in-all tbody a').hash")
    assert contrast(browser, f"{hottest} .m") >= 4.5
    assert (
        browser.run("document.querySelector('#flame button').offsetHeight") >= 24
    )  # to be touched


@pytest.mark.check
@pytest.mark.parametrize("width", [390, 320])
def test_a_long_recording_fits_a_phone(
    browser: Page, recorded: Recorded, embedded_cpu_pte: Path, tmp_path: Path, width: int
) -> None:
    profile = load_profile(*recorded("embedded_cpu_pte"))
    calls = [profile.calls[min(index, 1)] for index in range(256)]
    calls = [replace(call, index=index) for index, call in enumerate(calls)]
    out = tmp_path / "report.html"
    write_report(replace(profile, calls=tuple(calls)), out, read_program(embedded_cpu_pte))
    browser.show(out, width, 844)
    assert browser.run("document.documentElement.scrollWidth") <= width
    bars = browser.run(
        "[...document.querySelectorAll('.calls i')].map(e => e.getBoundingClientRect())"
        ".map(b => [b.left, b.right])"
    )
    assert len(bars) == 240 and bars[-1][1] <= width
    assert all(right - left > 0.5 for left, right in bars)


@pytest.mark.parametrize("width", [320, 1280])
def test_bars_leave_the_percentages_free(browser: Page, report: Path, width: int) -> None:
    """A bar lies to the right of its number, within its cell."""
    browser.show(report, width)
    places = browser.run(
        "[...document.querySelectorAll('#lines .bar')].filter(e => e.checkVisibility()).map(e => {"
        "const text = document.createRange(); text.selectNodeContents(e);"
        "const length = parseFloat(getComputedStyle(e).backgroundSize);"
        "return [text.getBoundingClientRect().right, length, e.getBoundingClientRect().right]; })"
    )
    assert len(places) > 5
    for number, length, cell in places:
        assert length > 30 and number <= cell - length


@pytest.mark.parametrize("width", [320, 1280])
def test_no_label_is_cut(browser: Page, report: Path, width: int) -> None:
    """One that does not fit is out of sight, and the mark's title has it."""
    browser.show(report, width)
    labels = browser.run(
        "[...document.querySelectorAll('#flame button, .stack span')].map(e => {"
        "const text = document.createRange(); text.selectNodeContents(e);"
        "const label = text.getBoundingClientRect(), box = e.getBoundingClientRect();"
        "return [label.right <= box.right, label.top >= box.bottom, e.title.length > 0]; })"
    )
    assert len(labels) > 10 and all(titled for *_, titled in labels)
    assert all(fits or hidden for fits, hidden, _ in labels)
    assert {fits and not hidden for fits, hidden, _ in labels} == {True, False}


def luminance(browser: Page, element: str, name: str) -> float:
    """Relative luminance of a colour, as WCAG 2.2 defines it."""
    color = f"getComputedStyle({element}).{name}"
    # A canvas knows every notation.
    pixel = browser.run(
        "(() => { const c = document.createElement('canvas').getContext('2d');"
        f"c.fillStyle = {color}; c.fillRect(0, 0, 1, 1);"
        "return [...c.getImageData(0, 0, 1, 1).data]; })()"
    )
    parts = [value / 255 for value in pixel[:3]]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(browser: Page, selector: str) -> float:
    """The text's against the nearest background that is not transparent."""
    element = f"document.querySelector({selector!r})"
    behind = (
        f"(e => {{ while (e.parentElement && getComputedStyle(e).backgroundColor.match"
        f"(/rgba\\(0, 0, 0, 0\\)|\\/ 0\\)/)) e = e.parentElement; return e; }})({element})"
    )
    both = luminance(browser, element, "color"), luminance(browser, behind, "backgroundColor")
    return (max(both) + 0.05) / (min(both) + 0.05)


def visible(selector: str) -> str:
    """An expression: the texts of elements that are to be seen."""
    return (
        f"[...document.querySelectorAll({selector!r})].filter(e => e.checkVisibility())"
        ".map(e => e.textContent.trim())"
    )


@pytest.mark.parametrize("width", [375, 1280])
def test_phases_can_be_chosen(browser: Page, report: Path, width: int) -> None:
    browser.show(report, width)
    captions = visible("#lines caption")
    assert ["whole run" in text for text in browser.run(captions)] == [True]
    flames = [browser.run("document.querySelector('#flame').innerHTML")]
    for phase in ("decode", "prefill"):
        browser.click(f"label:has(#scope-{phase})")
        (caption,) = browser.run(captions)
        assert f"time in {phase}:" in caption
        flames.append(browser.run("document.querySelector('#flame').innerHTML"))
        points = browser.run(
            "[...document.querySelectorAll('.point')].filter(e => e.checkVisibility())"
            ".map(e => e.className)"
        )
        assert points and all(phase in name for name in points)
    assert len(set(flames)) == 3
    assert browser.complaints == []


def test_flame_frames_open(browser: Page, report: Path) -> None:
    browser.show(report, 1280)
    frames = "[...document.querySelectorAll('#flame button')].map(e => e.textContent)"
    before = browser.run(frames)
    assert before[0] == "model call" and "model" in before and "4 layers" in before
    width = "document.querySelector('#flame button[aria-label^=\"mlp,\"]').offsetWidth"
    narrow = browser.run(width)
    browser.click('#flame button[aria-label^="mlp,"]')
    after = browser.run(frames)
    assert browser.run(width) > narrow
    assert "self_attn" in before and "self_attn" not in after and "down_proj" in after
    says = browser.run("document.querySelector('#flame-says').textContent")
    assert says.startswith("model › 4 layers › mlp: ") and "%" in says
    browser.click("#flame-out")
    assert browser.run(frames) == before
    browser.click("#flame-apart")
    apart = browser.run(frames)
    assert {f"layers.{number}" for number in range(4)} <= set(apart)
    assert browser.complaints == []


def test_frames_lie_within_the_one_above(browser: Page, report: Path) -> None:
    browser.show(report, 1280)
    rows = browser.run(
        "[...document.querySelectorAll('#flame div')].map(row => [...row.children].map(e =>"
        "[parseFloat(e.style.left), parseFloat(e.style.left) + parseFloat(e.style.width)]))"
    )
    slack = 1e-3  # of a percent, from decimals
    for above, row in zip(rows, rows[1:], strict=False):
        for left, right in row:
            assert any(start - slack <= left and right <= end + slack for start, end in above)
        for first, second in zip(sorted(row), sorted(row)[1:], strict=False):
            assert first[1] <= second[0] + slack


def test_lines_open_and_links_lead_to_them(browser: Page, report: Path) -> None:
    browser.show(report, 375)
    browser.click("#lines div.in-all tbody a")
    browser.wait("document.querySelector('.row:target')?.open")
    more = browser.run("document.querySelector('.row:target dl.in-all').innerText")
    assert "itself" in more and "bound" in more and "with all it calls" in more
    assert browser.run("document.querySelector('.row:target .more').scrollWidth") <= 375


def test_marks_say_what_they_are(browser: Page, report: Path) -> None:
    browser.show(report, 1280)
    browser.click(".point")
    says = browser.run("document.querySelector('#roofline .says').textContent")
    assert "op/s at" in says and "% of the time" in says
    browser.click("#memory rect[data-say]")
    says = browser.run(visible("#memory .says"))
    assert any("kB" in text or "MB" in text for text in says), says
    browser.click(".map i")
    says = browser.run("document.querySelector('#delegation .says').textContent")
    assert says.split()[-1] in ("ns", "µs", "ms", "s")
    assert browser.complaints == []


def test_every_drawing_has_a_table(browser: Page, report: Path) -> None:
    browser.show(report, 375)
    for section in ("modules", "phases", "roofline", "memory", "delegation"):
        rows = f"document.querySelectorAll('#{section} table tbody tr').length"
        assert browser.run(rows) > 0, section
    sizes = browser.run(
        "[...document.querySelectorAll('.scroll')].filter(e => e.checkVisibility())"
        ".map(e => e.getBoundingClientRect().right)"
    )
    assert max(sizes) <= 375
