"""Take the documentation's two pictures of a page that `palate demo` made.

    python tools/pictures.py demo.html

Writes docs/images/report.png, the page's beginning on a desk, and docs/images/report-phone.png, the
same on a phone, light, and from its first figure on, dark. Needs Debian's chromium.
"""

from __future__ import annotations

import argparse
import io
import shutil
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
DESK = 1120
"""Pixels across; the picture ends with the first figure."""
PHONE = (390, 1180)
BETWEEN, GREY = 40, (139, 143, 150)
MARGIN = 32


def main(arguments: Sequence[str] | None = None) -> None:
    """Open the page three times and write two pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path)
    page = parser.parse_args(arguments).page.resolve().as_uri()
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        desk(browser, page).save(IMAGES / "report.png", optimize=True)
        phones = [phone(browser, page, "light", "body"), phone(browser, page, "dark", "#picture")]
        browser.close()
    width, height = PHONE
    both = Image.new("RGB", (2 * width + BETWEEN, height), GREY)
    for k, picture in enumerate(phones):
        both.paste(picture, (k * (width + BETWEEN), 0))
    both.save(IMAGES / "report-phone.png", optimize=True)


def desk(browser: Browser, page: str) -> Image.Image:
    """Return the page from its beginning to the end of its first figure."""
    tab = browser.new_page(viewport={"width": DESK, "height": 1000})
    tab.goto(page)
    box = tab.locator("#picture").bounding_box()
    assert box is not None
    taken = Image.open(io.BytesIO(tab.screenshot(full_page=True))).convert("RGB")
    return taken.crop((0, 0, DESK, round(box["y"] + box["height"]) + MARGIN))


def phone(browser: Browser, page: str, scheme: str, place: str) -> Image.Image:
    """Return what a phone shows of a place on the page."""
    width, height = PHONE
    tab = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    tab.goto(page)
    tab.locator(place).first.evaluate("element => element.scrollIntoView()")
    tab.mouse.wheel(0, -MARGIN)
    tab.wait_for_timeout(300)
    return Image.open(io.BytesIO(tab.screenshot())).convert("RGB")


if __name__ == "__main__":
    main()
