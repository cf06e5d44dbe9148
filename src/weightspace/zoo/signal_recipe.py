"""What recipes of implicit networks have in common: settings, seeds, splits, refits, parts."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from weightspace.errors import LARGEST_SEED, ModelError, require_between
from weightspace.graph import GraphSpec
from weightspace.zoo.recipe import MadePart, PartMaker, Recipe
from weightspace.zoo.signal_fit import LEARNING_RATE, FittedSignals, Samples, fit_signals
from weightspace.zoo.siren import PUBLISHED, SirenVariant, siren_spec
from weightspace.zoo.splits import split_by_group

CHUNK = 32
PART = 256
"""Networks that share an optimiser, and networks in a part of the zoo. Fixed, and named in the
recipe, because they decide how sums are rounded."""

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class InrRecipe:
    """How SIRENs are fitted to the signals of a zoo.

    Args:
        hidden: the hidden layers' sizes.
        variant: initialisation, frequencies and offset.
        steps: the most updates a network gets.
        learning_rate: of Adam.
        target_psnr: a network that has reached this stops: the ratio of a signal from 0 to 1
            to its error, in dB.
        refits: how many networks each signal gets, from different seeds.
        seed: decides the validation signals and every network's own seed.
        validation: the share of the training signals whose networks are for validation.
        final_rate: to which share of itself the learning rate falls, on half a cosine.

    Raises:
        ModelError: several refits are asked of one shared initialisation.
    """

    hidden: tuple[int, ...] = (32, 32)
    variant: SirenVariant = PUBLISHED
    steps: int = 100
    learning_rate: float = LEARNING_RATE
    target_psnr: float | None = None
    refits: int = 1
    seed: int = 0
    validation: float = 0.1
    final_rate: float = 1.0

    def __post_init__(self) -> None:
        require_between("refits", self.refits, 1, 1_000_000)
        require_between("steps", self.steps, 1, 1_000_000_000)
        require_between("learning rate", self.learning_rate, 1e-12, 1e3)
        require_between("seed", self.seed, 0, LARGEST_SEED)
        require_between("validation", self.validation, 0.0, 0.99)
        require_between("final rate", self.final_rate, 0.0, 1.0)
        if self.target_psnr is not None:
            require_between("target PSNR", self.target_psnr, 0.0, 1000.0)
        if not self.hidden:
            raise ModelError("hidden", expected="at least one hidden layer", found="none")
        if self.refits > 1 and self.variant.shared_init is not None:
            raise ModelError(
                "refits",
                expected="1 with a shared initialisation",
                found=str(self.refits),
                hint="Refits from one initialisation would be the same network again.",
            )

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain data."""
        settings = asdict(self)
        if self.final_rate == 1.0:
            del settings["final_rate"]  # zoos that were begun before it was there go on
        return settings

    def fit(self, samples: Sequence[Samples], seeds: Sequence[int]) -> FittedSignals:
        """Fit a network to each signal."""
        return fit_signals(
            samples,
            seeds=seeds,
            hidden=self.hidden,
            variant=self.variant,
            steps=self.steps,
            learning_rate=self.learning_rate,
            final_rate=self.final_rate,
            target_error=0.0 if self.target_psnr is None else 10 ** (-self.target_psnr / 20),
            chunk=CHUNK,
        )


class Signals(Protocol):
    """Some signals, in a form that can be sent to another process."""

    def samples(self) -> list[Samples]:
        """The signals at the points that networks are fitted at."""

    def measures(self, spec: GraphSpec, fitted: FittedSignals) -> Columns:
        """How well networks say the signals: columns with one value a network."""


class SignalRecipe(Recipe):
    """SIRENs fitted to signals.

    The rows of the zoo have the columns ``source`` (the signal's number), ``split``, the
    signal's labels, ``refit``, ``seed``, measures of the fit, and ``steps``. Splits go by
    signal, so that refits of one are never in two of them.
    """

    settings: InrRecipe
    part_size: ClassVar[int] = PART
    """How many networks a part has; fewer where a network takes long."""

    @abstractmethod
    def ends(self) -> tuple[int, int]:
        """The numbers of the networks' inputs and outputs."""

    @abstractmethod
    def columns(self) -> Columns:
        """What is known of each signal: ``source``, ``split``, and labels."""

    @abstractmethod
    def signals(self, places: Sequence[int]) -> Signals:
        """Some of the signals, by their places in the columns."""

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """Where the signals come from, as plain data."""

    def specs(self) -> list[GraphSpec]:
        """One architecture."""
        inputs, outputs = self.ends()
        return [siren_spec((inputs, *self.settings.hidden, outputs), self.settings.variant)]

    def parts(self) -> int:
        """How many parts there are."""
        return -(-self._count // self.part_size)

    def networks(self, part: int) -> int:
        """How many networks a part has."""
        return len(self._numbers(part))

    def as_dict(self) -> dict[str, Any]:
        """Everything needed to make the zoo again."""
        sizes = {"chunk": CHUNK, "part": self.part_size}
        return {"name": self.name, **self.settings.as_dict(), **sizes, **self.data()}

    def for_part(self, part: int) -> PartMaker:
        """A part's signals and rows."""
        refits, known = self.settings.refits, self.known
        networks = [divmod(number, refits) for number in self._numbers(part)]
        rows = [
            {
                **{name: values[place] for name, values in known.items()},
                "refit": refit,
                "seed": network_seed(self.settings.seed, known["source"][place], refit),
            }
            for place, refit in networks
        ]
        signals = self.signals([place for place, _ in networks])
        return _Part(self.settings, self.specs()[0], signals, rows)

    def make_part(self, part: int) -> MadePart:
        """Fit the networks of a part."""
        return self.for_part(part).make_part(part)

    @cached_property
    def known(self) -> Columns:
        """The columns, made once."""
        return self.columns()

    @property
    def _count(self) -> int:
        return len(self.known["source"]) * self.settings.refits

    def _numbers(self, part: int) -> range:
        """A part's networks: signals in their order, the refits of one side by side."""
        return range(part * self.part_size, min((part + 1) * self.part_size, self._count))


def network_seed(seed: int, source: int, refit: int) -> int:
    """The seed of one network: the same on every machine, whatever else is in the zoo.

    >>> network_seed(0, 7, 1) == network_seed(0, 7, 1) != network_seed(0, 7, 2)
    True
    """
    digest = hashlib.sha256(f"{seed}/{source}/{refit}".encode()).digest()
    return int.from_bytes(digest[:4], "little")  # torch's generator takes in 32 bits


def split_names(
    labels: Sequence[Hashable], *, test: Sequence[bool], validation: float, seed: int
) -> list[str]:
    """Name the split of each signal: those for testing are given, validation is drawn.

    Args:
        labels: the signals' labels; validation has each in proportion.
        test: whether a signal is for testing.
        validation: its share of the others.
        seed: of the draw.

    >>> split_names("aabb", test=[False] * 3 + [True], validation=0.0, seed=0)
    ['train', 'train', 'train', 'test']
    """
    names = np.where(np.asarray(test, dtype=bool), "test", "train").astype(object)
    others = np.flatnonzero(names == "train")
    if validation and len(others):
        shares = {"train": 1 - validation, "val": validation}
        kept = [labels[place] for place in others.tolist()]
        chosen = split_by_group(range(len(others)), shares, seed, labels=kept)
        names[others[chosen["val"]]] = "val"
    return [str(name) for name in names]


def random_split(labels: Sequence[Hashable], *, test: float, settings: InrRecipe) -> list[str]:
    """Draw a split for each signal of a set that has no test set of its own.

    Args:
        labels: the signals' labels; every split has each in proportion.
        test: the share for testing.
        settings: the seed, and the share of the others for validation.
    """
    require_between("test", test, 0.0, 0.99)
    chosen = np.zeros(len(labels), dtype=bool)
    if test:
        shares = {"rest": 1 - test, "test": test}
        parts = split_by_group(range(len(labels)), shares, settings.seed, labels=labels)
        chosen[parts["test"]] = True
    return split_names(
        labels, test=chosen.tolist(), validation=settings.validation, seed=settings.seed
    )


@dataclass(frozen=True)
class _Part:
    """A part to be fitted, in a form that can be sent to another process."""

    settings: InrRecipe
    spec: GraphSpec
    signals: Signals
    rows: list[dict[str, Any]]

    def make_part(self, part: int) -> MadePart:
        """Fit the networks, measure them, and say so in their rows."""
        fitted = self.settings.fit(self.signals.samples(), [row["seed"] for row in self.rows])
        measures = self.signals.measures(self.spec, fitted)
        steps = fitted.steps.tolist()
        rows = [
            {**row, **{name: values[n] for name, values in measures.items()}, "steps": steps[n]}
            for n, row in enumerate(self.rows)
        ]
        state = {name: tensor.numpy() for name, tensor in fitted.state.items()}
        return MadePart(part, 0, state, rows)
