"""The compiled passes over the edges of a batch, see ``edge_kernels.cpp``."""

from __future__ import annotations

import ctypes
import functools
import weakref
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from weightspace.nn.arrangement import Arrangement, Rows, index_of
from weightspace.nn.compiling import compiled_library
from weightspace.nn.edge_passes import EdgeGrads, EdgeInputs, EdgePasses, Four
from weightspace.nn.library_calls import Pointers, call
from weightspace.nn.pieces import Direction, bundled_directions

SOURCE = Path(__file__).with_name("edge_kernels.cpp")
WIDEST = 128
"""Channels of a state, at the most, that are unrolled over registers."""
WORTH_THREADS = 2048
"""Edges of a batch from which on starting threads takes less time than it spares."""


class EdgeKernels(EdgePasses):
    """The passes for states of one width.

    Args:
        library: compiled for this width.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def film(self, given: EdgeInputs) -> Four:
        """See :class:`EdgePasses`."""
        found = given.received(), given.received(), given.received(), given.received()
        self._call("film_forward", given, Pointers.of(*found))
        return found

    def film_backward(self, given: EdgeInputs, grads: Four) -> EdgeGrads:
        """See :class:`EdgePasses`."""
        own = [grad.contiguous() for grad in grads]
        return self._backward("film_backward", given, Pointers.of(*own))

    def silu(self, given: EdgeInputs) -> Tensor:
        """See :class:`EdgePasses`."""
        result = torch.empty_like(given.edges, memory_format=torch.contiguous_format)
        self._call("silu_forward", given, result)
        return result

    def silu_backward(self, given: EdgeInputs, grad: Tensor) -> EdgeGrads:
        """See :class:`EdgePasses`."""
        return self._backward("silu_backward", given, grad.contiguous())

    def _backward(self, name: str, given: EdgeInputs, arriving: Tensor | Pointers) -> EdgeGrads:
        shares = _ways(given.arrangement).threads
        found = EdgeGrads(
            torch.empty_like(given.edges, memory_format=torch.contiguous_format),
            given.weight.new_zeros(shares, *given.weight.shape),
            given.bias.new_zeros(shares, *given.bias.shape),
            given.received(),
            given.received(),
        )
        self._call(name, given, arriving, Pointers.of(*found))
        return found._replace(weight=found.weight.sum(0), bias=found.bias.sum(0))

    def _call(self, name: str, given: EdgeInputs, *rest: Tensor | Pointers) -> None:
        """Call a function; tensors are passed as pointers, and live until it returns."""
        tensors = [
            given.edges.contiguous(),
            given.weight.transpose(1, 2).contiguous(),
            given.weight.contiguous(),
            given.bias.contiguous(),
            given.receivers.contiguous(),
            given.senders.contiguous(),
        ]
        inputs = _Inputs.of(_ways(given.arrangement), tensors)
        call(self._library, name, inputs, *rest)


@functools.cache
def edge_kernels(width: int) -> EdgeKernels | None:
    """The passes for states of a width; None where it does not fit or nothing compiles."""
    if width % 16 or WIDEST % width:
        return None
    library = compiled_library(SOURCE, WIDTH=width)
    return None if library is None else EdgeKernels(library)


class _Way(ctypes.Structure):
    """A direction's shape, and where its ends lie."""

    _fields_ = [
        *(
            (name, ctypes.c_long)
            for name in ("lead", "splits", "receivers", "senders", "receiver_step", "sender_step")
        ),
        ("direction", ctypes.c_long),
        ("start", ctypes.c_long),
        *((name, ctypes.c_void_p) for name in ("receiver", "sender", "received", "sent")),
    ]


class _End(NamedTuple):
    """The neurons at one end of a run.

    Args:
        neurons: of each block.
        step: from one's edges to the next's.
        rows: theirs in the node buffer.
        received: theirs in the buffer of received values.
    """

    neurons: int
    step: int
    rows: Rows
    received: Rows


class _Ways:
    """All directions of an arrangement, shared out among so many threads."""

    def __init__(self, arrangement: Arrangement, threads: int) -> None:
        self.asked, self.edge_count = threads, arrangement.edge_count
        self.threads = threads if self.edge_count >= WORTH_THREADS else 1
        self._rows: list[Tensor] = []  # what pointers point to
        ways = [self._way(way) for way in bundled_directions(arrangement)]
        self.structures = (_Way * len(ways))(*ways)

    def _way(self, way: Direction) -> _Way:
        run = way.run
        target = _End(run.targets, run.sources, run.target, run.at_target)
        source = _End(run.sources, 1, run.source, run.at_source)
        receiver, sender = (source, target) if way.index else (target, source)
        return _Way(
            run.lead,
            self._splits(run.targets * run.sources, receiver.neurons),
            receiver.neurons,
            sender.neurons,
            receiver.step,
            sender.step,
            way.index,
            run.edges.start,
            *map(self._kept, (receiver.rows, sender.rows, receiver.received, sender.received)),
        )

    def _splits(self, edges: int, receivers: int) -> int:
        """Into how many parts a block is cut, so that none is more than a thread's share."""
        return max(1, min(receivers, -(-edges * self.threads // self.edge_count)))

    def _kept(self, rows: Rows) -> int:
        self._rows.append(index_of(rows).to("cpu", torch.int64).contiguous())
        return self._rows[-1].data_ptr()


_known: weakref.WeakKeyDictionary[Arrangement, _Ways] = weakref.WeakKeyDictionary()


def _ways(arrangement: Arrangement) -> _Ways:
    """The directions of an arrangement for as many threads as there are; kept with it."""
    threads = torch.get_num_threads()
    found = _known.get(arrangement)
    if found is None or found.asked != threads:
        found = _known[arrangement] = _Ways(arrangement, threads)
    return found


class _Inputs(ctypes.Structure):
    """What every pass is given."""

    _fields_ = [
        ("ways", ctypes.c_void_p),
        *((name, ctypes.c_long) for name in ("count", "edge_count", "threads")),
        *(
            (name, ctypes.c_void_p)
            for name in ("edges", "map", "map_back", "bias", "receivers", "senders")
        ),
    ]

    @classmethod
    def of(cls, ways: _Ways, tensors: list[Tensor]) -> _Inputs:
        return cls(
            ctypes.addressof(ways.structures),
            len(ways.structures),
            ways.edge_count,
            ways.threads,
            *(tensor.data_ptr() for tensor in tensors),
        )
