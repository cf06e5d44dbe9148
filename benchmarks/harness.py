"""What benchmark scripts share: timing against a reference, the machine, table and JSON.

Timings on shared machines are noisy, so a figure is a median, and a comparison takes turns
between the two sides within one process and reports their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

Results = Mapping[str, float | int | str]


def parser(description: str | None) -> argparse.ArgumentParser:
    """An argument parser with the option that every benchmark has."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    return result


def seconds(function: Callable[[], object], *, repeats: int = 7, warmup: int = 1) -> float:
    """The median duration of a call."""
    for _ in range(warmup):
        function()
    return statistics.median(_once(function) for _ in range(repeats))


def compare(
    candidate: Callable[[], object], reference: Callable[[], object], *, repeats: int = 7
) -> tuple[float, float]:
    """The median durations of two calls that take turns."""
    candidate()
    reference()
    pairs = [(_once(candidate), _once(reference)) for _ in range(repeats)]
    return statistics.median(c for c, _ in pairs), statistics.median(r for _, r in pairs)


def peak_mb() -> float:
    """The largest resident memory this process has had, in megabytes (10^6 bytes).

    Read from the process's own record where there is one: ``getrusage`` on Linux also
    counts the parent that started the process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    import resource  # noqa: PLC0415 (not on every system)

    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def machine() -> str:
    """The machine and the versions that the figures hold for."""
    parts = [
        _processor(),
        f"{os.cpu_count()} cores",
        f"{platform.system()} {platform.release()}",
        f"Python {platform.python_version()}",
        f"torch {torch.__version__} on {torch.get_num_threads()} threads",
    ]
    if torch.cuda.is_available():
        parts.insert(1, torch.cuda.get_device_name())
    return ", ".join(parts)


def report(title: str, results: Results, json_file: Path | None) -> None:
    """Print the figures as a table, and write them as JSON if a file is given."""
    table = Table(title=title, caption=machine(), title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in results.items():
        table.add_row(name, f"{value:,.4g}" if isinstance(value, float) else f"{value}")
    Console().print(table)
    if json_file is not None:
        data = {"benchmark": title, "machine": machine(), **results}
        json_file.write_text(json.dumps(data, indent=1) + "\n")


def _once(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
