"""Fused passes over all edges or pairs, compiled for this machine where a compiler exists."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import torch
from torch import Tensor

from weightspace.nn.attention_kernels import attention_kernels
from weightspace.nn.attention_passes import AttentionInputs, AttentionPasses
from weightspace.nn.edge_kernels import edge_kernels
from weightspace.nn.edge_passes import EdgePasses
from weightspace.nn.pair_kernels import update_kernels
from weightspace.nn.plain_attention import PlainAttention
from weightspace.nn.plain_passes import PlainPasses
from weightspace.nn.plain_update import PlainUpdate
from weightspace.nn.update_passes import UpdateInputs, UpdateMaps, UpdatePasses

logger = logging.getLogger(__name__)
_state = {"fusing": False}
_plain, _plain_update, _plain_attention = PlainPasses(), PlainUpdate(), PlainAttention()


def fuse_kernels(wanted: bool = True) -> bool:
    """Use compiled passes in the layers from now on, or plain ones again.

    The first use for a width takes some seconds to compile; the result is kept on disk.
    Without a C++ compiler the layers stay as they are, which a line in the log says.

    Args:
        wanted: False goes back to plain passes.

    Returns:
        Whether passes are fused now.
    """
    _state["fusing"] = wanted and edge_kernels(32) is not None
    if wanted and not _state["fusing"]:
        logger.warning("no working C++ compiler: the layers run without fused passes")
    return _state["fusing"]


def edge_passes(states: Tensor) -> EdgePasses:
    """The passes for edge states like these: the compiled ones where they are in use and fit."""
    if not _fusing([states]):
        return _plain
    return edge_kernels(states.shape[-1]) or _plain


def update_passes(inputs: UpdateInputs, maps: UpdateMaps) -> UpdatePasses:
    """The same for the update of pairs."""
    if not _fusing([*inputs, *maps]):
        return _plain_update
    return update_kernels(inputs.pairs.shape[1], len(maps.pair)) or _plain_update


def attention_passes(inputs: AttentionInputs, heads: int) -> AttentionPasses:
    """The same for attention to pairs."""
    if not _fusing(inputs):
        return _plain_attention
    widths = inputs.pairs.shape[1], len(inputs.bias)
    return attention_kernels(*widths, heads) or _plain_attention


def _fusing(tensors: Iterable[Tensor]) -> bool:
    return _state["fusing"] and all(
        tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors
    )
