"""What the documentation site is built with: pages that run, references made from the package."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

from sitebuild import executed, links, reference, references, results


def setup(app: Sphinx) -> dict[str, Any]:
    """Register every part; Sphinx calls this."""
    for part in (executed, links, reference, references, results):
        part.register(app)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
