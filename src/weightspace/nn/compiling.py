"""Compiling a C++ file of the package for this machine, once."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

logger = logging.getLogger(__name__)

FLAGS = ("-O3", "-march=native", "-mprefer-vector-width=512", "-std=c++17", "-fopenmp", "-fPIC")
RELAXED = ("-fno-math-errno", "-fno-trapping-math")


@functools.cache
def compiled_library(source: Path, **constants: int) -> ctypes.CDLL | None:
    """Compile a file with constants defined and load it; None without a working compiler.

    The result is kept in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``) by a
    hash of the file, the headers beside it, constants, compiler and processor, and loaded from
    there the next time.

    Args:
        source: the C++ file; its functions are ``extern "C"``.
        constants: preprocessor constants.
    """
    compiler = shutil.which(os.environ.get("CXX") or "g++")
    if compiler is None:
        logger.debug("no C++ compiler found")
        return None
    try:
        return ctypes.CDLL(str(_built(source, compiler, constants)))
    except (OSError, subprocess.SubprocessError) as error:
        logger.debug("%s cannot be compiled: %s", source.name, error)
        return None


def _built(source: Path, compiler: str, constants: dict[str, int]) -> Path:
    """The compiled library's path; compiled if it is not there."""
    defined = [f"-D{name}={value}" for name, value in sorted(constants.items())]
    command = [compiler, *FLAGS, *RELAXED, *defined, "-shared", str(source)]
    read = [source, *sorted(source.parent.glob("*.h"))]
    texts = [path.read_text() for path in read]
    about = [*texts, *command, _version(compiler), _processor()]
    digest = hashlib.sha256("\n".join(about).encode()).hexdigest()[:20]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weightspace"
    kept = folder / f"{source.stem}-{digest}.so"
    if not kept.is_file():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=folder) as room:
            fresh = Path(room) / kept.name
            subprocess.run(
                [*command, "-o", str(fresh)], check=True, capture_output=True, timeout=120
            )
            fresh.replace(kept)
    return kept


def _version(compiler: str) -> str:
    done = subprocess.run(
        [compiler, "--version"], check=True, capture_output=True, text=True, timeout=20
    )
    return done.stdout


def _processor() -> str:
    """What the processor can do: a library for another one might not run."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
