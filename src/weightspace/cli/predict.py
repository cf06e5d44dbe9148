"""The command ``weightspace predict``."""

from __future__ import annotations

import csv
import io
import math
import sys
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from weightspace.cli.output import say, show_table, write_json, write_text


def predict(
    model: Positional[Path],
    files: Positional[tuple[Path, ...]],
    *,
    out: Path = Path("predictions.csv"),
    json: Path | None = None,
) -> None:
    """Say which class the networks in checkpoint files are of.

    Reads .pt, .pth, .safetensors, .npz and other checkpoints of networks of the architecture
    that the model was trained on, whatever their tensors are called. Files that cannot be
    read are named at the end, with exit code 2; the others are still predicted.

    Args:
        model: a model.safetensors that `weightspace train` or `weightspace demo` wrote.
        files: the networks' checkpoint files.
        out: the CSV file to write.
        json: also write the predictions as JSON to this file.
    """
    from weightspace.errors import DataError, FileError
    from weightspace.models import load_model

    saved = load_model(model)
    if not files:
        raise DataError("files", expected="checkpoint files of networks", found="none")
    classes = list(saved.task["classes"])
    rows, failures = _predict(saved.model, classes, files)
    if rows:
        show_table(
            "predictions",
            ["file", "class", "probability"],
            [[row["file"], row["class"], f"{row['probability']:.3f}"] for row in rows],
        )
        write_text(out, _csv(rows, classes))
        say(f"written to {out}")
    if json is not None:
        write_json(
            json,
            {
                "model": str(model),
                "classes": classes,
                "predictions": rows,
                "failures": [str(failure) for failure in failures],
            },
        )
    for failure in failures[:-1]:
        sys.stderr.write(f"error: {failure}\n")
    if failures:
        last: FileError = failures[-1]
        raise last


def _predict(
    model: Any, classes: list[str], files: tuple[Path, ...]
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Read what can be read, predict it in one batch, and keep the errors of the rest."""
    import torch

    from weightspace.cli.networks import read_network
    from weightspace.errors import FileError
    from weightspace.tasks.classification import classify

    spec = model.trunk.requirements.spec
    states, good, failures = [], [], []
    for file in files:
        try:
            states.append(read_network(file, spec))
            good.append(file)
        except FileError as error:
            failures.append(error)
    if not states:
        return [], failures
    stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
    chances = classify(model, spec, [stacked]).probabilities
    rows = []
    for file, row in zip(good, chances.tolist(), strict=True):
        if not all(map(math.isfinite, row)):
            failures.append(
                FileError(
                    file,
                    expected="weights of the training networks' size",
                    found="weights so large that no prediction is a number",
                )
            )
            continue
        best = max(range(len(row)), key=row.__getitem__)
        rows.append(
            {
                "file": str(file),
                "class": classes[best],
                "probability": row[best],
                "probabilities": dict(zip(classes, row, strict=True)),
            }
        )
    return rows, failures


def _csv(rows: list[dict[str, Any]], classes: list[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["file", "class", "probability", *(f"p({name})" for name in classes)])
    for row in rows:
        chances = [f"{row['probabilities'][name]:.6f}" for name in classes]
        writer.writerow([row["file"], row["class"], f"{row['probability']:.6f}", *chances])
    return text.getvalue()
