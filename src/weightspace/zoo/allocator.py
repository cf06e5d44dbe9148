"""Keeping freed memory in the process, where the C library allows it."""

from __future__ import annotations

import ctypes
import logging
import os
import platform

logger = logging.getLogger(__name__)

SWITCH = "WEIGHTSPACE_KEEP_MEMORY"
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_LARGEST, _PAD = 2**31 - 1, 64 << 20


def keep_freed_memory() -> bool:
    """Ask glibc to keep freed memory instead of returning it to the system.

    Training on a CPU allocates and frees the same large tensors in every step. glibc returns
    each to the system, and the next step pays for fetching every page again: a third of
    NG-GNN's step. Memory use does not peak higher, but does not fall between steps either.
    Set the environment variable ``WEIGHTSPACE_KEEP_MEMORY=0`` to leave the allocator alone.

    Returns:
        Whether the allocator was set; False where there is no glibc, or switched off.
    """
    if os.environ.get(SWITCH, "1") == "0" or platform.libc_ver()[0] != "glibc":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_THRESHOLD, _LARGEST), (_M_TRIM_THRESHOLD, _LARGEST), (_M_TOP_PAD, _PAD))
    done = all(mallopt(option, value) == 1 for option, value in settings)
    logger.debug("allocator keeps freed memory: %s", done)
    return done
