"""Small checkpoint files of every format, for tests."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

STATE: dict[str, Tensor] = {
    "seq.0.weight": torch.arange(12.0).reshape(4, 3),
    "seq.0.bias": torch.arange(4.0) + 0.5,
    "seq.2.weight": -torch.arange(4.0).reshape(1, 4),
    "seq.2.bias": torch.tensor([7.0]),
}


def write_torch(path: Path) -> None:
    optimiser = {
        "state": {0: {"step": 3, "exp_avg": torch.ones(4, 3)}},
        "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0]}],
    }
    torch.save({"model": STATE, "optimizer": optimiser, "epoch": 3}, path)


def write_legacy(path: Path) -> None:
    torch.save({"state_dict": STATE}, path, _use_new_zipfile_serialization=False)


def write_safetensors(path: Path) -> None:
    save_file(STATE, path, metadata={"source": "test"})


def write_npz(path: Path) -> None:
    arrays = {name: tensor.numpy() for name, tensor in STATE.items()}
    np.savez(path, **arrays, labels=np.array(["a", "bc"]))


def write_compressed_npz(path: Path) -> None:
    np.savez_compressed(path, **{name: tensor.numpy() for name, tensor in STATE.items()})


def write_sb3(path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(STATE, buffer)
    data = {"seed": 1, "policy_class": {":type:": "x", ":serialized:": "gASV"}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", json.dumps(data))
        archive.writestr("policy.pth", buffer.getvalue())
        archive.writestr("_stable_baselines3_version", "1.0\n")


def write_index(path: Path) -> None:
    first = {name: tensor for name, tensor in STATE.items() if "seq.0" in name}
    second = {name: tensor for name, tensor in STATE.items() if "seq.2" in name}
    places = {}
    for number, part in enumerate((first, second)):
        name = f"model-{number}.safetensors"
        save_file(part, path.parent / name)
        places |= dict.fromkeys(part, name)
    path.write_text(json.dumps({"metadata": {"total_size": 84}, "weight_map": places}))


def write_keras(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        root = file.create_group("model_weights")
        root.attrs["layer_names"] = [b"dense_10", b"dense_2"]
        layers = {"dense_10": STATE["seq.0.weight"].T, "dense_2": STATE["seq.2.weight"].T}
        for layer, kernel in layers.items():
            group = root.create_group(layer)
            group.attrs["weight_names"] = [f"{layer}/kernel:0".encode()]
            group[f"{layer}/kernel:0"] = kernel.numpy()
        file["optimizer_weights/Adam/iter:0"] = np.int64(5)
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential"})


WRITERS: Mapping[str, Callable[[Path], None]] = {
    "a.pt": write_torch,
    "a.pth": write_legacy,
    "a.safetensors": write_safetensors,
    "a.npz": write_npz,
    "b.npz": write_compressed_npz,
    "a.zip": write_sb3,
    "model.safetensors.index.json": write_index,
}
"""A writer for each format that holds :data:`STATE` as it is, by file name."""
