"""Ranges of a run's lead."""

from __future__ import annotations

from torch import Tensor


def at_lead(values: Tensor, lead: slice) -> Tensor:
    """A range of the first dimension; the tensor itself if that is all of it.

    The gradient of a slice is written into a buffer of zeros as large as what it is cut from,
    which batches of one spec, whose ranges are whole runs, need not pay for.

    >>> import torch
    >>> values = torch.zeros(4, 2)
    >>> at_lead(values, slice(0, 4)) is values
    True
    """
    return values if lead == slice(0, len(values)) else values[lead]
