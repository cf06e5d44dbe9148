"""Saved metanetworks: one safetensors file with everything that predicting needs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

import weightspace
from weightspace.errors import DataError, FileError, ModelError, WeightspaceError, reason_of
from weightspace.importers.files.hub import local_path
from weightspace.models.metanetwork import Metanetwork
from weightspace.models.predictor import Predictor
from weightspace.models.registry import MODELS, make_editor, make_model
from weightspace.models.requirements import Requirements

FORMAT = 2
_KEY = "weightspace.metanetwork"


@dataclass(frozen=True)
class SavedModel:
    """A metanetwork read from a file.

    Args:
        model: in evaluation mode.
        name: its name among :data:`weightspace.models.MODELS`.
        task: what its outputs mean, such as ``{"kind": "classification", "classes": [...]}``.
        versions: of weightspace and torch when it was saved.
    """

    model: Metanetwork
    name: str
    task: Mapping[str, Any]
    versions: Mapping[str, str]


def save_model(path: Path | str, model: Metanetwork, *, name: str, task: Mapping[str, Any]) -> None:
    """Save a metanetwork with its options, normalisation, task and versions.

    The file is written beside its place and moved there, so it is never half a file.

    Args:
        path: the file, by custom ``model.safetensors``.
        model: the trained model.
        name: its name among :data:`weightspace.models.MODELS`.
        task: plain values that say what the outputs mean.

    Raises:
        ModelError: the name is another model's, so that it could not be read again.
        DataError: the task has values that JSON has not.
        FileError: the file cannot be written.
    """
    path = Path(path)
    _check_name(model, name)
    header = {
        "format": FORMAT,
        "name": name,
        "options": model.options,
        "outputs": model.outputs if isinstance(model, Predictor) else None,
        "requirements": model.trunk.requirements.to_dict(),
        "task": _plain(task),
        "versions": {"weightspace": weightspace.__version__, "torch": torch.__version__},
    }
    tensors = {key: value.detach().contiguous() for key, value in model.state_dict().items()}
    data = save(tensors, metadata={_KEY: json.dumps(header)})
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FileError(
            path, expected="a place that can be written", found=reason_of(error)
        ) from error


def _check_name(model: Metanetwork, name: str) -> None:
    family = MODELS[name].family if name in MODELS else None
    if type(model.trunk) is not family:
        raise ModelError(
            f"name {name!r} of a model to be saved",
            expected=f"the name of a {type(model.trunk).__name__} among MODELS",
            found="an unknown one" if family is None else "that of another model",
            hint="Models of your own: keep trunk.requirements.to_dict(), trunk.options and "
            "state_dict().",
        )


def _plain(task: Mapping[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(dict(task), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError("task", expected="plain values for JSON", found=reason_of(error)) from error
    return dict(task)


def load_model(path: Path | str) -> SavedModel:
    """Read a metanetwork saved by :func:`save_model`. Nothing in the file is executed.

    Raises:
        FileError: the file is missing, damaged, or holds something else.
    """
    path = local_path(path)
    if not path.is_file():
        raise FileError(
            path,
            expected="a saved metanetwork",
            found="no such file",
            hint="`weightspace train` and `weightspace demo` write model.safetensors.",
        )
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise FileError(
            path,
            expected="a saved metanetwork (safetensors)",
            found=reason_of(error),
            hint="The file is damaged or of another kind.",
        ) from error
    if _KEY not in metadata:
        raise FileError(
            path,
            expected="a metanetwork saved by weightspace",
            found="a safetensors file of something else",
            hint="Give the model first, then the networks to read.",
        )
    try:
        return _rebuild(json.loads(metadata[_KEY]), tensors)
    except WeightspaceError as error:
        raise FileError(
            path, expected="a metanetwork that this version can make", found=str(error)
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise FileError(
            path,
            expected=f"a metanetwork of format {FORMAT}",
            found=f"{type(error).__name__}: {error}",
        ) from error


def _rebuild(header: dict[str, Any], tensors: dict[str, torch.Tensor]) -> SavedModel:
    if header["format"] != FORMAT:
        raise ValueError(f"format {header['format']}")
    requirements = Requirements.from_dict(header["requirements"])
    name, options, outputs = header["name"], header["options"], header["outputs"]
    model: Metanetwork
    if outputs is None:
        model = make_editor(name, requirements, options=options)
    else:
        model = make_model(name, requirements, outputs=int(outputs), options=options)
    kinds = {key: tensor.is_floating_point() for key, tensor in model.state_dict().items()}
    other = [
        k
        for k, t in tensors.items()
        if kinds.get(k, t.is_floating_point()) != t.is_floating_point()
    ]
    if other:
        raise ValueError(f"{tensors[other[0]].dtype} in {other[0]}")
    model.load_state_dict(tensors)
    bad = [key for key, value in tensors.items() if not bool(torch.isfinite(value).all())]
    if bad:
        raise ValueError(f"values that are not finite in {bad[0]}")
    classes = header["task"].get("classes", [])
    if header["task"].get("kind") == "classification" and (
        not isinstance(classes, list) or len(classes) != outputs
    ):
        raise ValueError(f"{outputs} outputs and classes {classes!r}")
    return SavedModel(model.eval(), header["name"], header["task"], header["versions"])
