"""Published results beside ours, from the committed results of the experiments."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

Table = tuple[list[str], list[list[str]]]


def register(app: Sphinx) -> None:
    """Write the tables before Sphinx reads the page that includes them."""
    app.connect("builder-inited", _write)


def results_text(root: Path) -> str:
    """The tables of all experiments, in Markdown.

    Args:
        root: of the repository.
    """
    files = committed(root)
    return "\n\n".join([*_reproducible(root, files), *_studies(root, files)]) + "\n"


def committed(root: Path) -> list[Path]:
    """The JSON results that are in the repository; all there are, where git cannot say."""
    pattern = "experiments/*/results/*.json"
    asked = subprocess.run(
        ["git", "-C", str(root), "ls-files", pattern], capture_output=True, text=True, check=False
    )
    if asked.returncode == 0 and asked.stdout.strip():
        return [path for line in asked.stdout.splitlines() if (path := root / line).is_file()]
    return sorted(root.glob(pattern))


def _reproducible(root: Path, files: Sequence[Path]) -> Iterator[str]:
    """Every experiment that `weightspace reproduce` knows, with what was found."""
    from weightspace.experiments import EXPERIMENTS

    for name, kind in EXPERIMENTS.items():
        experiment = kind()
        own = {
            path.stem: json.loads(path.read_text())
            for path in files
            if path.parts[-3] == name and path.stem in experiment.presets
        }
        own = {preset: data for preset, data in own.items() if "methods" in data}
        older = root / "experiments" / "metanetworks" / "results" / f"{name.split('-')[-1]}.json"
        if not own and name.startswith("inr-classification") and older in files:
            own = {"cpu": _as_results(json.loads(older.read_text()), experiment)}
        yield f"## {name}\n\n{experiment.task} Published: {experiment.paper}."
        for preset, data in own.items():
            yield f"`{data['command']}`: {experiment.preset(preset).data}"
            yield _markdown(_compared(experiment, data["methods"]))
        if not own:
            shown = [[method, value] for method, value in experiment.published.items()]
            yield (
                "No results of ours are in the repository yet; "
                f"`weightspace reproduce {name}` makes them."
            )
            yield _markdown((["method", _head(experiment)], shown))


def _compared(experiment: Any, methods: Sequence[dict[str, Any]]) -> Table:
    """Methods, best first, with the published value and ours."""
    rows = [
        [
            row["method"],
            experiment.published.get(row["method"], ""),
            _shown(row[experiment.metric]),
            str(row["seeds"]),
        ]
        for row in methods
    ]
    found = {row["method"] for row in methods}
    rest = [[m, value, "", ""] for m, value in experiment.published.items() if m not in found]
    return ["method", f"published {_head(experiment)}", "ours", "seeds"], rows + rest


def _as_results(data: dict[str, Any], experiment: Any) -> dict[str, Any]:
    """Results of the script that was there before the command, in the command's form."""
    methods = [
        {
            "method": row["model"],
            "seeds": row["seeds"],
            experiment.metric: {
                "mean": row["accuracy_mean"],
                "deviation": row["accuracy_deviation"],
            },
        }
        for row in data["models"]
    ]
    return {"command": f"weightspace reproduce {experiment.name}", "methods": methods}


def _studies(root: Path, files: Sequence[Path]) -> Iterator[str]:
    """The results of every other experiment whose JSON is of a known form."""
    for readme in sorted((root / "experiments").glob("*/README.md")):
        folder = readme.parent.name
        if folder == "metanetworks":
            continue  # among the reproducible ones
        title = readme.read_text().splitlines()[0].lstrip("# ")
        tables = [
            f"`{path.relative_to(root)}`:\n\n{_markdown(table)}"
            for path in files
            if path.parts[-3] == folder
            and (table := table_of(json.loads(path.read_text()))) is not None
        ]
        yield f"## {title}\n\nHow it was made and what it says: [{title}]({folder}.md)."
        yield from tables
        published = readme.parent / "results" / "table.md"
        if published.is_file():
            yield published.read_text().strip()


def table_of(data: Any) -> Table | None:
    """The main numbers of results of a known form."""
    for fits, make in FORMS:
        if fits(data):
            return make(data)
    return None


def _demo(data: dict[str, Any]) -> Table:
    rows = [
        [name, f"{100 * model['test_accuracy']:.1f}", f"{model['parameters']:,}"]
        for name, model in data["models"].items()
    ]
    return ["model", f"test accuracy on {data['dataset']}, %", "parameters"], rows


def _coverage(data: dict[str, Any]) -> Table:
    stages: dict[str, int] = {}
    for row in data.values():
        stages[row["stage"]] = stages.get(row["stage"], 0) + 1
    worst = max(row.get("max_relative_change") or 0.0 for row in data.values())
    rows = [[stage, str(count)] for stage, count in sorted(stages.items())]
    return ["stage reached", "architectures"], [
        *rows,
        ["largest change of an output under the group", f"{worst:.1g}"],
    ]


FORMS: list[tuple[Callable[[Any], bool], Callable[[Any], Table]]] = [
    (lambda data: isinstance(data, dict) and "dataset" in data and "models" in data, _demo),
    (
        lambda data: (
            isinstance(data, dict)
            and all(isinstance(row, dict) and "stage" in row for row in data.values())
        ),
        _coverage,
    ),
]
"""How results are recognised, and what is shown of them."""


def _head(experiment: Any) -> str:
    return f"{experiment.metric}, {experiment.unit}" if experiment.unit else experiment.metric


def _shown(summary: dict[str, float | None]) -> str:
    mean, deviation = summary["mean"], summary.get("deviation")
    text = f"{mean:.4g}"
    return text if deviation is None else f"{text} ± {deviation:.2g}"


def _markdown(table: Table) -> str:
    head, rows = table
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in x) + " |" for x in lines
    )


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "results" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "_tables.md"
    text = results_text(Path(app.srcdir).parent)
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
