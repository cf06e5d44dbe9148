"""A real browser for tests of pages: Debian's chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SIZES = {"desk": (1280, 860), "phone": (390, 844)}


@contextmanager
def opened(
    path: Path, *, size: str = "desk", theme: str = "light", clean: bool = True
) -> Iterator[Any]:
    """A page in the browser, offline; if it is to be clean, errors and requests fail the test."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    width, height = SIZES[size]
    troubles: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, offline=True
        )
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(f"dialog {dialog.message}"))
        page.on("request", lambda own: troubles.append(own.url) if own.url != path.as_uri() else 0)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
        yield page
        browser.close()
    assert not clean or not troubles
