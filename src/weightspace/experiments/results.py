"""The table of an experiment: means and deviations over seeds, beside the published values."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weightspace.experiments.experiment import Experiment, Row


@dataclass(frozen=True)
class MethodResult:
    """What one method measured, over seeds.

    Args:
        method: its name.
        rows: one for each seed that is done.
        metric: the key by which methods are compared.
    """

    method: str
    rows: tuple[Row, ...]
    metric: str

    @property
    def mean(self) -> float:
        """Of the metric."""
        return self.summary(self.metric)[0]

    def numbers(self) -> list[str]:
        """The numbers that every row has."""
        first = self.rows[0]
        return [
            key
            for key, value in first.items()
            if isinstance(value, (int, float)) and all(key in row for row in self.rows)
        ]

    def summary(self, key: str) -> tuple[float, float | None]:
        """Mean and sample deviation of a number; no deviation with one seed."""
        values = [float(row[key]) for row in self.rows]
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return statistics.mean(values), deviation


@dataclass(frozen=True)
class Results:
    """What is done of an experiment at one preset.

    Args:
        experiment: whose jobs they are.
        preset: the name of the preset.
        methods: best first.
        command: makes it again.
        machine: where it was run.
    """

    experiment: Experiment
    preset: str
    methods: tuple[MethodResult, ...]
    command: str
    machine: str

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        preset: str,
        rows: Mapping[str, Sequence[Row]],
        *,
        command: str,
        machine: str,
    ) -> Results:
        """Order what the jobs measured by the experiment's metric."""
        found = [
            MethodResult(method, tuple(own), experiment.metric)
            for method, own in rows.items()
            if own
        ]
        found.sort(key=lambda result: result.mean, reverse=experiment.higher_is_better)
        return cls(experiment, preset, tuple(found), command, machine)

    def to_dict(self) -> dict[str, Any]:
        """Every number as plain data."""
        chosen = self.experiment.preset(self.preset)
        return {
            "name": self.experiment.name,
            "task": self.experiment.task,
            "paper": self.experiment.paper,
            "metric": self.experiment.metric,
            "data": chosen.data,
            "preset": self.preset,
            "settings": dict(chosen.settings),
            "command": self.command,
            "machine": self.machine,
            "methods": [self._method(result) for result in self.methods],
        }

    def to_markdown(self) -> str:
        """The table, with the command that makes it."""
        experiment = self.experiment
        extra = self._extra_keys()
        head = ["method", _head(experiment.metric, experiment.unit), *extra, "published", "seeds"]
        rows = [
            [
                result.method,
                _shown(*result.summary(experiment.metric)),
                *(_shown(*result.summary(key)) if key in result.numbers() else "" for key in extra),
                experiment.published.get(result.method, ""),
                str(len(result.rows)),
            ]
            for result in self.methods
        ]
        chosen = experiment.preset(self.preset)
        lines = [
            f"# {experiment.name}, preset {self.preset}",
            "",
            f"{experiment.task} {chosen.data}",
            "",
            *_table(head, rows),
            "",
            f"Mean and deviation over seeds, on test networks. Published: {experiment.paper}.",
            f"`{self.command}`; {self.machine}.",
        ]
        return "\n".join(lines) + "\n"

    def _method(self, result: MethodResult) -> dict[str, Any]:
        summaries = {key: result.summary(key) for key in result.numbers()}
        return {
            "method": result.method,
            "published": self.experiment.published.get(result.method),
            "seeds": len(result.rows),
            **{key: {"mean": mean, "deviation": dev} for key, (mean, dev) in summaries.items()},
            "rows": list(result.rows),
        }

    def _extra_keys(self) -> list[str]:
        """Further numbers, in the order in which jobs name them."""
        keys: dict[str, None] = {}
        for result in self.methods:
            keys.update(dict.fromkeys(result.numbers()))
        return [key for key in keys if key not in {self.experiment.metric, "seed"}]


def _head(metric: str, unit: str) -> str:
    return f"{metric}, {unit}" if unit else metric


def _shown(mean: float, deviation: float | None) -> str:
    """A number as people write it: a deviation with two digits decides the places.

    >>> _shown(98.4567, 0.3), _shown(0.00123, 0.0001), _shown(120000.0, None)
    ('98.46 ± 0.30', '0.00123 ± 0.00010', '120,000')
    >>> _shown(7.0, None), _shown(0.0, 0.0)
    ('7', '0 ± 0')
    """
    if mean.is_integer() and not deviation:
        return f"{mean:,.0f}" if deviation is None else f"{mean:,.0f} ± 0"
    scale = deviation or abs(mean)
    places = 0 if scale >= 100 else next((n for n in range(1, 7) if scale >= 10.0 ** (1 - n)), 6)
    if not deviation and abs(mean) >= 1:
        places = max(0, 3 - len(str(int(abs(mean)))))
    if deviation is None:
        return f"{mean:,.{places}f}"
    return f"{mean:,.{places}f} ± {deviation:,.{places}f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return [f"| {' | '.join(cells)} |" for cells in lines]
