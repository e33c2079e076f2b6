"""The sizes and themes in which pages are looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from playwright.sync_api import Browser, BrowserContext

TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Look:
    """A window's width and height in CSS pixels, and what its owner prefers."""

    width: int
    height: int
    theme: Literal["light", "dark"]

    def __str__(self) -> str:
        return f"{self.width}-{self.theme}"

    def context(self, browser: Browser, scale: float = 1) -> BrowserContext:
        """A fresh profile that looks like this; the caller closes it."""
        context = browser.new_context(
            viewport={"width": self.width, "height": self.height},
            color_scheme=self.theme,
            device_scale_factor=scale,
            locale="en-US",
            reduced_motion="reduce",
        )
        context.set_default_timeout(TIMEOUT_MS)
        return context


SIZES = ((390, 844), (820, 1180), (1440, 900))  # a phone, a tablet, a desk
LOOKS = tuple(Look(width, height, theme) for width, height in SIZES for theme in ("light", "dark"))
