"""What a saved model's outputs mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weightspace.errors import FileError
from weightspace.tasks.classes import Classes
from weightspace.tasks.labels import Labels
from weightspace.tasks.quantities import Quantity, Share

KINDS: dict[str, type[Labels]] = {kind.kind: kind for kind in (Classes, Quantity, Share)}


def labels_of(meaning: Mapping[str, Any], path: Path) -> Labels:
    """The labels that a saved model was trained with.

    Args:
        meaning: the ``task`` of a :class:`~weightspace.models.SavedModel`.
        path: its file, for messages.

    Raises:
        FileError: the model predicts something else, or the file is damaged.

    >>> labels_of({"kind": "share-regression", "target": "accuracy"}, Path("m")).column
    'accuracy'
    """
    kind = meaning.get("kind")
    if kind not in KINDS:
        raise FileError(
            path,
            expected=f"a model trained for {', '.join(KINDS)}",
            found=f"one for {kind}",
        )
    try:
        return KINDS[str(kind)].from_meaning(meaning)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(
            path,
            expected=f"what the outputs of {kind} mean",
            found=f"{type(error).__name__} {error}",
        ) from error
