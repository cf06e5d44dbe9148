"""Fused passes over all edges, compiled for this machine where a compiler exists."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from weightspace.nn.edge_kernels import edge_kernels
from weightspace.nn.edge_passes import EdgePasses
from weightspace.nn.plain_passes import PlainPasses

logger = logging.getLogger(__name__)
_state = {"fusing": False}
_plain = PlainPasses()


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
    if not _state["fusing"] or states.dtype != torch.float32 or states.device.type != "cpu":
        return _plain
    return edge_kernels(states.shape[-1]) or _plain
