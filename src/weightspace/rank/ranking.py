"""A ranking: a model chosen by cross-validation, its intervals, what it knows and how well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.errors import LARGEST_SEED, DataError, require_between
from weightspace.graph import MixedGraph
from weightspace.rank.candidates import BoostedTrees, candidates_for
from weightspace.rank.comparing import Validated, compare
from weightspace.rank.conformal import COVERAGES, Calibration
from weightspace.rank.examples import Examples
from weightspace.rank.familiarity import Familiarity
from weightspace.rank.features import FEATURES, SIZES
from weightspace.rank.fitted import Fitted
from weightspace.rank.folds import source_weights
from weightspace.rank.trust import Trust, judge_trust
from weightspace.tasks.quantities import Share
from weightspace.tasks.scores import explained, kendall_tau, spearman, squared_error

Array = npt.NDArray[np.float64]
TIE = 0.01
"""A later candidate has to be better than an earlier one by this much."""
FALSE_ALARMS = 0.05
MORE = 0.1
"""Weights have to add this much to the tau of sizes alone."""


@dataclass(frozen=True, eq=False)
class Said:
    """What a ranking says of networks.

    Args:
        values: ``[networks]``, the predicted numbers.
        low: the lower ends of their intervals; may be infinite.
        high: the upper ends.
        unlike: whether each is unlike anything seen, so that its number is a guess.
        strangeness: how far each is from the nearest that were seen.
    """

    values: Array
    low: Array
    high: Array
    unlike: npt.NDArray[np.bool_]
    strangeness: Array


@dataclass(frozen=True, eq=False)
class Ranking:
    """A model that ranks networks by a number, and says how sure it is.

    Made by :func:`fit_ranking`; its prediction is the mean of the models of all folds.

    Args:
        target: the column that it predicts.
        model: the name of the candidate that was chosen.
        fitted: one model for each fold.
        calibration: the errors on networks that were held out.
        familiarity: what was seen.
        trust: how well the ranking is known.
        scores: of each candidate, by name.
        coverage: of intervals, if not said otherwise.
        tau_of_sizes: Kendall's tau of the architecture alone, or None where all have one.
        shares: whether the numbers are shares: nothing outside 0 to 1 is said.
    """

    target: str
    model: str
    fitted: Sequence[Fitted]
    calibration: Calibration
    familiarity: Familiarity
    trust: Trust
    scores: dict[str, dict[str, float]]
    coverage: float
    tau_of_sizes: float | None = None
    shares: bool = False

    def predict(
        self, features: Array, networks: MixedGraph | None = None, *, coverage: float | None = None
    ) -> Said:
        """Say what is to be expected of networks.

        Args:
            features: ``[networks, features]``, see :func:`weightspace.rank.features_of`.
            networks: the same networks, for models that read weights.
            coverage: of the intervals.

        Raises:
            DataError: features have another length, or are not finite.
        """
        self._check(features)
        said = np.stack([model.predict(features, networks) for model in self.fitted], axis=1)
        wanted = self.coverage if coverage is None else coverage
        low, high = self.calibration.interval(said, coverage=wanted)
        values = said.mean(axis=1)
        if self.shares:  # cutting off what cannot be takes no true value out of an interval
            values, low, high = (np.clip(numbers, 0, 1) for numbers in (values, low, high))
        strange = self.familiarity.strangeness(features)
        return Said(values, low, high, strange > self.familiarity.limit, strange)

    @property
    def reads_weights(self) -> bool:
        """Whether networks are needed beside their features."""
        return any(model.kind == "metanetwork" for model in self.fitted)

    def report(self) -> dict[str, Any]:
        """Plain values for JSON: what was chosen, how good it is, and how far to trust it."""
        return {
            "model": self.model,
            "target": self.target,
            **{f"cv_{name}": value for name, value in self.scores[self.model].items()},
            "candidates": self.scores,
            "trust": self.trust.to_dict(),
            "notes": self.notes(),
            "tau_of_sizes": self.tau_of_sizes,
            "shares": self.shares,
            "coverage": self.coverage,
            "networks": len(self.calibration.folds),
            "sources": self.trust.sources,
            "folds": len(self.fitted),
            "false_alarms": self.familiarity.rate,
        }

    def notes(self) -> list[str]:
        """What to know before using it, beside what speaks against trusting it."""
        found = []
        if self.tau_of_sizes is not None and 0 < self.trust.tau - self.tau_of_sizes < MORE:
            found.append(
                f"sizes of layers alone rank with tau {self.tau_of_sizes:.2f}: much of the ranking "
                "tells architectures or tasks apart, not good networks from bad ones of one kind"
            )
        if self.trust.sources + 1 < 1 / (1 - self.coverage):
            ends = "go from 0 to 1" if self.shares else "are infinite"
            found.append(
                f"intervals of {self.coverage:.0%} need more sources, and {ends}: "
                "choose a lower --coverage"
            )
        return found

    def _check(self, features: Array) -> None:
        wanted = len(self.familiarity.metric.mean)
        if features.ndim != 2 or features.shape[1] != wanted:
            raise DataError(
                "features", expected=f"[networks, {wanted}]", found=f"{list(features.shape)}"
            )
        if not np.isfinite(features).all():
            raise DataError("features", expected="finite numbers", found="NaN or infinity")


def fit_ranking(
    examples: Examples,
    *,
    model: str = "auto",
    coverage: float = 0.9,
    shares: bool = False,
    folder: Path | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Ranking:
    """Choose a model by cross-validation, calibrate its intervals, and judge how far to trust it.

    Args:
        examples: networks with measured numbers.
        model: ``ridge``, ``trees``, or ``auto`` for the best of those that suit the networks.
        coverage: the share of new networks whose value shall lie in its interval.
        shares: whether the numbers are shares from 0 to 1, such as accuracies, so that no
            prediction and no interval goes beyond.
        folder: where metanetworks are trained; without it they are no candidates.
        seed: of every random choice.
        progress: whether to show a progress bar.

    Raises:
        DataError: there are fewer than six sources, or numbers are no shares.
        ModelError: there is no such candidate, or an option is out of range.

    >>> generator = np.random.default_rng(0)
    >>> features = generator.normal(size=(30, 3))
    >>> examples = Examples(features, features[:, 0], np.arange(30))
    >>> ranking = fit_ranking(examples, model="ridge")
    >>> bool(ranking.predict(features[:1]).high[0] > features[0, 0])
    True
    """
    require_between("coverage", coverage, *COVERAGES)
    require_between("seed", seed, 0, LARGEST_SEED)
    if shares:
        Share.of(examples.values.tolist(), column=examples.target)
    candidates = candidates_for(examples, model, folder)
    validated, folds = compare(examples, candidates, seed=seed, progress=progress)
    chosen = _best(validated)
    best = validated[chosen]
    trust = judge_trust(
        [v.averaged for v in validated], chosen, examples.values, examples.groups, seed=seed
    )
    sizes = _tau_of_sizes(examples, seed)
    calibration = Calibration(
        folds, np.abs(examples.values - best.held), source_weights(examples.groups)
    )
    return Ranking(
        target=examples.target,
        model=best.candidate.name,
        fitted=best.fitted,
        calibration=calibration,
        familiarity=Familiarity.of(examples.features, examples.groups, folds, rate=FALSE_ALARMS),
        trust=trust if sizes is None else _beyond_sizes(trust, sizes),
        scores={v.candidate.name: ranking_scores(v.averaged, examples.values) for v in validated},
        coverage=coverage,
        tau_of_sizes=sizes,
        shares=shares,
    )


def _beyond_sizes(trust: Trust, tau: float) -> Trust:
    """Say where weights add nothing to what the architecture tells."""
    if tau < trust.tau:
        return trust
    reason = (
        f"sizes of layers alone rank as well (tau {tau:.2f}): it tells architectures or tasks "
        "apart, not good networks from bad ones of one kind"
    )
    return replace(trust, reasons=(*trust.reasons, reason))


def _tau_of_sizes(examples: Examples, seed: int) -> float | None:
    """How well the architecture alone ranks, cross-validated; None where there is but one."""
    if examples.features.shape[1] != len(FEATURES):
        return None
    sizes = examples.features[:, list(SIZES)]
    if not np.ptp(sizes, axis=0).any():
        return None
    alone = Examples(sizes, examples.values, examples.groups)
    validated, _ = compare(alone, [BoostedTrees()], seed=seed, progress=False)
    return validated[0].tau


def ranking_scores(said: Array, values: Array) -> dict[str, float]:
    """Kendall's tau, Spearman's correlation, R2 and squared error."""
    scores = {"tau": kendall_tau, "spearman": spearman, "r2": explained, "mse": squared_error}
    return {name: float(score(said, values)) for name, score in scores.items()}


def _best(validated: Sequence[Validated]) -> int:
    """The first candidate that no later one is clearly better than."""
    chosen = 0
    for place, one in enumerate(validated):
        if one.tau > validated[chosen].tau + TIE:
            chosen = place
    return chosen
