"""Where the epochs of a training are logged."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from lightning.pytorch.loggers import (
    CSVLogger,
    Logger,
    MLFlowLogger,
    TensorBoardLogger,
    WandbLogger,
)

from weightspace.errors import DataError


def make_loggers(folder: Path, name: str | None = None) -> list[Logger]:
    """The loggers of a training, all of which are Lightning's.

    Args:
        folder: of the training; logs are kept in it.
        name: ``csv``, ``tensorboard``, ``wandb`` or ``mlflow``; without one CSV, and TensorBoard
            where it is installed. CSV is always written.

    Raises:
        DataError: there is no such logger, or its package is not installed.

    >>> [type(logger).__name__ for logger in make_loggers(Path("trained"), "csv")]
    ['CSVLogger']
    """
    found: list[Logger] = [CSVLogger(folder, name="logs")]
    if name is None:
        return [*found, _tensorboard(folder)] if find_spec("tensorboard") else found
    if name not in LOGGERS:
        raise DataError("logger", expected=f"one of {', '.join(LOGGERS)}", found=repr(name))
    if name == "csv":
        return found
    if find_spec(name) is None:
        raise DataError(
            f"logger {name}",
            expected=f"the package {name}",
            found="no such package",
            hint=f"Install it: pip install 'weightspace[{name}]'.",
        )
    return [*found, LOGGERS[name](folder)]


def _tensorboard(folder: Path) -> Logger:
    return TensorBoardLogger(folder, name="tensorboard", version="")


def _wandb(folder: Path) -> Logger:
    folder.mkdir(parents=True, exist_ok=True)
    return WandbLogger(name=folder.resolve().name, save_dir=folder, project="weightspace")


def _mlflow(folder: Path) -> Logger:
    """Into the server of MLFLOW_TRACKING_URI if it is set, else into a file in the folder."""
    place = os.environ.get("MLFLOW_TRACKING_URI")
    uri = place or f"sqlite:///{(folder / 'mlflow.db').resolve()}"
    folder.mkdir(parents=True, exist_ok=True)
    return MLFlowLogger("weightspace", run_name=folder.resolve().name, tracking_uri=uri)


LOGGERS: dict[str, Callable[[Path], Logger]] = {
    "csv": lambda folder: CSVLogger(folder, name="logs"),
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "mlflow": _mlflow,
}
"""The loggers by name."""
