"""The recipe ``language-models``: small transformers that predict characters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from weightspace.errors import DataError, require_between
from weightspace.graph import GraphSpec
from weightspace.importers.from_module import module_spec
from weightspace.zoo.char_transformer import CharTransformer
from weightspace.zoo.classifying import Logits, stacked_state, vectorised
from weightspace.zoo.pictures import evenly
from weightspace.zoo.stack_training import Checkpoint, OptimiserChoice, train_stack
from weightspace.zoo.texts import ALPHABET, PYTHON, Text, read_text
from weightspace.zoo.trained_recipe import TrainedRecipe, derived_seed, log_uniform, one_of
from weightspace.zoo.transformer_block import (
    LARGEST_SHAPES,
    TransformerShape,
    draw_shapes,
    scale_matrices,
)

FRACTIONS = (0.05, 0.3, 1.0)
LEARNING_RATES, DECAYS = (5e-4, 2e-2), (1e-6, 1e-1)
CLIP = 1.0
"""The largest norm of a gradient."""


class NextCharacter:
    """Predicting characters, each network from windows of its own share of a text.

    Args:
        logits: runs the stack on characters ``[networks, batch, time]``.
        text: the text.
        shares: how much of its beginning each network is trained on.
        seeds: of each network's windows.
        context: characters that are read.
        batch: windows in a batch.
        updates: how many updates there will be.
        measured: how many windows are measured, evenly spread over a text.
    """

    def __init__(
        self,
        logits: Logits,
        text: Text,
        shares: Sequence[float],
        *,
        seeds: Sequence[int],
        context: int,
        batch: int,
        updates: int,
        measured: int,
    ) -> None:
        if len(text.test) <= context or min(shares) * len(text.train) <= context:
            raise DataError(
                "context",
                expected="a number of characters smaller than every part of the text",
                found=str(context),
            )
        self._logits, self._text, self._batch, self._context = logits, text, batch, context
        limits = [int(share * len(text.train)) - context for share in shares]
        self._starts = torch.stack(
            [_starts(n, batch * updates, seed) for n, seed in zip(limits, seeds, strict=True)]
        )
        self._own = torch.stack([torch.arange(measured) * n // measured for n in limits])
        test = evenly(len(text.test) - context, measured)
        self._test = test.expand(len(shares), -1)

    def losses(self, state: Mapping[str, Tensor], update: int) -> Float[Tensor, " networks"]:
        """The mean cross-entropies of each network's next windows."""
        chosen = self._starts[:, update * self._batch : (update + 1) * self._batch]
        return self._loss(state, self._text.train, chosen, training=True)

    def measure(self, state: Mapping[str, Tensor]) -> dict[str, Float[Tensor, " networks"]]:
        """Losses on the test text and on the networks' own share, in nats and in bits."""
        test = self._loss(state, self._text.test, self._test, training=False)
        own = self._loss(state, self._text.train, self._own, training=False)
        return {
            "train_loss": own,
            "train_bits": own / math.log(2),
            "test_loss": test,
            "test_bits": test / math.log(2),
        }

    def _loss(
        self, state: Mapping[str, Tensor], text: Tensor, starts: Tensor, *, training: bool
    ) -> Tensor:
        windows = text[starts[..., None] + torch.arange(self._context + 1)]
        logits = self._logits(state, windows[..., :-1], training)
        targets = windows[..., 1:]
        losses = F.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="none")
        return losses.view(len(starts), -1).mean(1)


@dataclass(frozen=True, kw_only=True)
class LanguageModels(TrainedRecipe):
    """Character transformers of 1 to 3 blocks; the label is the test loss in bits a character.

    Learning rate, decay, initial scale and the share of the text are drawn for each network;
    parts take the drawn architectures in turn.

    Args:
        text: see :func:`weightspace.zoo.texts.read_text`.
        context: characters that are read.
        shapes: how many architectures are drawn.
        measured: how many windows are measured.
    """

    name: ClassVar[str] = "language-models"

    siblings: int = 8
    updates: int = 1000
    checkpoints: int = 4
    batch: int = 16
    text: str = PYTHON
    context: int = 32
    shapes: int = 16
    measured: int = 400

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("context", self.context, 1, 100_000)
        require_between("shapes", self.shapes, 1, LARGEST_SHAPES)
        require_between("measured", self.measured, 1, 10_000_000)

    def as_dict(self) -> dict[str, Any]:
        """The settings, and a hash of the text."""
        return {**super().as_dict(), "text_sha256": read_text(self.text).sha256}

    def specs(self) -> Sequence[GraphSpec]:
        """A spec for each architecture."""
        return [_spec(shape, self.context) for shape in self._shapes()[: self.parts()]]

    def spec_index(self, part: int) -> int:
        """Parts take the architectures in turn."""
        return part % self.shapes

    def hyperparameters(self, number: int) -> dict[str, Any]:
        """The architecture, and what is drawn for a network."""
        random = self.random(number)
        return {
            "architecture": "char-transformer",
            "text": self.text,
            "characters": len(ALPHABET),
            "context": self.context,
            **self._shapes()[self.spec_index(number // self.siblings)].columns(),
            "initial_scale": log_uniform(random, 0.5, 2.0),
            "optimiser": "adamw",
            "learning_rate": log_uniform(random, *LEARNING_RATES),
            "weight_decay": log_uniform(random, *DECAYS),
            "text_share": one_of(random, FRACTIONS),
        }

    def train(self, numbers: Sequence[int]) -> list[Checkpoint]:
        """Train a stack of networks of one architecture."""
        drawn = [self.hyperparameters(number) for number in numbers]
        seeds = [self.network_seed(number) for number in numbers]
        modules = [_initial(row, seed) for row, seed in zip(drawn, seeds, strict=True)]
        problem = NextCharacter(
            vectorised(modules[0]),
            read_text(self.text),
            [row["text_share"] for row in drawn],
            seeds=[derived_seed(seed, "order") for seed in seeds],
            context=self.context,
            batch=self.batch,
            updates=self.updates,
            measured=self.measured,
        )
        optimisers = [
            OptimiserChoice("adamw", row["learning_rate"], row["weight_decay"]) for row in drawn
        ]
        state = stacked_state(modules)
        return train_stack(problem, state, optimisers, checkpoints=self.moments(), clip=CLIP)

    def _shapes(self) -> tuple[TransformerShape, ...]:
        return draw_shapes(derived_seed(self.seed, self.name), self.shapes)


def _initial(row: Mapping[str, Any], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return scale_matrices(CharTransformer.from_row(row), row["initial_scale"])


def _starts(limit: int, count: int, seed: int) -> Int[Tensor, " count"]:
    return torch.randint(limit, (count,), generator=torch.Generator().manual_seed(seed))


@lru_cache(maxsize=LARGEST_SHAPES)
def _spec(shape: TransformerShape, context: int) -> GraphSpec:
    network = CharTransformer(shape, characters=len(ALPHABET), context=context)
    return module_spec(network, torch.zeros(1, context, dtype=torch.long))
