"""The command ``weightspace reproduce``."""

from __future__ import annotations

import itertools
import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from weightspace.cli.output import say, write_json

if TYPE_CHECKING:
    from weightspace.experiments import Experiment, Failure


def reproduce(
    name: Positional[str | None] = None,
    *,
    list_all: Annotated[bool, arg(name="list")] = False,
    preset: str = "cpu",
    method: tuple[str, ...] = (),
    seed: tuple[int, ...] = (),
    jobs: int = 2,
    out: Path = Path("experiments"),
    json: Path | None = None,
) -> None:
    """Run a published experiment again, or list all with `--list`.

    Interrupted, the same command goes on; finished jobs are not run again.

    Args:
        name: the experiment.
        list_all: show the experiments, their data, time and published values instead.
        preset: cpu (two cores, under two hours) or full (the paper's size, for a GPU).
        method: some methods only.
        seed: some seeds only.
        jobs: processes, each with one thread.
        out: a folder; work and results go into its folder NAME.
        json: also write what is shown to this file, as a list of name, task, data, published,
            ours, preset, seeds and command.
    """
    from weightspace.errors import ModelError
    from weightspace.experiments import EXPERIMENTS, find_experiment
    from weightspace.experiments import reproduce as run

    if list_all:
        sizes = [(kind(), size) for kind in EXPERIMENTS.values() for size in kind.presets]
        entries = [_entry(experiment, size, out) for experiment, size in sizes]
        _show_all(entries)
        failures: tuple[Failure, ...] = ()
    elif name is None:
        raise ModelError(
            "experiment",
            expected=f"one of {', '.join(EXPERIMENTS)}",
            found="none",
            hint="`weightspace reproduce --list` says what each is.",
        )
    else:
        experiment = find_experiment(name)
        done = run(
            experiment,
            preset,
            out / name,
            methods=method or None,
            seeds=seed or None,
            jobs=jobs,
        )
        say(done.results.to_markdown())
        entries = [_entry(experiment, preset, out)]
        failures = done.failures
    if json is not None:
        write_json(json, entries)
    for failure in failures:
        say(f"failed: {failure.method}, seed {failure.seed}: {failure.message}")
    if failures:
        sys.exit(2)


def _entry(experiment: Experiment, preset: str, out: Path) -> dict[str, Any]:
    """What is published and what was found, of one experiment at one size."""
    chosen = experiment.preset(preset)
    kept = out / experiment.name / "results" / f"{preset}.json"
    found = json_format.loads(kept.read_text())["methods"] if kept.is_file() else None
    return {
        "name": experiment.name,
        "task": experiment.task,
        "data": chosen.data,
        "time": chosen.time,
        "metric": experiment.metric,
        "published": dict(experiment.published),
        "ours": found and {row["method"]: row[experiment.metric] for row in found},
        "preset": preset,
        "seeds": list(chosen.seeds),
        "command": f"weightspace reproduce {experiment.name} --preset {preset}",
    }


def _show_all(entries: list[dict[str, Any]]) -> None:
    for name, sizes in itertools.groupby(entries, key=lambda entry: str(entry["name"])):
        presets = list(sizes)
        say(f"\n{name}: {presets[0]['task']}")
        say(f"  published, {presets[0]['metric']}: {_listed(presets[0]['published'])}")
        for entry in presets:
            say(f"  --preset {entry['preset']}: {entry['data']} Takes {entry['time']}.")
            if entry["ours"]:
                means = {key: f"{found['mean']:.4g}" for key, found in entry["ours"].items()}
                say(f"    ours: {_listed(means)}")


def _listed(values: dict[str, str]) -> str:
    """Methods with their values, in a line."""
    return ", ".join(f"{method} {value}" for method, value in values.items()) or "none"
