"""The compiled passes of the update of pairs, see ``pair_kernels.cpp``."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from weightspace.nn.compiling import compiled_library
from weightspace.nn.grid_shape import WIDTHS, GridShape
from weightspace.nn.keeping import Kept
from weightspace.nn.library_calls import Pointers, call
from weightspace.nn.pair_layout import Grid, add_rows
from weightspace.nn.update_passes import UpdateInputs, UpdateMaps, UpdatePasses, UpdateSetting

SOURCE = Path(__file__).with_name("pair_kernels.cpp")


class _Residual(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("second", "second_t", "bias", "norm", "norm_bias")),
        ("kept", ctypes.c_void_p),
        ("scale", ctypes.c_float),
        ("eps", ctypes.c_float),
    ]


class _Maps(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("pair", "pair_t", "first", "first_t", "first_bias")),
        ("one", _Residual),
        ("two", _Residual),
    ]


class _Given(NamedTuple):
    """Tensors as the library takes them, which live as long as it is called.

    Args:
        inputs: contiguous.
        maps: contiguous.
        transposed: the matrices ``pair``, ``out``, ``first`` and ``second``.
        setting: of the update.
    """

    inputs: UpdateInputs
    maps: UpdateMaps
    transposed: list[Tensor]
    setting: UpdateSetting

    @classmethod
    def of(cls, setting: UpdateSetting, inputs: UpdateInputs, maps: UpdateMaps) -> _Given:
        matrices = maps.pair, maps.out, maps.first, maps.second
        return cls(
            UpdateInputs(*(tensor.contiguous() for tensor in inputs)),
            UpdateMaps(*(tensor.contiguous() for tensor in maps)),
            [matrix.T.contiguous() for matrix in matrices],
            setting,
        )

    @property
    def structure(self) -> _Maps:
        """Pointers to the maps."""
        maps, (pair, out, first, second) = self.maps, self.transposed
        (kept, last_kept), (eps, last_eps) = self.setting.kept, self.setting.eps
        one = _residual(out, maps[1:5], kept, eps)
        two = _residual(second, maps[6:10], last_kept, last_eps)
        tensors = maps.pair, pair, maps.first, first, maps.first_bias
        return _Maps(*(tensor.data_ptr() for tensor in tensors), one, two)


class UpdateKernels(UpdatePasses):
    """The passes for states and hidden layers of one width each.

    Args:
        library: compiled for these widths.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def forward(
        self, setting: UpdateSetting, inputs: UpdateInputs, maps: UpdateMaps
    ) -> tuple[Tensor, Tensor]:
        """See :class:`UpdatePasses`; keeps nothing."""
        given = _Given.of(setting, inputs, maps)
        result = torch.empty_like(given.inputs.pairs)
        for grid in setting.layout.grids:
            self._call("update_forward", given, grid, result)
        return result, result.new_empty(0)

    def backward(
        self,
        setting: UpdateSetting,
        inputs: UpdateInputs,
        maps: UpdateMaps,
        *,
        stored: Tensor,
        grad: Tensor,
    ) -> tuple[UpdateInputs, UpdateMaps]:
        """See :class:`UpdatePasses`."""
        given, grad = _Given.of(setting, inputs, maps), grad.contiguous()
        pairs, receivers, senders = given.inputs
        # every pair has one reverse, so each row of both is written once
        d_pairs, d_reverse = torch.empty_like(pairs), torch.empty_like(pairs)
        d_receivers, d_senders = torch.zeros_like(receivers), torch.zeros_like(senders)
        sizes = [tensor.numel() for tensor in maps]
        sums = pairs.new_zeros(torch.get_num_threads(), sum(sizes))
        for grid in setting.layout.grids:
            d_receiver, d_sender = GridShape.of(setting.layout, grid).sums(grid, receivers)
            added = Pointers.of(d_receiver, d_sender, sums)
            self._call("update_backward", given, grid, grad, added, d_pairs, d_reverse)
            add_rows(d_receivers, grid.receiver, d_receiver)
            add_rows(d_senders, grid.sender, d_sender.sum(1).flatten(0, 1))
        parts = zip(torch.split(sums.sum(0), sizes), maps, strict=True)
        d_maps = UpdateMaps(*(part.view(like.shape) for part, like in parts))
        return UpdateInputs(d_pairs.add_(d_reverse), d_receivers, d_senders), d_maps

    def _call(self, name: str, given: _Given, grid: Grid, *rest: Tensor | Pointers) -> None:
        """Call a function on a grid."""
        inputs, shape = given.inputs, GridShape.of(given.setting.layout, grid)
        receiver, sender = grid.at_receivers(inputs.receivers), grid.at_senders(inputs.senders)
        ends = Pointers.of(receiver, sender)
        call(self._library, name, shape, given.structure, ends, inputs.pairs, *rest)


@functools.cache
def update_kernels(pairs: int, hidden: int) -> UpdateKernels | None:
    """The passes for channels of states and hidden layers; None where nothing fits or compiles."""
    if pairs not in WIDTHS or hidden not in WIDTHS:
        return None
    library = compiled_library(SOURCE, PAIRS=pairs, HIDDEN=hidden)
    return None if library is None else UpdateKernels(library)


def _residual(
    transposed: Tensor, maps: tuple[Tensor, ...], kept: Kept | None, eps: float
) -> _Residual:
    second, bias, norm, norm_bias = (tensor.data_ptr() for tensor in maps)
    mask = (None, 1.0) if kept is None else (kept.mask.data_ptr(), kept.scale)
    return _Residual(second, transposed.data_ptr(), bias, norm, norm_bias, *mask, eps)
