"""Reports in a real browser: no errors, both colour schemes, print, phone.

Where ``MONDRIAN_BROWSER=required`` is set, a missing browser is a failure and not a skip.
"""

import base64
import os
import re
import shutil
from importlib.util import find_spec

import pytest

from app.report.report_cases import MAKERS, NASTY

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not (find_spec("selenium") and CHROMIUM and DRIVER):
    reason = "selenium, chromium or chromedriver is missing (Debian: chromium, chromium-driver)"
    if os.environ.get("MONDRIAN_BROWSER") == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)

from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402

SHOWN = ["named", "plane", "table", "constant", "two_classes", "many_classes", "hinge"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    for name in SHOWN:
        MAKERS[name]().write(folder / f"{name}.html")
    return folder


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # chromium refuses to run as root with it
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def visit(browser, folder):
    """Open a report with a scheme and a width; afterwards the console must be empty."""

    def visit(name, scheme="light", width=1100):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get((folder / f"{name}.html").as_uri())
        return browser

    browser.get_log("browser")
    yield visit
    assert browser.get_log("browser") == []


def pictures(browser):
    """Markup of each figure's drawing."""
    script = (
        "return [...document.querySelectorAll('.plot')].map(p => [p.dataset.figure, p.innerHTML])"
    )
    return dict(browser.execute_script(script))


def brightness(browser, of="backgroundColor"):
    colour = browser.execute_script(f"return getComputedStyle(document.body).{of}")
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


@pytest.mark.parametrize("name", SHOWN)
def test_every_figure_is_drawn_and_nothing_is_fetched(visit, name):
    browser = visit(name)
    for figure, drawn in pictures(browser).items():
        assert drawn.count("<") > 20, figure
        assert "NaN" not in drawn, figure
        assert "undefined" not in drawn, figure
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("width", [1100, 360])
@pytest.mark.parametrize("name", SHOWN)
def test_no_text_overlaps_or_is_cut_off(visit, name, width):
    script = """
      const bad = [];
      for (const svg of document.querySelectorAll(".plot svg")) {
        const box = svg.getBoundingClientRect(), id = svg.closest("figure").id;
        const texts = [...svg.querySelectorAll("text")].map(
          t => [t.textContent, t.getBoundingClientRect()]);
        texts.forEach(([a, r], i) => {
          if (!a) return;
          if (r.left < box.left - 1 || r.right > box.right + 1 || r.bottom > box.bottom + 1)
            bad.push(`${id}: ${a} is cut off`);
          for (const [b, s] of texts.slice(i + 1))
            if (b && Math.min(r.right, s.right) - Math.max(r.left, s.left) > 1 &&
                Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top) > 3)
              bad.push(`${id}: ${a} overlaps ${b}`);
        });
      }
      return bad"""
    assert visit(name, width=width).execute_script(script) == []


def test_colour_schemes(visit):
    light = brightness(visit("named", "light"))
    browser = visit("named", "dark")
    dark = brightness(browser)
    assert light > 600 > 200 > dark
    button = browser.find_element(By.ID, "theme")
    button.click()
    assert brightness(browser) == light
    button.click()
    assert brightness(browser) == dark


@pytest.mark.parametrize("name", SHOWN)
def test_fits_a_phone(visit, name):
    browser = visit(name, width=360)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360


def test_prints_on_few_pages_in_light_colours(visit):
    browser = visit("plane", "dark")
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.7})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type /Page\b", pdf)) <= 7
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert brightness(browser) > 600 > 200 > brightness(browser, "color")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_screen_readers_hear_names_and_descriptions(visit):
    browser = visit("named")
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]

    def heard(role, field):
        return [
            node.get(field, {}).get("value", "") for node in nodes
            if node.get("role", {}).get("value") == role
        ]  # fmt: skip

    assert len(heard("image", "name")) == len(pictures(browser))
    assert all(heard("image", "name"))
    assert all(re.search(r"\d", text) for text in heard("image", "description"))


def test_names_are_shown_and_not_run(visit):
    browser = visit("plane")
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    assert browser.title == NASTY
    assert browser.find_element(By.TAG_NAME, "h1").text == NASTY
