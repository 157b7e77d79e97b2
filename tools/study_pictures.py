"""Take the documentation's two pictures of a study's pages, as a rater meets them.

    palate study plan -b tasting -c none -c profile:3 -o STUDY
    palate study serve STUDY
    python tools/study_pictures.py LINK

LINK is an unused one of STUDY/links.csv, whose rater agrees, practises and answers items until
one has posts. Writes docs/images/study_item.png, an item on a desk, and
docs/images/study_phone.png, the same on a phone, light, and another item's ratings, dark. Needs
Debian's chromium.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Sequence

from pictures import BETWEEN, GREY, IMAGES
from PIL import Image
from playwright.sync_api import Page, sync_playwright

DESK = (1120, 900)
PHONE = (390, 844)
MARGIN = 28


def main(arguments: Sequence[str] | None = None) -> None:
    """Walk to an item of each kind and write two pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("link")
    link = parser.parse_args(arguments).link
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        desk = browser.new_page(viewport={"width": DESK[0], "height": DESK[1]})
        phone, dark = (
            browser.new_page(viewport={"width": PHONE[0], "height": PHONE[1]}, color_scheme=scheme)
            for scheme in ("light", "dark")
        )
        desk.goto(link)
        walk(desk, lambda: "/items/" in desk.url and desk.locator(".rated").count() > 0)
        dark.goto(desk.url)
        walk(desk, lambda: "/items/" in desk.url and desk.locator(".posts").count() > 0)
        phone.goto(desk.url)
        desk.locator("label", has=desk.locator("[value=a]")).click()
        end = desk.locator(".go").evaluate("e => e.getBoundingClientRect().bottom + scrollY")
        save(taken(desk, full_page=True).crop((0, 0, DESK[0], end + MARGIN)), "study_item.png")
        for name, score in (("correctness_a", 5), ("relevance_a", 5), ("correctness_b", 2)):
            dark.locator("label", has=dark.locator(f'[name={name}][value="{score}"]')).click()
        dark.locator("#choice").evaluate("element => element.scrollIntoView()")
        dark.mouse.wheel(0, -MARGIN)
        dark.wait_for_timeout(300)
        pictures = [taken(phone), taken(dark)]
        browser.close()
    width, height = PHONE
    both = Image.new("RGB", (2 * width + BETWEEN, height), GREY)
    for k, picture in enumerate(pictures):
        both.paste(picture, (k * (width + BETWEEN), 0))
    save(both, "study_phone.png")


def walk(page: Page, there: Callable[[], bool]) -> None:
    """Go on as a rater does until a page is reached."""
    while not there():
        if page.locator("a.button").count():
            page.locator("a.button").click()
            continue
        for group in page.locator("fieldset").all():
            group.locator("label").nth(1).click()
        page.locator("button").click()


def taken(page: Page, *, full_page: bool = False) -> Image.Image:
    """Return what a page shows."""
    return Image.open(io.BytesIO(page.screenshot(full_page=full_page))).convert("RGB")


def save(picture: Image.Image, name: str) -> None:
    """Write a picture with few colours, which keeps it small."""
    picture.quantize(128, dither=Image.Dither.NONE).save(IMAGES / name, optimize=True)


if __name__ == "__main__":
    main()
