"""Saved rankings: one safetensors file; nothing in it is executed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import weightspace
from weightspace.errors import FileError, WeightspaceError, reason_of
from weightspace.rank.conformal import Calibration
from weightspace.rank.familiarity import Familiarity, Metric
from weightspace.rank.features import FEATURES
from weightspace.rank.fitted import Fitted, Linear, Trees
from weightspace.rank.ranking import Ranking
from weightspace.rank.trust import Trust
from weightspace.zoo.store_files import write_file

FORMAT = 1
_KEY = "weightspace.ranking"
Arrays = dict[str, npt.NDArray[Any]]


def is_ranking(path: Path) -> bool:
    """Whether a file is a saved ranking; False for anything else, and for what is not there."""
    return _KEY in _metadata(path)


def save_ranking(path: Path, ranking: Ranking) -> None:
    """Save a ranking, all or nothing.

    Raises:
        FileError: the file cannot be written.
    """
    from safetensors.numpy import save  # noqa: PLC0415

    familiarity, calibration = ranking.familiarity, ranking.calibration
    arrays: Arrays = {
        "calibration.folds": calibration.folds,
        "calibration.errors": calibration.errors,
        "calibration.weights": calibration.weights,
        "familiarity.mean": familiarity.metric.mean,
        "familiarity.scale": familiarity.metric.scale,
        "familiarity.whitening": familiarity.metric.whitening,
        "familiarity.seen": familiarity.seen,
        "familiarity.held": familiarity.held,
    }
    for fold, model in enumerate(ranking.fitted):
        arrays |= {f"fold.{fold}.{name}": array for name, array in model.arrays().items()}
    header = {
        "format": FORMAT,
        "features": list(FEATURES),
        "kinds": [model.kind for model in ranking.fitted],
        "limit": familiarity.limit,
        "report": ranking.report(),
        "version": weightspace.__version__,
    }
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            path, expected="a place that can be written", found=reason_of(error)
        ) from error
    write_file(path, save(plain, metadata={_KEY: json.dumps(header)}))


def load_ranking(path: Path) -> Ranking:
    """Read a ranking saved by :func:`save_ranking`.

    Raises:
        FileError: the file is missing, damaged, or holds something else.
    """
    from safetensors.numpy import load_file  # noqa: PLC0415

    metadata = _metadata(path)
    if _KEY not in metadata:
        raise FileError(
            path,
            expected="a ranking that `weightspace train --task regress` wrote",
            found="something else" if path.is_file() else "no such file",
        )
    try:
        header, arrays = json.loads(metadata[_KEY]), load_file(path)
        if header["format"] != FORMAT or header["features"] != list(FEATURES):
            raise ValueError(f"format {header['format']} of version {header['version']}")
        return _rebuild(header, arrays)
    except (KeyError, TypeError, ValueError, OSError, IndexError, WeightspaceError) as error:
        raise FileError(
            path,
            expected=f"a ranking of format {FORMAT}",
            found=f"{type(error).__name__}: {error}",
            hint="The file is damaged, or of another version: train again.",
        ) from error


def _rebuild(header: dict[str, Any], arrays: Arrays) -> Ranking:
    report = header["report"]
    trust = {k: v for k, v in report["trust"].items() if k != "trusted"}
    fitted = [_fitted(kind, fold, arrays) for fold, kind in enumerate(header["kinds"])]
    if not fitted or int(arrays["calibration.folds"].max()) >= len(fitted):
        raise ValueError("folds without a model")
    return Ranking(
        target=str(report["target"]),
        model=str(report["model"]),
        fitted=fitted,
        calibration=Calibration(
            *(arrays[f"calibration.{n}"] for n in ("folds", "errors", "weights"))
        ),
        familiarity=Familiarity(
            Metric(*(arrays[f"familiarity.{n}"] for n in ("mean", "scale", "whitening"))),
            arrays["familiarity.seen"],
            arrays["familiarity.held"],
            float(header["limit"]),
            float(report["false_alarms"]),
        ),
        trust=Trust(**{**trust, "reasons": tuple(trust["reasons"])}),
        scores=report["candidates"],
        coverage=float(report["coverage"]),
        tau_of_sizes=report["tau_of_sizes"],
        shares=bool(report.get("shares")),  # rankings that were saved before have none
    )


def _fitted(kind: str, fold: int, arrays: Arrays) -> Fitted:
    from weightspace.rank.neural import Neural  # noqa: PLC0415 (training is heavy)

    prefix = f"fold.{fold}."
    own = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
    kinds: dict[str, type[Fitted]] = {one.kind: one for one in (Linear, Trees, Neural)}
    bad = [name for name, array in own.items() if array.dtype.kind == "f" and np.isnan(array).any()]
    if bad:
        raise ValueError(f"values that are no numbers in {bad[0]}")
    return kinds[kind].of_arrays(own)


def _metadata(path: Path) -> dict[str, str]:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    try:
        with safe_open(path, framework="numpy") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError):
        return {}
