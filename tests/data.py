"""Finding the shared data that some tests read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(name: str) -> Path:
    """The path of a shared file, such as ``images/mnist.npz``; skips the test without it.

    The folder is the environment variable ``WEIGHTSPACE_DATA``, by default
    ``../shared/data`` beside the repository.
    """
    path = Path(os.environ.get("WEIGHTSPACE_DATA") or _DEFAULT) / name
    if not path.exists():
        pytest.skip(f"{path} is missing: set WEIGHTSPACE_DATA to the folder with {name}")
    return path
