"""What stacks of image classifiers learn: batches of their own images, accuracies on all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.zoo.pictures import Pictures, as_values, network_inputs

Logits = Callable[[Mapping[str, Tensor], Tensor, bool], Tensor]
"""State, images ``[networks, batch, channels, height, width]`` and whether it is training, to
logits ``[networks, batch, classes]``."""

OWN_MEASURED = 1000
"""Training images of a network that its training accuracy is measured on, at most."""

_AT_ONCE = 500
"""Images that are classified at once when measuring."""


class ImageClassification:
    """Classifying images, each network with its own subset and its own order of it.

    Args:
        logits: runs the stack.
        pictures: the images.
        subsets: the indices of each network's training images.
        seeds: of each network's order of batches.
        batch: images in a batch.
        updates: how many updates there will be.
        measured: how many test images accuracy is measured on, at most; of its training
            images at most :data:`OWN_MEASURED` are taken.
    """

    def __init__(
        self,
        logits: Logits,
        pictures: Pictures,
        subsets: Sequence[Int[Tensor, " images"]],
        *,
        seeds: Sequence[int],
        batch: int,
        updates: int,
        measured: int,
    ) -> None:
        self._logits, self._pictures, self._batch = logits, pictures, batch
        self._order = torch.stack(
            [shuffled(s, batch * updates, seed) for s, seed in zip(subsets, seeds, strict=True)]
        )
        self._test = pictures.test_sample(measured)
        count = min(OWN_MEASURED, *(len(subset) for subset in subsets))
        self._own = torch.stack([subset[:count] for subset in subsets])

    def losses(self, state: Mapping[str, Tensor], update: int) -> Float[Tensor, " networks"]:
        """The cross-entropies on each network's next images."""
        chosen = self._order[:, update * self._batch : (update + 1) * self._batch]
        logits = self._logits(state, self._training_images(chosen), True)
        return _cross_entropy(logits, self._pictures.train_labels[chosen]).mean(1)

    def measure(self, state: Mapping[str, Tensor]) -> dict[str, Float[Tensor, " networks"]]:
        """Losses and accuracies on test images and on the networks' own training images."""
        networks = len(self._own)
        images, labels = self._test
        test = self._measured(
            state,
            [part.expand(networks, *part.shape) for part in torch.split(images, _AT_ONCE)],
            labels.expand(networks, -1),
        )
        own = self._measured(
            state,
            [self._training_images(part) for part in torch.split(self._own, _AT_ONCE, dim=1)],
            self._pictures.train_labels[self._own],
        )
        return {
            "train_loss": own[0],
            "train_accuracy": own[1],
            "test_loss": test[0],
            "test_accuracy": test[1],
        }

    def _training_images(self, chosen: Tensor) -> Tensor:
        return network_inputs(as_values(self._pictures.train[chosen]))

    def _measured(
        self, state: Mapping[str, Tensor], parts: Sequence[Tensor], labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        logits = torch.cat([self._logits(state, part, False) for part in parts], 1)
        right = logits.argmax(2) == labels
        return _cross_entropy(logits, labels).mean(1), right.float().mean(1)


def vectorised(module: nn.Module) -> Logits:
    """Run a stack of networks that all are like a module (``torch.func.vmap``).

    >>> run = vectorised(nn.Linear(3, 2))
    >>> state = {"weight": torch.ones(4, 2, 3), "bias": torch.zeros(4, 2)}
    >>> run(state, torch.ones(4, 5, 3), False).shape
    torch.Size([4, 5, 2])
    """

    def one(state: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        result: Tensor = torch.func.functional_call(module, dict(state), (inputs,))
        return result

    many = torch.func.vmap(one)
    return lambda state, inputs, training: many(dict(state), inputs)


def stacked_state(modules: Sequence[nn.Module]) -> dict[str, Tensor]:
    """The parameters of modules of one architecture as a stacked state."""
    states = [module.state_dict() for module in modules]
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}


def training_subset(available: int, count: int, seed: int) -> Int[Tensor, " count"]:
    """Draw the training images of a network, which its row names by their number and seed.

    Args:
        available: the number of training images in the set.
        count: how many to draw.
        seed: of the draw.

    Raises:
        ModelError: there are not as many.

    >>> bool((training_subset(100, 9, 5) == training_subset(100, 9, 5)).all())
    True
    """
    if not 1 <= count <= available:
        raise ModelError("training images", expected=f"1 to {available}", found=str(count))
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(available, generator=generator)[:count]


def shuffled(subset: Int[Tensor, " n"], length: int, seed: int) -> Int[Tensor, " length"]:
    """Run through a subset again and again, in a new order each time."""
    generator = torch.Generator().manual_seed(seed)
    epochs = -(-length // len(subset))
    orders = [subset[torch.randperm(len(subset), generator=generator)] for _ in range(epochs)]
    return torch.cat(orders)[:length]


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    flat = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return flat.view(labels.shape)
