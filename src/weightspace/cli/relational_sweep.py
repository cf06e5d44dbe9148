"""The command ``weightspace relational sweep``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weightspace.cli.engines import EngineName, make_engine
from weightspace.cli.modules import import_module
from weightspace.cli.output import say, show_table, write_json
from weightspace.errors import ModelError, require_between

if TYPE_CHECKING:
    from weightspace.train.sweeping import SweepNetwork, Wired

NETWORKS = ("mlp", "cnn")


def sweep(
    *,
    out: Path,
    graphs: tuple[str, ...] = ("published-52",),
    networks: tuple[str, ...] = ("mlp",),
    data: tuple[str, ...] = ("digits",),
    seeds: int = 3,
    epochs: int = 10,
    width: int = 0,
    rate: float = 0.1,
    batch: int = 128,
    decay: float = 5e-4,
    size: int = 0,
    train: int = 0,
    validation: int = 0,
    test: int = 0,
    controls: tuple[str, ...] = ("complete", "null"),
    controlled: int = 8,
    halving: bool = False,
    factor: int = 3,
    engine: EngineName = "local",
    workers: int = 0,
    device: str = "cpu",
    fastest: bool = False,
    json: Path | None = None,
) -> None:
    """Train networks wired by many graphs at equal cost, for `weightspace relational analyse`.

    Interrupted or killed, the same command goes on where it stopped; more graphs, seeds,
    networks or controls can be added to a table later. The table can be analysed meanwhile.

    Args:
        out: the table of runs, a Parquet file.
        graphs: published-52, published-48 or published-3942; plane:N or plane:N:NODES; or files
            of adjacency matrices (.npz, FILE.npz:NAME, .txt, .csv).
        networks: mlp, cnn, or package.module:name of a module that takes images.
        data: digits, mnist, fashion-mnist, cifar10-jpeg, cifar10-lossless, or .npz files.
        seeds: runs of everything.
        epochs: of a whole training.
        width: of the dense mlp's layers and the cnn's first; 0 for as many as graphs have nodes.
        rate: the learning rate at the beginning; it falls as a cosine.
        batch: images of an update.
        decay: of the weights.
        size: height and width that images are averaged down to; 0 leaves them.
        train: training images; 0 for all.
        validation: of the training images, for halving and choices; 0 for a tenth.
        test: test images; 0 for all.
        controls: complete, null, equal-width, equal-parameters, grouped.
        controlled: graphs with controls of their own, spread evenly over degrees.
        halving: give more epochs only to the graphs that are better after few.
        factor: of halving; one graph in so many goes on.
        engine: processes of this machine, or tasks of a Ray cluster (extra `ray`).
        workers: processes, or Ray tasks, at a time; 0 for one each core.
        device: where networks are trained, such as cuda.
        fastest: let layers measure how they are fastest; runs then repeat up to rounding only.
        json: also write what was done to this file.
    """
    from weightspace.train.sweeping import Sweep, Training, read_graphs, run_sweep, sweep_data
    from weightspace.train.sweeping import controls as make_controls
    from weightspace.train.sweeping.wired import wirings

    require_between("controlled graphs", controlled, 0, 1_000_000)
    wired = wirings([graph for source in graphs for graph in read_graphs(source)])
    chosen = [_network(name, width, wired) for name in networks]
    images = [
        sweep_data(name, size=size, train=train, validation=validation, test=test) for name in data
    ]
    training = Training(epochs, rate, batch, decay, device=device, fastest=fastest)
    summary = run_sweep(
        Sweep(
            [*wired, *make_controls(wired, controls, count=controlled)],
            chosen,
            images,
            training,
            seeds,
            factor if halving else 0,
        ),
        out,
        engine=make_engine(engine, workers),
    )
    show_table("runs", ["kind", "runs"], [[*pair] for pair in summary.runs.items()])
    if any(summary.stopped.values()):
        rows = [[name, count] for name, count in summary.stopped.items()]
        show_table("stopped by halving", ["network", "graphs"], rows)
    if summary.diverged:
        say(f"{summary.diverged} runs diverged: they have no error")
    say(f"{summary.new} new runs in {summary.seconds:.1f} s. Next: {_next(out)}")
    if json is not None:
        write_json(json, dataclasses.asdict(summary) | {"path": str(summary.path)})


def _network(name: str, width: int, wired: Sequence[Wired]) -> SweepNetwork:
    from weightspace.train.sweeping import CnnNetwork, MlpNetwork, ModuleNetwork

    width = width or max(own.graph.n for own in wired)
    if name == "mlp":
        return MlpNetwork(width)
    if name == "cnn":
        return CnnNetwork(width)
    if ":" in name:
        return ModuleNetwork(name.partition(":")[2], import_module(name))
    raise ModelError(
        "network", expected=f"{', '.join(NETWORKS)} or package.module:name", found=repr(name)
    )


def _next(out: Path) -> str:
    return f"weightspace relational analyse {out}"
