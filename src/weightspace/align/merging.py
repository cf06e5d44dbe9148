"""Making one network of several that are close to each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from weightspace.errors import ModelError, StateError
from weightspace.graph import State


class Merge(ABC):
    """A way of merging tensors of equal shapes."""

    @abstractmethod
    def tensors(self, name: str, tensors: Sequence[Tensor]) -> Tensor:
        """Merge one tensor of all networks."""

    def check(self, count: int) -> None:
        """Check that so many networks can be merged.

        Raises:
            ModelError: they cannot.
        """
        if count < 2:
            raise ModelError("networks", expected="at least two", found=str(count))


@dataclass(frozen=True)
class Average(Merge):
    """The weighted mean, ``sum_k w_k W_k``.

    Args:
        weights: one for each network, of sum 1; equal ones if not given.
    """

    weights: tuple[float, ...] | None = None

    def check(self, count: int) -> None:
        """See :class:`Merge`."""
        super().check(count)
        if self.weights is not None and len(self.weights) != count:
            raise ModelError(
                "weights", expected=f"{count}, one a network", found=str(len(self.weights))
            )
        if self.weights is not None and not abs(sum(self.weights) - 1) < 1e-6:
            raise ModelError("weights", expected="a sum of 1", found=f"{sum(self.weights):g}")

    def tensors(self, name: str, tensors: Sequence[Tensor]) -> Tensor:
        """See :class:`Merge`."""
        weights = self.weights or (1 / len(tensors),) * len(tensors)
        result = weights[0] * tensors[0]
        for weight, tensor in zip(weights[1:], tensors[1:], strict=True):
            result.add_(tensor, alpha=weight)
        return result


@dataclass(frozen=True)
class Slerp(Merge):
    """Spherical interpolation of two networks, tensor by tensor (Shoemake 1985).

    ``sin((1 - t) a) / sin(a) W_0 + sin(t a) / sin(a) W_1`` with the angle ``a`` between them.

    Args:
        t: 0 is the first network, 1 the second.
    """

    t: float = 0.5

    def check(self, count: int) -> None:
        """See :class:`Merge`."""
        if count != 2:
            raise ModelError("networks", expected="two for slerp", found=str(count))

    def tensors(self, name: str, tensors: Sequence[Tensor]) -> Tensor:
        """See :class:`Merge`."""
        one, other = tensors
        # In double precision: sums of squares of half precision are beyond its largest number.
        cosine = torch.nn.functional.cosine_similarity(
            one.flatten().double(), other.flatten().double(), dim=0
        )
        angle = torch.arccos(cosine.clamp(-1, 1))
        if not 1e-4 < float(angle) < torch.pi - 1e-4:  # nearly parallel: the straight line
            return one + self.t * (other - one)
        first, second = torch.sin((1 - self.t) * angle), torch.sin(self.t * angle)
        across = torch.sin(angle)
        return (first / across).to(one) * one + (second / across).to(one) * other


@dataclass(frozen=True, eq=False)
class TaskArithmetic(Merge):
    """The sum of what each network learned beyond a common base (Ilharco et al. 2023).

    ``W_0 + scale * sum_k (W_k - W_0)``.

    Args:
        base: the network that all others were fine-tuned from.
        scale: of the sum.
    """

    base: State
    scale: float = 1.0

    def check(self, count: int) -> None:
        """See :class:`Merge`."""
        if count < 1:
            raise ModelError("networks", expected="at least one beside the base", found="none")

    def tensors(self, name: str, tensors: Sequence[Tensor]) -> Tensor:
        """See :class:`Merge`."""
        start = self.base.get(name)
        if start is None or start.shape != tensors[0].shape:
            raise StateError(
                f"base, tensor {name!r}",
                expected=f"shape {list(tensors[0].shape)}, as the networks have",
                found="none" if start is None else str(list(start.shape)),
            )
        result = start.clone()
        for tensor in tensors:
            result.add_(tensor - start, alpha=self.scale)
        return result


def merge_states(states: Sequence[State], how: Merge) -> dict[str, Tensor]:
    """Merge networks of one architecture, a tensor at a time.

    Whole numbers are the first network's. Align the networks first
    (:func:`weightspace.align.align_weights`), or the mean of two good networks is a bad one.

    Args:
        states: their tensors.
        how: what is done.

    Raises:
        StateError: tensors differ in name or shape.
        ModelError: so many networks cannot be merged in this way.

    >>> one, other = {"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([3.0, 2.0])}
    >>> merge_states([one, other], Average())["w"]
    tensor([2., 2.])
    """
    how.check(len(states))
    shapes = [{name: tuple(tensor.shape) for name, tensor in state.items()} for state in states]
    for number, other in enumerate(shapes[1:], start=1):
        if other != shapes[0]:
            differing = sorted(set(shapes[0].items()) ^ set(other.items()))
            raise StateError(
                f"network {number}",
                expected="tensors of the first network's names and shapes",
                found=f"another {differing[0][0]!r} {list(differing[0][1])}",
                hint="Only networks of one architecture can be merged.",
            )
    return {
        name: how.tensors(name, [state[name] for state in states])
        if tensor.is_floating_point()
        else tensor.clone()
        for name, tensor in states[0].items()
    }


def repair_statistics(module: nn.Module, batches: Iterable[Tensor]) -> bool:
    """Estimate the running statistics of batch norms again, as merged networks need.

    Ainsworth et al. 2023, appendix; Jordan et al. 2023 ("REPAIR"): values of a mean of networks
    vary less than those of each, so that statistics of neither fit.

    Args:
        module: the merged network; its statistics are replaced.
        batches: inputs.

    Returns:
        Whether there were any.
    """
    norms = (nn.modules.batchnorm._BatchNorm,)
    if not any(isinstance(part, norms) for part in module.modules()):
        return False
    torch.optim.swa_utils.update_bn(batches, module)
    return True
