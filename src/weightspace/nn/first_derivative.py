"""Backward passes that are written by hand: they have first derivatives only, and say so."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.autograd.function import once_differentiable

from weightspace.errors import StateError

R = TypeVar("R")


def first_derivative(backward: Callable[..., R]) -> Callable[..., R]:
    """Declare that a backward pass cannot be differentiated again.

    Torch's own ``once_differentiable`` refuses only where a second derivative comes through the
    incoming gradient; asked for the gradient of some tensors alone, it leaves that part of the
    second derivative out in silence. This refuses whenever one could be asked for.

    Args:
        backward: the static method of an autograd function.
    """
    once = once_differentiable(backward)

    @functools.wraps(backward)
    def checked(ctx: Any, *grads: Any) -> R:
        if torch.is_grad_enabled():  # only where create_graph=True
            raise StateError(
                "backward pass",
                expected="first derivatives",
                found="create_graph=True, for derivatives of derivatives",
                hint="Layers over all connections have none; the flat MLPs, stat-nn, probe-only "
                "and inr2vec can be differentiated twice.",
            )
        result: R = once(ctx, *grads)
        return result

    return checked
