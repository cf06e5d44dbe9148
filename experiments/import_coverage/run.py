"""Import every architecture of a library, check it, and write the table.

    python run.py transformers [--only bert vit] [--jobs 2] [--again import check]

Every network runs in a process of its own with a time and a memory limit. Rows are kept in
``results/LIST.jsonl`` as they come; networks that have a row are passed over next time.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

_PATIENCE = 8


def main() -> None:
    """Parse the command line and run one list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", choices=["transformers", "torchvision", "timm"])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", nargs="*", default=[], help="stages to run again")
    parser.add_argument("--timeout", type=float, default=150)
    parser.add_argument("--memory-gb", type=float, default=8)
    options = parser.parse_args()
    names, build = load(options.list)
    rows = read_rows(options.list)
    todo = [
        n
        for n in (options.only or names)
        if options.only or n not in rows or rows[n]["stage"] in options.again
    ]
    # A fixed shuffle: an unfinished run is a fair sample of the list.
    random.Random(0).shuffle(todo)
    warm_up(options.list)
    print(f"{len(todo)} of {len(names)} networks to run", flush=True)
    for name, row in in_processes(todo, build, options):
        keep_row(options.list, name, row)
        print(
            f"{name}: {row['stage']} {row.get('max_relative_change', '')} "
            f"{row.get('error', '')[:200]} ({row.get('seconds')} s)",
            flush=True,
        )
        if options.only and row["stage"] != "ok":
            print(json.dumps(row, indent=1), flush=True)
    from table import write_table

    rows = read_rows(options.list)
    write_table(options.list, {n: rows[n] for n in names if n in rows}, len(names))


def warm_up(which: str) -> None:
    """Load what every child needs, so that it need not."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    import trial

    import weightspace

    assert trial
    weightspace.from_module(nn.Linear(2, 2), torch.zeros(1, 2))
    if which == "transformers":
        import transformers
        from transformers import PreTrainedModel

        assert transformers
        assert PreTrainedModel


def load(which: str) -> tuple[list[str], Any]:
    """The names of a list, and what builds one."""
    if which == "transformers":
        import hugging

        return hugging.model_types(), hugging.build
    import vision

    return vision.names(which), lambda name: vision.build(which, name)


def in_processes(todo: list[str], build: Any, options: argparse.Namespace) -> Any:
    """Run networks in child processes, a few at a time."""
    context = multiprocessing.get_context("fork")
    waiting, running = list(todo), {}
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            reader, writer = context.Pipe(duplex=False)
            limits = (options.memory_gb, options.timeout)
            child = context.Process(target=work, args=(name, build, writer, limits))
            child.start()
            writer.close()
            running[name] = (child, reader, time.monotonic())
        for name, (child, reader, started) in list(running.items()):
            row = outcome(child, reader, time.monotonic() - started, options.timeout)
            if row is not None:
                del running[name]
                yield name, row
        time.sleep(0.05)


def outcome(child: Any, reader: Connection, seconds: float, limit: float) -> dict[str, Any] | None:
    """A finished child's row; None while it runs."""
    try:
        if reader.poll():
            row = reader.recv()
            child.join()
            return row
    except EOFError:
        child.join()
        if child.exitcode == -signal.SIGXCPU:
            return {"stage": "timeout", "error": f"over {limit:g} seconds"}
        return {"stage": "died", "error": f"the process ended with code {child.exitcode}"}
    # Processor time is what is limited; a process that only waits is ended, too.
    if seconds > _PATIENCE * limit:
        child.kill()
        child.join()
        return {"stage": "timeout", "error": f"over {limit:g} seconds"}
    return None


def work(name: str, build: Any, writer: Connection, limits: tuple[float, float]) -> None:
    """The child: one network, within limits of memory and processor time."""
    memory, seconds = int(limits[0] * 2**30), int(limits[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    import logging
    import warnings

    import torch

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    from trial import try_network

    writer.send(try_network(lambda: build(name)))
    writer.close()


def read_rows(which: str) -> dict[str, dict[str, Any]]:
    """The rows of earlier runs."""
    path = HERE / "results" / f"{which}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep_row(which: str, name: str, row: dict[str, Any]) -> None:
    """Add a row to those on disk, which other runs may have added to."""
    path = HERE / "results" / f"{which}.json"
    path.parent.mkdir(exist_ok=True)
    # Held until the handle is closed.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        rows = read_rows(which) | {name: row}
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(dict(sorted(rows.items())), indent=1) + "\n")
        draft.replace(path)
    finally:
        os.close(folder)


if __name__ == "__main__":
    main()
