"""Folders of trained networks as people keep them, generated small."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import sys
import types
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

State = dict[str, Tensor]


def mlp_state(sizes: tuple[int, ...] = (2, 4, 3, 1), seed: int = 0, name: str = "seq") -> State:
    """A chain of linear layers, numbered as DWSNets and others number them."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for layer, (a, b) in enumerate(itertools.pairwise(sizes)):
        state[f"{name}.{layer}.weight"] = torch.randn(b, a, generator=generator)
        state[f"{name}.{layer}.bias"] = torch.randn(b, generator=generator)
    return state


def save(path: Path, tree: object) -> None:
    """torch.save, with the folders made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(tree, path)


def dwsnets(folder: Path, images: int = 6) -> dict[str, State]:
    """The folders and the split file of DWSNets; paths are those of another machine."""
    states = {}
    splits: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"path": [], "label": []})
    for image in range(images):
        part = "training" if image < images - 2 else "testing"
        name = f"mnist_png_{part}_{image % 3}_{image}/checkpoints/model_final.pth"
        states[f"mnist-inrs/{name}"] = mlp_state((2, 4, 4, 1), seed=image)
        save(folder / "mnist-inrs" / name, states[f"mnist-inrs/{name}"])
        split = "test" if part == "testing" else "val" if image == 0 else "train"
        splits[split]["path"].append(f"/home/someone/dwsnets/dataset/mnist-inrs/{name}")
        splits[split]["label"].append(str(image % 3))
    (folder / "mnist_splits.json").write_text(json.dumps(splits))
    statistics = {"weights": {"mean": [torch.zeros(1)]}, "biases": {"mean": [torch.zeros(1)]}}
    save(folder / "mnist_statistics.pth", statistics)
    return states


def small_cnn_zoo(folder: Path, models: int = 3, steps: tuple[int, ...] = (0, 1, 86)) -> np.ndarray:
    """weights.npy, layout.csv and metrics.csv.gz: three convolutions and a linear layer."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes: dict[str, tuple[int, ...]] = {}
    channels = 1
    for name in ("conv2d", "conv2d_1", "conv2d_2"):
        shapes[f"sequential/{name}/bias:0"] = (4,)
        shapes[f"sequential/{name}/kernel:0"] = (3, 3, channels, 4)
        channels = 4
    shapes["sequential/dense/bias:0"] = (10,)
    shapes["sequential/dense/kernel:0"] = (4, 10)
    start, lines = 0, []
    for name, shape in shapes.items():
        end = start + int(np.prod(shape))
        lines.append([name, start, end, end - start, str(shape)])
        start = end
    with (folder / "layout.csv").open("w", newline="") as file:
        header = ["varname", "start_idx", "end_idx", "size", "shape"]
        csv.writer(file).writerows([header, *lines])
    weights = np.random.default_rng(0).normal(size=(models * len(steps), start))
    weights = weights.astype(np.float32)
    np.save(folder / "weights.npy", weights)
    with gzip.open(folder / "metrics.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["", "config.activation", "config.l2reg", "modeldir", "step", "laststep",
             "test_accuracy", "test_loss"]
        )  # fmt: skip
        for model in range(models):
            for step in steps:
                directory = f"/readahead/{model}/permanent_ckpt-{step}"
                writer.writerow(
                    [directory, "relu" if model else "tanh", 0.001 * model, f"/readahead/{model}",
                     step, step == steps[-1], 0.1 + 0.01 * step / 86, 2.3]
                )  # fmt: skip
    return weights


def ray_trials(folder: Path, trials: int = 3, epochs: tuple[int, ...] = (0, 1, 2)) -> None:
    """Trials as Ray Tune and Schürholt's generators write them."""
    for trial in range(trials):
        base = folder / f"NN_tune_trainable_{trial:05d}_{trial}_seed={trial}"
        base.mkdir(parents=True)
        params = {"seed": trial, "model::nlin": "tanh", "training::batchsize": 4, "cuda": False}
        (base / "params.json").write_text(json.dumps(params))
        (base / "params.pkl").write_bytes(b"\x80\x04K\x01.")
        lines = [
            {"train_loss": -999, "test_acc": 0.1 * epoch + trial, "training_iteration": epoch,
             "hostname": "secret", "pid": 7, "config": params, "done": epoch == epochs[-1]}
            for epoch in epochs
        ]  # fmt: skip
        (base / "result.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
        for epoch in epochs:
            inside = base / f"checkpoint_{epoch:06d}"
            save(inside / "checkpoints", cnn_state(seed=10 * trial + epoch))
            save(inside / "optimizer", {"state": {}, "param_groups": [{"lr": 0.1, "params": [0]}]})
            (inside / ".is_checkpoint").write_bytes(b"")


def cnn_state(seed: int = 0) -> State:
    """The state of a small CNN, with the gaps that activations leave in the numbers."""
    torch.manual_seed(seed)
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Conv2d(4, 5, 3), nn.Tanh(), nn.Flatten(), nn.Linear(5, 2)
    )
    return {f"module_list.{name}": tensor for name, tensor in module.state_dict().items()}


PARK = [
    {"n_layers": 3, "n_classes": 10, "channels": [3, 4, 8, 4], "kernel_size": [3, 5, 3],
     "stride": [1, 1, 1], "padding": [1, 2, 1], "residual": [-1, -1, 0],
     "activation": ["relu", "gelu", "tanh"]},
    {"n_layers": 2, "n_classes": 10, "channels": [3, 8, 4], "kernel_size": [3, 3],
     "stride": [1, 1], "padding": [1, 1], "residual": [-1, -1],
     "activation": ["leaky_relu", "sigmoid"]},
]  # fmt: skip


def park_state(config: Mapping[str, Any], seed: int = 0) -> State:
    """The weights of a network of the wild park."""
    generator = torch.Generator().manual_seed(seed)
    channels, state = config["channels"], {}
    for layer, kernel in enumerate(config["kernel_size"]):
        shape = (channels[layer + 1], channels[layer], kernel, kernel)
        state[f"layers.{layer}.weight"] = torch.randn(shape, generator=generator)
        state[f"layers.{layer}.bias"] = torch.randn(shape[:1], generator=generator)
    state["fc.weight"] = torch.randn(config["n_classes"], channels[-1], generator=generator)
    state["fc.bias"] = torch.randn(config["n_classes"], generator=generator)
    return state


def wild_park(folder: Path, epochs: tuple[int, ...] = (1, 5)) -> None:
    """Runs of the wild park with pickled OmegaConf configurations, and its split file."""
    splits: dict[str, dict[str, list[Any]]] = defaultdict(
        lambda: {"path": [], "score": [], "step": []}
    )
    for run, config in enumerate(PARK):
        for epoch in epochs:
            name = f"cifar10_zooV2/trainable_{run}/checkpoint_{epoch:06d}/checkpoint.pt"
            path = folder / name
            path.parent.mkdir(parents=True)
            score = 0.1 * run + 0.01 * epoch
            with omega_classes() as make:
                tree = {
                    "model": park_state(config, seed=10 * run + epoch),
                    "optimizer": {"state": {}, "param_groups": [{"lr": 0.1, "params": [0]}]},
                    "config": make(config),
                    "iteration": epoch,
                    "last_result": {
                        "test/acc": score,
                        "hostname": "secret",
                        "config": {"model": make.plain},
                    },
                }
                torch.save(tree, path)
            split = "test" if run else "train"
            splits[split]["path"].append(name)
            splits[split]["score"].append(score)
            splits[split]["step"].append(epoch)
    (folder / "cnn_park_splits.json").write_text(json.dumps(splits))


@contextmanager
def omega_classes() -> Iterator[Any]:
    """Classes with the names and states of OmegaConf's, for as long as something is pickled.

    Yields:
        A function that makes a configuration out of plain values; its ``plain`` is an object
        of the dataclass behind such a configuration.
    """
    modules = {name: types.ModuleType(name) for name in (
        "omegaconf", "omegaconf.dictconfig", "omegaconf.listconfig", "omegaconf.nodes",
        "omegaconf.base", "experiments", "experiments.sampler",
    )}  # fmt: skip

    def define(module: str, name: str) -> type:
        kind = type(name, (), {"__module__": module})
        setattr(modules[module], name, kind)
        return kind

    dictionary = define("omegaconf.dictconfig", "DictConfig")
    listing = define("omegaconf.listconfig", "ListConfig")
    node = define("omegaconf.nodes", "AnyNode")
    metadata = define("omegaconf.base", "ContainerMetadata")
    dataclass = define("experiments.sampler", "CNNConfig")

    def new(kind: type, **state: Any) -> Any:
        made = kind()
        made.__dict__.update(state)
        return made

    def make(value: Any, parent: Any = None) -> Any:
        about = new(metadata, ref_type=Any, object_type=dataclass, element_type=int,
                    resolver_cache=defaultdict(dict))  # fmt: skip
        if isinstance(value, dict):
            made = new(dictionary, _metadata=about, _parent=parent)
            made._content = {key: make(item, made) for key, item in value.items()}
            return made
        if isinstance(value, list):
            made = new(listing, _metadata=about, _parent=parent)
            made._content = [make(item, made) for item in value]
            return made
        return new(node, _metadata=about, _parent=parent, _val=value)

    make.plain = new(dataclass, n_layers=3)  # type: ignore[attr-defined]
    sys.modules.update(modules)
    try:
        yield make
    finally:
        for name in modules:
            sys.modules.pop(name)


def sb3_agents(folder: Path) -> None:
    """Two agents as rl-baselines3-zoo keeps them."""
    for algo, sizes in (("ppo", (4, 8, 8, 2)), ("dqn", (4, 6, 2))):
        base = folder / algo / "CartPole-v1_1"
        (base / "CartPole-v1").mkdir(parents=True)
        (base / "CartPole-v1" / "config.yml").write_text("n_envs: 8\n")
        buffer = io.BytesIO()
        name = "mlp_extractor.policy_net" if algo == "ppo" else "q_net.q_net"
        torch.save(mlp_state(sizes, name=name), buffer)
        with zipfile.ZipFile(base / "CartPole-v1.zip", "w") as archive:
            archive.writestr("data", json.dumps({"gamma": 0.99, "policy_class": {":type:": "x"}}))
            archive.writestr("policy.pth", buffer.getvalue())
            archive.writestr("_stable_baselines3_version", "1.0\n")
        results = np.array([[10.0, 20.0], [500.0, 500.0], [400.0, 500.0]])
        np.savez(base / "evaluations.npz", results=results, timesteps=np.arange(3))
        (base / "0.monitor.csv").write_text("#{}\nr,l,t\n")
