"""Fusing the large elementwise passes with ``torch.compile``, where a compiler exists.

Only the passes over all edges are compiled, one function at a time: compiling a whole model
makes the CPU backend fuse reductions along different dimensions into slow loops.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch

logger = logging.getLogger(__name__)
_state = {"fusing": False}


def fuse_kernels(wanted: bool = True) -> bool:
    """Use compiled passes in the layers from now on, or plain ones again.

    The first use of each pass takes some seconds to compile. Without a compiler the layers
    stay as they are, which a line in the log says.

    Args:
        wanted: False goes back to plain passes.

    Returns:
        Whether passes are fused now.
    """
    _state["fusing"] = wanted and _compiler_works()
    if wanted and not _state["fusing"]:
        logger.warning("no working compiler: the layers run without fused passes")
    return _state["fusing"]


def fusing() -> bool:
    """Whether compiled passes are in use."""
    return _state["fusing"]


@functools.cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The compiled form of a function; compiled once for each set of shapes."""
    result: Callable[..., Any] = torch.compile(function)
    return result


@functools.cache
def _compiler_works() -> bool:
    try:
        torch.compile(_probe)(torch.zeros(64))
    except Exception as error:
        logger.debug("torch.compile failed: %s", error)
        return False
    return True


def _probe(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1
