"""Exporting networks in which sizes depend on numbers, such as how many boxes are kept.

``torch.export`` refuses to compare a size that it does not know. Here the example inputs
decide: the export carries their numbers along, and looks at them whenever such a size is
compared. A branch on anything but a size is still refused, because which branch is taken
says which function the network is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

Exporting = Callable[[], ExportedProgram]


def deciding_sizes(exporting: Exporting) -> ExportedProgram:
    """Export, and let the example inputs decide sizes if it cannot be done without.

    Raises:
        GuardOnDataDependentSymNode: something else than a size decides a branch.
    """
    try:
        return exporting()
    except GuardOnDataDependentSymNode as error:
        refused = error
    try:
        with _numbers_carried_along():
            return exporting()
    except _OtherDecisionError:
        raise refused from None


class _OtherDecisionError(Exception):
    """A branch depends on a number that is no size."""


@contextlib.contextmanager
def _numbers_carried_along() -> Iterator[None]:
    """Let fake tensors have real values, and look at every decision that they make."""

    def look(self: ShapeEnv, expression: Any, result: Any) -> None:
        del result
        if not expression.free_symbols <= self.size_like:
            raise _OtherDecisionError

    def copy(target: Tensor, source: Tensor | None) -> None:
        # torch copies the values of plain tensors only, so parameters would be unset memory.
        if source is not None and type(source) in (Tensor, nn.Parameter):
            target.copy_(source.detach())

    def accept(mode: object, function: object, *values: Any) -> Any:
        """Some results' types are described wrongly by torch; only shapes matter here."""
        del mode, function
        *_, fake, _ = values
        return fake

    with (
        torch._functorch.config.patch(fake_tensor_propagate_real_tensors=True),
        mock.patch.object(FakeTensorMode, "_maybe_infer_fake_kernel_from_pytree_out", accept),
        mock.patch.object(ShapeEnv, "_log_real_tensor_propagation", look),
        mock.patch.object(torch._subclasses.meta_utils, "_safe_copy", copy),
    ):
        yield
