"""Reports in a real browser: no errors, the slider works, both colour schemes, print, phone."""

import base64
import os
import re
import shutil

import pytest

from app.report.report_cases import MAKERS, NASTY

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not (CHROMIUM and DRIVER):
    pytest.skip(
        "chromium and chromedriver are not installed (Debian: chromium, chromium-driver)",
        allow_module_level=True,
    )

from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

SHOWN = ["named", "plane", "constant", "two_classes", "many_classes", "hinge"]
MOVING = {
    "named": {"error", "evidence", "cells", "predicted", "residuals"},
    "plane": {"error", "evidence", "cells", "predicted", "residuals", "partition", "surface"},
    "two_classes": {"error", "cells", "confusion", "reliability", "partition", "surface"},
}


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


@pytest.mark.parametrize("name", MOVING)
def test_slider_moves_the_pictures_by_keyboard(visit, name):
    browser = visit(name)
    before, readout = pictures(browser), browser.find_element(By.ID, "readout")
    said = readout.text
    slider = browser.find_element(By.ID, "lifetime")
    assert "the model itself" in said
    slider.send_keys(Keys.HOME)
    first = pictures(browser)
    assert {figure for figure in before if before[figure] != first[figure]} == MOVING[name]
    assert "the model itself" not in readout.text
    assert slider.get_attribute("aria-valuetext") == readout.text
    slider.send_keys(Keys.ARROW_RIGHT)
    assert pictures(browser)["error"] != first["error"]
    browser.find_element(By.ID, "back").click()
    assert pictures(browser) == before
    assert readout.text == said


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
    assert 2 <= len(re.findall(rb"/Type /Page\b", pdf)) <= 5
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert brightness(browser) > 600 > 200 > brightness(browser, "color")
    assert not browser.find_element(By.ID, "lifetime").is_displayed()
    assert browser.find_element(By.ID, "readout").is_displayed()
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
    assert heard("slider", "name") == ["Move the lifetime λ"]
    assert "the model itself" in heard("slider", "description")[0]


def test_names_are_shown_and_not_run(visit):
    browser = visit("plane")
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    assert browser.title == NASTY
    assert browser.find_element(By.TAG_NAME, "h1").text == NASTY
