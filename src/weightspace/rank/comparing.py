"""Cross-validation of candidates on the same folds."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from weightspace.errors import ModelError
from weightspace.graph import MixedGraph
from weightspace.rank.candidates import Candidate
from weightspace.rank.examples import Examples
from weightspace.rank.fitted import Fitted
from weightspace.rank.folds import SMALL, Integers, fold_count, grouped_folds
from weightspace.tasks.batches import read_networks
from weightspace.tasks.scores import kendall_tau

Array = npt.NDArray[np.float64]
REPEATS = 3
"""Divisions of a small zoo, so that the choice does not hang on one of them."""
BEHIND = 0.05
"""A model that takes long is given up if it is behind by this much on the first fold."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Validated:
    """A candidate with its cross-validation.

    Args:
        candidate: the kind of model.
        fitted: one for each fold of the first division.
        held: ``[networks]``, predictions by models that had not seen the network's source.
        averaged: the same, averaged over all divisions.
        tau: Kendall's tau of ``averaged``.
    """

    candidate: Candidate
    fitted: Sequence[Fitted]
    held: Array
    averaged: Array
    tau: float


def compare(
    examples: Examples, candidates: Sequence[Candidate], *, seed: int, progress: bool
) -> tuple[list[Validated], Integers]:
    """Cross-validate candidates on the same folds, which keep sources together.

    Args:
        examples: the networks.
        candidates: cheap ones first.
        seed: of folds and fits.
        progress: whether to show a progress bar.

    Returns:
        The candidates that could be judged, in their order, and the first division.
    """
    count = fold_count(examples.sources)
    repeats = REPEATS if examples.sources < SMALL else 1
    divisions = [grouped_folds(examples.groups, folds=count, seed=seed + r) for r in range(repeats)]
    found: list[Validated] = []
    columns = (*Progress.get_default_columns()[:2], TextColumn("folds"), TimeElapsedColumn())
    with Progress(*columns, transient=True, disable=not progress) as bar:
        for candidate in candidates:
            rounds = divisions if candidate.cheap else divisions[:1]
            line = bar.add_task(candidate.name, total=count * len(rounds))
            try:
                validated = _validate(
                    examples, candidate, rounds, found, functools.partial(bar.advance, line)
                )
            except ModelError as error:
                _LOG.warning("%s is left out: %s", candidate.name, error)
                continue
            found += [validated] if validated is not None else []
    return found, divisions[0]


def _validate(
    examples: Examples,
    candidate: Candidate,
    divisions: Sequence[Integers],
    before: Sequence[Validated],
    advance: Callable[[], object],
) -> Validated | None:
    """Cross-validate a candidate; nothing if it takes long and is behind after the first fold."""
    total, first, models = np.zeros(len(examples)), np.zeros(len(examples)), []
    for number, folds in enumerate(divisions):
        for fold in range(int(folds.max()) + 1):
            out, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            model = candidate.fit(examples, rest, out, seed=fold)
            said = model.predict(examples.features[out], _networks(examples, out, candidate))
            total[out] += said / len(divisions)
            advance()
            if number == 0:
                models.append(model)
                first[out] = said
            if not candidate.cheap and fold == 0 and _is_behind(examples, said, out, before):
                return None
    return Validated(candidate, models, first, total, kendall_tau(total, examples.values))


def _is_behind(examples: Examples, said: Array, out: Integers, before: Sequence[Validated]) -> bool:
    truth = examples.values[out]
    best = max((kendall_tau(v.held[out], truth) for v in before), default=-1.0)
    return kendall_tau(said, truth) < best - BEHIND


def _networks(examples: Examples, chosen: Integers, candidate: Candidate) -> MixedGraph | None:
    if candidate.cheap or examples.zoo is None or examples.rows is None:
        return None
    return MixedGraph.of(read_networks(examples.zoo, examples.rows[chosen].tolist()))
