"""The page in headless Chromium: with the keyboard alone, dark and light, at 360 pixels."""

import json
import os
import re
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra serve")
pytest.importorskip("uvicorn", reason="the service needs the extra serve")

from browser import CHROMIUM, Browser
from service_process import KEY, ServiceProcess

from convgym.data.recipes import recipes_folder

PAGE = Path(__file__).parents[1] / "convgym/service/page"
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on the PATH")
SIZES = [("light", 1200), ("dark", 1200), ("light", 360), ("dark", 360)]


# What needs no browser


def test_the_page_loads_nothing_from_elsewhere():
    for path in PAGE.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//cdn|@import", text), path.name
        assert "innerHTML" not in text and "eval(" not in text and "document.write" not in text


def test_every_field_has_a_name_and_every_id_is_there_once():
    html = (PAGE / "index.html").read_text("utf-8")
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    named = re.findall(r'(?:aria-controls|aria-labelledby|aria-describedby|for)="([^"]+)"', html)
    assert set(named) <= set(ids)
    used = "".join((PAGE / name).read_text("utf-8") for name in ("page.js", "play.js", "browse.js"))
    assert set(re.findall(r'\$\("([a-z-]+)"\)', used)) <= set(ids)
    for field in re.findall(r"<(?:input|select|textarea)[^>]*>", html):
        named = re.search(r'id="([^"]+)"', field)
        inside = re.search(rf"<label[^>]*>(?:(?!</label>).)*{re.escape(field)}", html, re.DOTALL)
        assert inside or (named and f'for="{named[1]}"' in html), field


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] if len(colour) == 7 else [
        int(c * 2, 16) / 255 for c in colour[1:]
    ]  # fmt: skip
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_stand_out_from_their_grounds(scheme):
    """WCAG 2.2, level AA: a contrast of 4.5 : 1."""
    css = (PAGE / "page.css").read_text("utf-8")
    block = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[scheme]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6})", block))
    pairs = [
        *(("ink", ground) for ground in ("ground", "card", "mine", "theirs", "tool")),
        *(("soft", ground) for ground in ("ground", "card", "mine", "theirs", "tool")),
        ("on-accent", "accent"), ("good", "card"), ("bad", "card"), ("bad", "bad-ground"),
    ]  # fmt: skip
    for text, ground in pairs:
        high, low = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)


# In the browser


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "reports").mkdir()
    (folder / "reports/gap.html").write_text(
        "<!doctype html><title>Gap</title><style>h1{color:#123456}</style><h1>The gap</h1>"
        "<script>parent.document.title = 'taken'</script>", encoding="utf-8",
    )  # fmt: skip
    os.environ["MINARI_DATASETS_PATH"] = str(recipes_folder() / "packaged")
    try:
        with ServiceProcess(folder, "oracle", keyed=False, privileged=True,
                            reports=folder / "reports") as process:  # fmt: skip
            yield process
    finally:
        del os.environ["MINARI_DATASETS_PATH"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("chromium")) as one:
        yield one


def fits(page):
    """Nothing sticks out to the right."""
    return page.value("document.documentElement.scrollWidth <= window.innerWidth")


def lines(page):
    return page.value("[...document.querySelectorAll('#log li')].map((one) => one.innerText)")


@needs_browser
@pytest.mark.parametrize(("scheme", "width"), SIZES)
def test_a_whole_visit_with_the_keyboard_alone(served, browser, scheme, width):
    page = browser.page(f"http://127.0.0.1:{served.port}/", scheme, width)
    page.until("document.querySelector('#start') && document.querySelector('#begin').offsetParent")
    ground = page.value("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(17, 23, 29)") == (scheme == "dark")

    # As the agent: a seed, hidden state, a message, a tool.
    page.tab_to("#seed")
    page.type("7")
    page.tab_to("#show-hidden")
    page.press("Space")
    page.tab_to("#begin")
    page.press("Enter")
    page.until("document.activeElement.id === 'words'")
    assert len(lines(page)) == 1 and fits(page)
    page.type("Hello, may I have your phone number?")
    page.press("Enter")
    page.until("document.querySelectorAll('#log li').length >= 3")
    page.tab_to("#tools summary")
    page.press("Enter")
    page.tab_to("#arguments input")
    page.type("0700000000")
    page.press("Enter")
    page.until("document.querySelector('#log .tool')")
    assert "find_customer(" in "".join(lines(page))
    page.until("document.querySelectorAll('#rewards tr').length === 2")
    ledger = page.value("document.querySelector('#ledger').innerText")
    assert "call find_customer" in ledger and "result" in ledger
    assert page.value("document.querySelector('#hidden-part').hidden") is False
    assert json.loads(page.value("document.querySelector('#hidden-state').textContent"))["faults"]
    assert fits(page)

    # Hanging up ends it; the focus goes to what can be done next.
    page.tab_to("#words")
    page.type('<tool_call>{"name": "end_conversation", "arguments": {}}</tool_call>')
    page.press("Enter")
    page.until("document.activeElement.id === 'again'")
    assert "No success" in page.value("document.querySelector('#outcome').innerText")

    # As the customer, against the policy.
    page.press("Enter")
    page.until("document.activeElement.id === 'begin'")
    for _ in range(20):
        if page.value("document.activeElement.name === 'side'"):
            break
        page.press("Tab", shift=True)
    page.press("ArrowRight")
    page.tab_to("#begin")
    page.press("Enter")
    page.until("document.activeElement.id === 'words' && document.querySelector('#role').innerText")
    page.type("Hello, it does not work.")
    page.press("Enter")
    page.until("document.querySelectorAll('#log li').length >= 2")
    assert fits(page)

    # Datasets and reports.
    page.value("document.querySelector('#tab-play').focus()")
    page.press("ArrowRight")
    page.until("document.querySelectorAll('#datasets button').length")
    page.tab_to("#datasets button")
    page.press("Enter")
    page.until("document.querySelectorAll('#episodes button').length === 20")
    assert fits(page)
    page.tab_to("#after")
    page.press("Enter")
    page.until("document.querySelector('#which').innerText.startsWith('21 to')")
    page.tab_to("#episodes button")
    page.press("Enter")
    page.until("document.activeElement.id === 'episode-title'")
    assert page.value("document.querySelectorAll('#episode .mine').length") > 1 and fits(page)
    page.value("document.querySelector('#tab-data').focus()")
    page.press("End")
    page.until("document.querySelectorAll('#reports button').length === 1")
    page.tab_to("#reports button")
    page.press("Enter")
    page.until("!document.querySelector('#report').hidden")
    assert page.value("document.querySelector('#report').srcdoc").count("The gap") == 1
    assert fits(page) and page.value("document.title") == "ConvGym"

    # The report's own script is what is stopped, and nothing else is complained of.
    complaints = [one for one in page.complaints() if "sandboxed" not in one]
    assert not complaints


@needs_browser
def test_a_service_with_keys_asks_for_one(tmp_path, browser):
    with ServiceProcess(tmp_path) as served:
        page = browser.page(f"http://127.0.0.1:{served.port}/")
        page.until("document.activeElement.id === 'key'")
        page.type(KEY)
        page.press("Enter")
        page.until("document.querySelector('#begin').offsetParent")
        assert not page.complaints()
        page.tab_to("#begin")
        page.press("Enter")
        page.until("document.querySelectorAll('#log li').length === 1")
        assert page.value("document.querySelector('#hidden-choice').hidden") is True
        assert not page.complaints() and KEY not in page.value("document.body.innerHTML")


@needs_browser
def test_what_is_said_is_never_taken_for_html(served, browser):
    page = browser.page(f"http://127.0.0.1:{served.port}/")
    page.until("document.querySelector('#begin').offsetParent")
    page.tab_to("#begin")
    page.press("Enter")
    page.until("document.activeElement.id === 'words'")
    page.type("<img src=x onerror=\"document.title='taken'\"><b>bold</b>")
    page.press("Enter")
    page.until("document.querySelectorAll('#log li').length >= 3")
    assert page.value("document.querySelectorAll('#log img, #log b').length") == 0
    assert page.value("document.title") == "ConvGym" and "<b>bold</b>" in "".join(lines(page))


@needs_browser
def test_a_service_that_is_gone_is_said_in_words(tmp_path, browser):
    with ServiceProcess(tmp_path, keyed=False) as served:
        page = browser.page(f"http://127.0.0.1:{served.port}/")
        page.until("document.querySelector('#begin').offsetParent")
        served.stop()
        page.tab_to("#begin")
        page.press("Enter")
        page.until("document.querySelector('#problem').innerText.includes('does not answer')")
