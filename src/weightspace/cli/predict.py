"""The command ``weightspace predict``."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from weightspace.cli.output import printable, say, show_table, write_json, write_text

if TYPE_CHECKING:
    from weightspace.errors import WeightspaceError
    from weightspace.graph import NeuralGraph
    from weightspace.models import Predictor
    from weightspace.tasks.labels import Labels

BATCH = 64


def predict(
    model: Positional[Path],
    files: Positional[tuple[Path, ...]],
    *,
    out: Path = Path("predictions.csv"),
    activation: str | None = None,
    coverage: float | None = None,
    json: Path | None = None,
) -> None:
    """Say which class networks are of, or rank them, as the model was trained to.

    Reads .pt, .pth, .safetensors, .npz and other checkpoints of networks of an architecture
    that the model can read, whatever their tensors are called, and the networks of zoos. Files
    that cannot be read are named at the end, with exit code 2; the others are still predicted.
    Rankings give intervals, and name networks that are unlike anything seen instead of guessing.

    Args:
        model: a model.safetensors that `weightspace train` or `weightspace demo` wrote, or the
            folder it is in.
        files: the networks' checkpoint files, folders of them, or zoos.
        out: the CSV file to write.
        activation: of all hidden layers, where the files do not tell; for rankings.
        coverage: the share of networks whose number shall lie in its interval, for rankings;
            that of the training if not given.
        json: also write the predictions as JSON to this file.
    """
    from weightspace.errors import DataError, FileError
    from weightspace.models import load_model
    from weightspace.models.predictor import Predictor
    from weightspace.rank import is_ranking
    from weightspace.tasks.meanings import labels_of

    model = model / "model.safetensors" if model.is_dir() else model
    if is_ranking(model):
        from weightspace.cli.ranking import predict_ranking

        predict_ranking(model, files, out=out, activation=activation, coverage=coverage, json=json)
        return
    saved = load_model(model)
    if not isinstance(saved.model, Predictor):
        raise FileError(model, expected="a model that predicts", found="one that edits networks")
    labels = labels_of(saved.task, model)
    if not files:
        raise DataError("files", expected="checkpoint files of networks", found="none")
    named, failures = _read(saved.model, files)
    rows, unread = _predict(saved.model, labels, named)
    failures += unread
    if rows:
        _show(rows, out, str(saved.task.get("target", "value")))
    if json is not None:
        write_json(
            json,
            {
                "model": str(model),
                **{key: value for key, value in saved.task.items() if key != "kind"},
                "predictions": rows,
                "failures": [str(failure) for failure in failures],
            },
        )
    for failure in failures[:-1]:
        sys.stderr.write(f"error: {printable(str(failure))}\n")
    if failures:
        raise failures[-1]


def _read(
    model: Predictor, files: tuple[Path, ...]
) -> tuple[list[tuple[str, NeuralGraph]], list[WeightspaceError]]:
    """Read what can be read, each network by itself, and keep the errors of the rest."""
    from weightspace.cli.networks import checkpoints_in, read_graph, zoo_graphs
    from weightspace.errors import WeightspaceError

    named: list[tuple[str, NeuralGraph]] = []
    failures: list[WeightspaceError] = []
    for file in (path for given in files for path in checkpoints_in(given)):
        try:
            if file.is_dir():
                named += zoo_graphs(file)
            else:
                named.append((str(file), read_graph(file, model)))
        except WeightspaceError as error:
            failures.append(error)
    return named, failures


def _predict(
    model: Predictor, labels: Labels, named: list[tuple[str, NeuralGraph]]
) -> tuple[list[dict[str, Any]], list[WeightspaceError]]:
    """A row for each network, ranked if the model predicts numbers."""
    from weightspace.errors import FileError, WeightspaceError
    from weightspace.tasks.classes import Classes

    rows: list[dict[str, Any]] = []
    failures: list[WeightspaceError] = []
    for start in range(0, len(named), BATCH):
        for name, outputs in _outputs(model, named[start : start + BATCH]):
            if isinstance(outputs, WeightspaceError):
                failures.append(
                    FileError(
                        name, expected=outputs.expected, found=outputs.found, hint=outputs.hint
                    )
                )
            elif not bool(outputs.isfinite().all()):
                failures.append(
                    FileError(
                        name,
                        expected="weights of the training networks' size",
                        found="weights so large that no prediction is a number",
                    )
                )
            else:
                said = labels.decode(outputs[None])[0].tolist()
                rows.append({"file": name, **_meant(said, labels)})
    if not isinstance(labels, Classes):
        rows.sort(key=lambda row: -row["value"])
        rows = [{**row, "rank": place + 1} for place, row in enumerate(rows)]
    return rows, failures


def _outputs(model: Predictor, named: list[tuple[str, NeuralGraph]]) -> list[tuple[str, Any]]:
    """The outputs for each network, or the error that it causes."""
    from weightspace.errors import WeightspaceError
    from weightspace.graph import MixedGraph
    from weightspace.tasks.prediction import predict as read

    graphs = [graph for _, graph in named]
    try:
        outputs = list(read(model, [MixedGraph.of(graphs)]).outputs)
    except WeightspaceError as error:
        if len(named) == 1:
            return [(named[0][0], error)]
        return [pair for one in named for pair in _outputs(model, [one])]
    return [(name, row) for (name, _), row in zip(named, outputs, strict=True)]


def _meant(said: Any, labels: Labels) -> dict[str, Any]:
    """What decoded outputs say of one network."""
    from weightspace.tasks.classes import Classes

    if not isinstance(labels, Classes):
        return {"value": said}
    best = max(range(len(said)), key=said.__getitem__)
    return {
        "class": labels.names[best],
        "probability": said[best],
        "probabilities": dict(zip(labels.names, said, strict=True)),
    }


def _show(rows: list[dict[str, Any]], out: Path, target: str) -> None:
    """Print a table and write a CSV file."""
    if "value" in rows[0]:
        head = ["rank", "file", target]
        shown = [[row["rank"], row["file"], f"{row['value']:.6g}"] for row in rows]
        exact = [[row["rank"], row["file"], repr(row["value"])] for row in rows]
        write_text(out, _csv(head, exact))
    else:
        classes = list(rows[0]["probabilities"])
        head = ["file", "class", "probability"]
        shown = [[row["file"], row["class"], f"{row['probability']:.3f}"] for row in rows]
        exact = [
            [
                row["file"],
                row["class"],
                f"{row['probability']:.6f}",
                *(f"{row['probabilities'][name]:.6f}" for name in classes),
            ]
            for row in rows
        ]
        write_text(out, _csv([*head, *(f"p({name})" for name in classes)], exact))
    show_table("predictions", head, shown)
    say(f"written to {out}")


def _csv(head: list[str], rows: list[list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
