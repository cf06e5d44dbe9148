"""The experiment on domain adaptation, at a size of seconds on scikit-learn's digits."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import linear, relu

from weightspace.experiments import Preset, reproduce
from weightspace.experiments.domain_adaptation import DomainAdaptation
from weightspace.models import MODELS
from weightspace.zoo import Zoo
from weightspace.zoo.corruptions import CORRUPTIONS, Corruption

TINY = {
    **DomainAdaptation.presets["cpu"].settings,
    "images": "digits",
    "side": 0,
    "hidden": [8],
    "networks": 20,
    "updates": 60,
    "corruptions": {"inversion": 5, "contrast": 3},
    "target_images": 200,
    "validation_images": 50,
    "test_images": 80,
    "models": {"ng-gnn-linear": {"width": 8}, "flat-mlp": {"width": 16}},
    "epochs": 2,
    "batch_size": 8,
    "images_a_step": 32,
}


class TinyAdaptation(DomainAdaptation):
    presets: ClassVar = {"cpu": Preset("Digits.", "seconds", TINY, seeds=(0,))}


def test_every_method_is_judged_on_unseen_classifiers_and_images(tmp_path: Path) -> None:
    done = reproduce(TinyAdaptation(), "cpu", tmp_path)
    assert not done.failures
    rows = {result.method: result.rows[0] for result in done.results.methods}
    assert set(rows) == {"no-adaptation", "ng-gnn-linear", "flat-mlp"}
    for row in rows.values():
        mean = (row["accuracy_inversion"] + row["accuracy_contrast"]) / 2
        assert row["accuracy"] == pytest.approx(mean)
    work = tmp_path / "work" / "cpu"
    expected = 100 * inverted_accuracy(Zoo.open(work / "zoo"), work / "images.safetensors")
    assert rows["no-adaptation"]["accuracy_inversion"] == pytest.approx(expected, abs=1e-3)
    assert rows["no-adaptation"]["source_accuracy"] > 2 * expected


def inverted_accuracy(zoo: Zoo, images: Path) -> float:
    """Each test classifier on inverted test images, by a plain loop."""
    kept = load_file(images)
    values = 1 - 2 * kept["test"].float().flatten(1) / 255  # inverted and centred
    shares = []
    for row in zoo.split("test"):
        state = {name: tensor[0] for name, tensor in zoo.states([row]).items()}
        hidden = relu(linear(values, state["layers.0.weight"], state["layers.0.bias"]))
        logits = linear(hidden, state["layers.1.weight"], state["layers.1.bias"])
        shares.append((logits.argmax(1) == kept["test_labels"]).float().mean())
    return float(torch.stack(shares).mean())


def test_no_image_is_in_two_parts(tmp_path: Path) -> None:
    experiment = TinyAdaptation()
    experiment.prepare(experiment.preset("cpu"), tmp_path)
    kept = load_file(tmp_path / "images.safetensors")
    seen = [{bytes(i.numpy().tobytes()) for i in kept[p]} for p in ("target", "validation", "test")]
    assert [len(part) for part in seen] == [200, 50, 80]
    assert not (seen[0] & seen[1] | seen[0] & seen[2] | seen[1] & seen[2])


@pytest.mark.parametrize("size", ["cpu", "full"])
def test_presets_name_what_there_is(size: str) -> None:
    plan = DomainAdaptation.presets[size].settings
    assert set(plan["models"]) <= set(MODELS)
    assert set(plan["corruptions"]) <= set(CORRUPTIONS)
    assert all(Corruption(name, severity) for name, severity in plan["corruptions"].items())
    assert set(DomainAdaptation.published) <= {*plan["models"], "no-adaptation"}
    assert set(plan) == set(TINY)
