"""The colours of pages and figures, each with a light and a dark form.

Figures are drawn in the light form. :func:`themed` then puts CSS variables in its place, so
that one figure follows the reader's theme.
"""

from __future__ import annotations

import re

MODEL_COLOURS = 8
CLASS_COLOURS = 10

# name: (light, dark). Light forms are all different: they stand for their names in figures.
PALETTE = {
    "page": ("#f6f7f8", "#101215"),
    "card": ("#ffffff", "#191c20"),
    "ink": ("#1b1f24", "#e7e9ec"),
    "muted": ("#59616b", "#a1a9b3"),
    "faint": ("#8b929b", "#737b85"),
    "line": ("#e2e5e9", "#2e333a"),
    "accent": ("#0b64ad", "#6cb4f2"),
    "right": ("#0c6fbd", "#3f93dd"),
    "wrong": ("#bc4a00", "#e8792f"),
    "reverse": ("#fefefe", "#0e1013"),
    # Models: after Okabe and Ito, Color Universal Design, 2008.
    "model-0": ("#0072b2", "#4ba6e0"),
    "model-1": ("#d55e00", "#f58b45"),
    "model-2": ("#009e73", "#2fc79b"),
    "model-3": ("#a84b8c", "#dd92c8"),
    "model-4": ("#b07d00", "#ecb53a"),
    "model-5": ("#3b9fd6", "#9ad5f7"),
    "model-6": ("#69717c", "#b3bac3"),
    "model-7": ("#85224f", "#d0709b"),
    # Classes: Petroff, Accessible Color Sequences for Data Visualization, 2021.
    "class-0": ("#3f90da", "#5aa7ee"),
    "class-1": ("#ffa90e", "#ffb22e"),
    "class-2": ("#bd1f01", "#e8492d"),
    "class-3": ("#94a4a2", "#9fb0ae"),
    "class-4": ("#832db6", "#b06ae0"),
    "class-5": ("#a96b59", "#c2836f"),
    "class-6": ("#e76300", "#f47a1d"),
    "class-7": ("#b9ac70", "#c9bd83"),
    "class-8": ("#717581", "#8c919f"),
    "class-9": ("#5cc0c6", "#92dadd"),
}

_NAMES = {light: name for name, (light, _) in PALETTE.items()}


def drawn(name: str) -> str:
    """The colour to draw a figure with.

    >>> drawn("card")
    '#ffffff'
    """
    return PALETTE[name][0]


def variable(name: str) -> str:
    """The colour as CSS of the page.

    >>> variable("ink")
    'var(--ink)'
    """
    if name not in PALETTE:
        raise KeyError(name)
    return f"var(--{name})"


def model_colour(index: int) -> str:
    """The name of a model's colour; they repeat after eight models."""
    return f"model-{index % MODEL_COLOURS}"


def class_colour(index: int) -> str:
    """The name of a class's colour; they repeat after ten classes, with other markers."""
    return f"class-{index % CLASS_COLOURS}"


def themed(css: str) -> str:
    """Put CSS variables in the place of drawn colours.

    >>> themed("fill: #ffffff; stroke: #123456")
    'fill: var(--card); stroke: #123456'
    """
    return re.sub(r"#[0-9a-f]{6}", _named, css)


def palette_css() -> str:
    """The style sheet that defines the variables for both themes."""
    light = "".join(f"--{name}:{pair[0]};" for name, pair in PALETTE.items())
    dark = "".join(f"--{name}:{pair[1]};" for name, pair in PALETTE.items())
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f"@media print{{:root{{{light}}}}}\n"
    )


def _named(match: re.Match[str]) -> str:
    name = _NAMES.get(match.group())
    return match.group() if name is None else variable(name)
