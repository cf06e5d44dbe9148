"""Whether a ranking can be trusted: is it better than chance, and how well is that known?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.rank.folds import Integers
from weightspace.tasks.scores import kendall_tau

Array = npt.NDArray[np.float64]
ENOUGH = 40
"""Sources below this are too few: 39 is where a 95 % conformal interval begins to be finite."""
WIDEST = 0.5
LEVEL = 0.05
_BLOCKS = 200
_PAIRS = 200


@dataclass(frozen=True)
class Trust:
    """How well a cross-validated ranking is known.

    Args:
        tau: Kendall's tau of held-out predictions.
        low: the lower end of its 95 % interval (jackknife over sources).
        high: the upper end.
        p_value: how often shuffled labels are ranked as well.
        sources: independent networks.
        reasons: why the ranking is not to be trusted; empty if it is.
    """

    tau: float
    low: float
    high: float
    p_value: float
    sources: int
    reasons: tuple[str, ...]

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "reasons": list(self.reasons), "trusted": self.trusted}


def judge_trust(
    candidates: Sequence[Array], chosen: int, values: Array, groups: Integers, *, seed: int
) -> Trust:
    """Judge the held-out predictions of the candidate that was chosen.

    Labels are shuffled a source at a time, and the best of all candidates is compared, so the
    p-value counts that one was chosen among several.

    Args:
        candidates: held-out predictions of each candidate, ``[networks]``.
        chosen: which of them it is about.
        values: what is true.
        groups: the source of each network.
        seed: of the shuffling.
    """
    sources = int(groups.max()) + 1
    tau = kendall_tau(candidates[chosen], values)
    low, high = tau_interval(candidates[chosen], values, groups)
    p_value = _p_value(candidates, values, groups, seed)
    reasons = []
    if sources < ENOUGH:
        reasons.append(f"{sources} independent networks are too few; {ENOUGH} is the least")
    if p_value > LEVEL:
        reasons.append(f"labels in random order are ranked as well in {p_value:.0%} of cases")
    if low <= 0:
        what = "tau may be 0" if high >= 0 else "it ranks the wrong way round"
        reasons.append(f"{what}: its 95 % interval is {low:.2f} to {high:.2f}")
    elif high - low > WIDEST:
        reasons.append(f"tau is hardly known: its 95 % interval is {low:.2f} to {high:.2f}")
    return Trust(tau, low, high, p_value, sources, tuple(reasons))


def tau_interval(said: Array, values: Array, groups: Integers) -> tuple[float, float]:
    """The 95 % interval of Kendall's tau, by the jackknife over sources on Fisher's scale."""
    sources = int(groups.max()) + 1
    blocks = groups if sources <= _BLOCKS else groups * _BLOCKS // sources
    numbers = np.unique(blocks)
    left = [kendall_tau(said[blocks != b], values[blocks != b]) for b in numbers]
    count = len(numbers)
    deviation = float(np.sqrt((count - 1) / count * np.var(left) * count))
    tau = float(np.clip(kendall_tau(said, values), -0.999, 0.999))
    middle, half = np.arctanh(tau), 1.96 * deviation / (1 - tau**2)
    return float(np.tanh(middle - half)), float(np.tanh(middle + half))


def _p_value(candidates: Sequence[Array], values: Array, groups: Integers, seed: int) -> float:
    generator = np.random.default_rng(seed)
    order = np.argsort(groups, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(groups))[:-1])
    agreements = [_agreement(said, values) for said in candidates]
    best = max(agreement(np.arange(len(values))) for agreement in agreements)
    rounds = 999 if len(values) <= _PAIRS else 199
    reached = 0
    for _ in range(rounds):
        moved = np.concatenate([members[g] for g in generator.permutation(len(members))])
        places = np.empty(len(values), dtype=np.int64)
        places[order] = moved
        reached += max(agreement(places) for agreement in agreements) >= best - 1e-9
    return (reached + 1) / (rounds + 1)


def _agreement(said: Array, values: Array) -> Callable[[Integers], float]:
    """Kendall's tau of predictions with reordered values, as a function of their order.

    Few networks are compared pair by pair: reordering then only reorders the signs of pairs.
    """
    if len(values) > _PAIRS:
        return lambda places: kendall_tau(said, values[places])
    first, second = (np.sign(a[:, None] - a).astype(np.float32) for a in (said, values))
    pairs = np.sqrt(np.abs(first).sum() * np.abs(second).sum()) or 1.0
    return lambda places: float(np.vdot(first, second[places][:, places]) / pairs)
