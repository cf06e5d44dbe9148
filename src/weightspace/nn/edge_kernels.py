"""The compiled passes over the edges of one direction, see ``edge_kernels.cpp``."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from weightspace.nn.compiling import compiled_library
from weightspace.nn.edge_passes import EdgePasses, Four, LiftedEdges
from weightspace.nn.pieces import Direction, Ends

SOURCE = Path(__file__).with_name("edge_kernels.cpp")
WIDEST = 128
"""Channels of a state, at the most, that are unrolled over registers."""
WORTH_THREADS = 2048
"""Edges of a run from which on starting threads takes less time than it spares."""


class _Shape(ctypes.Structure):
    """The shape of a direction, and how threads share it."""

    _fields_ = [
        (name, ctypes.c_long)
        for name in (
            "lead",
            "splits",
            "receivers",
            "senders",
            "receiver_step",
            "sender_step",
            "threads",
        )
    ]

    @classmethod
    def of(cls, way: Direction) -> _Shape:
        run, threads = way.run, torch.get_num_threads()
        if run.lead * run.targets * run.sources < WORTH_THREADS:
            threads = 1
        if way.index:
            receivers, senders, steps = run.sources, run.targets, (1, run.sources)
        else:
            receivers, senders, steps = run.targets, run.sources, (run.sources, 1)
        # A single block is split where threads would be idle.
        splits = max(1, min(receivers, -(-threads // run.lead)))
        return cls(run.lead, splits, receivers, senders, *steps, threads)


class _Aggregates(ctypes.Structure):
    """Pointers to the four aggregates, or to their gradients."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("total", "squares", "least", "most")]

    @classmethod
    def of(cls, *four: Tensor) -> _Aggregates:
        return cls(*(tensor.data_ptr() for tensor in four))


class EdgeKernels(EdgePasses):
    """The passes for states of one width.

    Args:
        library: compiled for this width.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def film(self, lifted: LiftedEdges) -> Four:
        """See :class:`EdgePasses`."""
        total, squares, least, most = (torch.empty_like(lifted.ends.of_receivers) for _ in range(4))
        self._call("film_forward", lifted, [], _Aggregates.of(total, squares, least, most))
        return total, squares, least, most

    def film_backward(
        self, lifted: LiftedEdges, grads: list[Tensor], d_edges: Tensor
    ) -> tuple[Tensor, Tensor, Ends]:
        """See :class:`EdgePasses`."""
        weight, shape = lifted.weight.contiguous(), _Shape.of(lifted.way)
        given = [grad.contiguous() for grad in grads]
        d_weight = weight.new_zeros(shape.threads, *weight.shape)
        d_bias = weight.new_zeros(shape.threads, weight.shape[0])
        d_ends = _Room.of(lifted.ends, shape)
        written = (d_edges, d_weight, d_bias, *d_ends)
        self._call("film_backward", lifted, [weight], _Aggregates.of(*given), *written)
        return d_weight.sum(0), d_bias.sum(0), d_ends.ends(lifted.way)

    def silu(self, lifted: LiftedEdges, result: Tensor) -> None:
        """See :class:`EdgePasses`."""
        self._call("silu_forward", lifted, [], result)

    def silu_backward(
        self, lifted: LiftedEdges, grad: Tensor, d_edges: Tensor
    ) -> tuple[Tensor, Ends]:
        """See :class:`EdgePasses`."""
        weight, shape = lifted.weight.contiguous(), _Shape.of(lifted.way)
        d_weight = weight.new_zeros(shape.threads, *weight.shape)
        d_ends = _Room.of(lifted.ends, shape)
        written = (d_edges, d_weight, *d_ends)
        self._call("silu_backward", lifted, [weight], grad.contiguous(), *written)
        return d_weight.sum(0), d_ends.ends(lifted.way)

    def _call(
        self,
        name: str,
        lifted: LiftedEdges,
        maps: list[Tensor],
        *rest: Tensor | _Aggregates,
    ) -> None:
        """Call a function; tensors are passed as pointers, and live until it returns."""
        ends = lifted.ends
        tensors = [
            lifted.edges.contiguous(),
            lifted.weight.T.contiguous(),
            *maps,
            lifted.bias.contiguous(),
            ends.of_receivers.contiguous(),
            ends.of_senders.contiguous(),
        ]
        passed = [
            _pointer(each) if isinstance(each, Tensor) else ctypes.byref(each)
            for each in (*tensors, *rest)
        ]
        self._library[name](ctypes.byref(_Shape.of(lifted.way)), *passed)


class _Room(NamedTuple):
    """Zeros for the gradients of a direction's ends; senders have theirs of every unit."""

    receivers: Tensor
    senders: Tensor

    @classmethod
    def of(cls, ends: Ends, shape: _Shape) -> _Room:
        receivers, senders = ends.of_receivers, ends.of_senders
        return cls(
            receivers.new_zeros(receivers.shape),
            senders.new_zeros(shape.lead, shape.splits, *senders.shape[1:]),
        )

    def ends(self, way: Direction) -> Ends:
        """The gradients as ends of the direction."""
        split = self.senders.shape[1] > 1
        senders = self.senders.sum(1) if split else self.senders.squeeze(1)
        return Ends(self.receivers.unsqueeze(way.over), senders.unsqueeze(3 - way.over))


@functools.cache
def edge_kernels(width: int) -> EdgeKernels | None:
    """The passes for states of a width; None where it does not fit or nothing compiles."""
    if width % 16 or WIDEST % width:
        return None
    library = compiled_library(SOURCE, WIDTH=width)
    return None if library is None else EdgeKernels(library)


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    assert tensor.is_contiguous()
    return ctypes.c_void_p(tensor.data_ptr())
