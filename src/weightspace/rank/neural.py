"""Metanetworks among the candidates of a ranking."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch

from weightspace.graph import MixedGraph
from weightspace.models import Predictor, load_model
from weightspace.rank.fitted import Fitted
from weightspace.tasks.labels import Labels
from weightspace.tasks.meanings import labels_of
from weightspace.tasks.prediction import predict
from weightspace.tasks.regression import RegressionTask
from weightspace.train.fitting import Budget
from weightspace.train.predictor import MODEL_FILE, Settings, train_predictor

if TYPE_CHECKING:
    from weightspace.rank.candidates import Metanetwork
    from weightspace.rank.examples import Examples

Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Neural(Fitted):
    """A trained metanetwork.

    Args:
        model: in evaluation mode.
        labels: what its outputs mean.
        content: the bytes of its file, as :func:`weightspace.models.save_model` writes it.
    """

    kind: ClassVar[str] = "metanetwork"
    model: Predictor
    labels: Labels
    content: bytes

    def predict(self, features: Array, networks: MixedGraph | None) -> Array:
        """See :class:`Fitted`."""
        assert networks is not None
        said = predict(self.model, [networks.to(torch.float32)])
        return np.asarray(self.labels.decode(said.outputs).numpy(), dtype=np.float64)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """See :class:`Fitted`."""
        return {"content": np.frombuffer(self.content, dtype=np.uint8).copy()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """See :class:`Fitted`.

        Raises:
            FileError: the content is damaged.
        """
        content = arrays["content"].astype(np.uint8).tobytes()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / MODEL_FILE
            path.write_bytes(content)
            saved = load_model(path)
        if not isinstance(saved.model, Predictor):
            raise ValueError("a metanetwork that edits")
        return cls(saved.model, labels_of(saved.task, path), content)


def fit_neural(
    candidate: Metanetwork, examples: Examples, splits: Mapping[str, list[int]], *, seed: int
) -> Neural:
    """Train a metanetwork on some networks of a zoo; ``val`` chooses the epoch."""
    assert examples.zoo is not None
    zoo, batch = examples.zoo, 64
    settings = Settings(
        model=candidate.name,
        task=RegressionTask,
        target=candidate.target,
        learning_rate=2e-3,
        budget=Budget(epochs=candidate.epochs, batch_size=batch, patience=8),
        seed=seed,
    )
    folder = candidate.folder / candidate.name / f"fold-{seed}"
    outcome = train_predictor(zoo, folder, settings, splits=splits)
    content = (folder / MODEL_FILE).read_bytes()
    return Neural(outcome.model, outcome.labels, content)
