"""Numbers and names as a page says them."""

from __future__ import annotations

import math

from weightspace.report.page import clean

UNKNOWN = "\u2013"
TIMES = "\u00d7"


def percent(share: float) -> str:
    """A share with one decimal.

    >>> print(percent(0.9722))
    97.2 %
    """
    return f"{100 * share:.1f}\u00a0%" if math.isfinite(share) else UNKNOWN


def count(number: float) -> str:
    """A whole number with its thousands apart.

    >>> count(1797)
    '1,797'
    """
    return f"{number:,.0f}" if math.isfinite(number) else UNKNOWN


def duration(seconds: float) -> str:
    """A time in the units that suit it.

    >>> print(duration(200))
    3 min 20 s
    """
    if not math.isfinite(seconds) or seconds < 0:
        return UNKNOWN
    if seconds < 99.5:
        return f"{seconds:.{1 if seconds < 9.95 else 0}f}\u00a0s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}\u00a0min\u00a0{rest}\u00a0s"
    return f"{minutes // 60}\u00a0h\u00a0{minutes % 60}\u00a0min"


def speed(pace: float) -> str:
    """How many things are done in a second; nothing if that is unknown.

    >>> speed(18.94), speed(0)
    ('18.9 a second', '')
    """
    return f"{pace:,.1f} a second" if math.isfinite(pace) and pace > 0 else ""


def size(width: int, height: int) -> str:
    r"""The size of an image.

    >>> size(28, 28)
    '28\xa0\xd7\xa028'
    """
    return f"{width}\u00a0{TIMES}\u00a0{height}"


def plural(number: int, thing: str) -> str:
    """A number of things.

    >>> print(plural(1, "class"), "of", plural(2, "network"))
    1 class of 2 networks
    """
    ending = "" if number == 1 else "es" if thing.endswith("s") else "s"
    return f"{count(number)}\u00a0{thing}{ending}"


def shortened(name: str, most: int = 14) -> str:
    """A name on one line, by default short enough for an axis.

    >>> shortened("a very long name of a class", 10)
    'a very lo…'
    """
    line = " ".join(clean(name).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
