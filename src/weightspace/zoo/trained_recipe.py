"""What recipes of trained networks share: numbers, seeds, splits, checkpoints as rows."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from weightspace.errors import LARGEST_SEED, require_between
from weightspace.zoo.recipe import MadePart, Recipe
from weightspace.zoo.splits import split_by_group
from weightspace.zoo.stack_training import Checkpoint

Random = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class TrainedRecipe(Recipe):
    """Networks trained from random hyperparameters, kept at several moments of their training.

    Networks have numbers, and all that is random about one is a function of the recipe's seed
    and its number. A part holds :attr:`siblings` networks of one architecture, in stacks that
    are trained at once. Every row has the columns ``model`` (the network's number), ``seed``,
    ``split``, ``update`` (how many it has had), ``diverged``, the hyperparameters and what
    was measured; checkpoints of one network are always in one split.

    Args:
        count: how many networks are trained.
        siblings: networks in a part.
        updates: of each network.
        checkpoints: how often a network is kept, evenly spread, the last time at its end.
        batch: examples in an update.
        validation: the share of the networks for validation.
        test: the share for testing.
        seed: of everything.

    Raises:
        ModelError: an option is out of its range.
        DataError: the networks are too few for their splits.
    """

    count: int = 256
    siblings: int = 32
    updates: int = 1500
    checkpoints: int = 5
    batch: int = 64
    validation: float = 0.15
    test: float = 0.15
    seed: int = 0

    stack: ClassVar[int] = 8
    """Networks that are trained at once; part of the recipe, as it decides how sums are rounded."""

    by_part: ClassVar[bool] = False
    """Whether networks of one part, and so of one architecture, share a split."""

    def __post_init__(self) -> None:
        require_between("count", self.count, 1, 10_000_000)
        require_between("siblings", self.siblings, 1, 100_000)
        require_between("updates", self.updates, 1, 1_000_000_000)
        require_between("checkpoints", self.checkpoints, 1, self.updates)
        require_between("batch", self.batch, 1, 1_000_000)
        require_between("validation", self.validation, 0.0, 0.99)
        require_between("test", self.test, 0.0, 0.99 - self.validation)
        require_between("seed", self.seed, 0, LARGEST_SEED)
        _splits(self)

    @abstractmethod
    def hyperparameters(self, number: int) -> dict[str, Any]:
        """What is drawn for a network, as columns of its rows."""

    @abstractmethod
    def train(self, numbers: Sequence[int]) -> list[Checkpoint]:
        """Train networks of one architecture as a stack, up to every checkpoint."""

    @abstractmethod
    def spec_index(self, part: int) -> int:
        """Which of the specs the networks of a part have."""

    def parts(self) -> int:
        """How many parts there are."""
        return -(-self.count // self.siblings)

    def networks(self, part: int) -> int:
        """How many rows a part has: its networks at every checkpoint."""
        return len(self.numbers(part)) * self.checkpoints

    def as_dict(self) -> dict[str, Any]:
        """The settings, as plain data."""
        return {"name": self.name, **asdict(self), "stack": self.stack}

    def make_part(self, part: int) -> MadePart:
        """Train a part's networks."""
        numbers = self.numbers(part)
        stacks = [numbers[i : i + self.stack] for i in range(0, len(numbers), self.stack)]
        states: list[dict[str, npt.NDArray[Any]]] = []
        rows: list[dict[str, Any]] = []
        for stack in stacks:
            kept = self.train(stack)
            states.append(_network_by_network(kept))
            rows += [self._row(n, i, moment) for i, n in enumerate(stack) for moment in kept]
        state = {name: np.concatenate([s[name] for s in states]) for name in states[0]}
        return MadePart(part, self.spec_index(part), state, rows)

    def numbers(self, part: int) -> range:
        """The networks of a part."""
        return range(part * self.siblings, min((part + 1) * self.siblings, self.count))

    def moments(self) -> list[int]:
        """The numbers of updates at which networks are kept."""
        return [self.updates * (i + 1) // self.checkpoints for i in range(self.checkpoints)]

    def network_seed(self, number: int) -> int:
        """The seed of one network: the same whatever else is in the zoo."""
        return derived_seed(self.seed, self.name, number)

    def random(self, number: int) -> Random:
        """The source of a network's hyperparameters."""
        return np.random.default_rng(derived_seed(self.network_seed(number), "hyperparameters"))

    def _row(self, number: int, place: int, moment: Checkpoint) -> dict[str, Any]:
        return {
            "model": number,
            "seed": self.network_seed(number),
            "split": _splits(self)[number // self.siblings if self.by_part else number],
            "update": moment.update,
            "diverged": moment.diverged[place],
            **self.hyperparameters(number),
            **{name: values[place] for name, values in moment.measures.items()},
        }


def derived_seed(*sources: object) -> int:
    """A seed from others and from words: the same on every machine.

    >>> derived_seed(0, "order") == derived_seed(0, "order") != derived_seed(1, "order")
    True
    """
    digest = hashlib.sha256("/".join(map(str, sources)).encode()).digest()
    return int.from_bytes(digest[:4], "little") & LARGEST_SEED


def log_uniform(random: Random, low: float, high: float) -> float:
    """Draw a number whose logarithm is uniform.

    >>> 1e-3 <= log_uniform(np.random.default_rng(0), 1e-3, 1e-1) <= 1e-1
    True
    """
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def one_of(random: Random, values: Sequence[Any]) -> Any:
    """Draw one of some values, as it stands in the sequence."""
    return values[int(random.integers(len(values)))]


@lru_cache(maxsize=4)
def _splits(recipe: TrainedRecipe) -> list[str]:
    """The split of each network, or of each part."""
    count = recipe.parts() if recipe.by_part else recipe.count
    shares = {"train": 1.0 - recipe.validation - recipe.test}
    shares |= {k: v for k, v in (("val", recipe.validation), ("test", recipe.test)) if v}
    names = [""] * count
    for name, members in split_by_group(range(count), shares, recipe.seed).items():
        for member in members.tolist():
            names[member] = name
    return names


def _network_by_network(moments: Sequence[Checkpoint]) -> dict[str, npt.NDArray[Any]]:
    """The states of all moments, those of one network side by side."""
    return {
        name: np.stack([moment.state[name].numpy() for moment in moments], 1).reshape(
            -1, *moments[0].state[name].shape[1:]
        )
        for name in moments[0].state
    }
