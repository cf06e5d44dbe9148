"""Contrastive learning: the loss against loops, what it learns, resumption."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.tasks.zoos import StopAt, moved, random_zoo, unreached
from weightspace.errors import DataError, ModelError
from weightspace.graph import MixedGraph, chain_spec
from weightspace.models import Predictor, Requirements, make_model
from weightspace.tasks.augmentation import InrAugmentation
from weightspace.tasks.batches import batches
from weightspace.tasks.contrastive import ContrastiveTask, LinearProbe, embed, info_nce
from weightspace.tasks.network_task import Schedule
from weightspace.testing import sample_graph
from weightspace.train import Budget, Fitted, Interrupted, fit_task
from weightspace.zoo import Zoo

SPEC = chain_spec([1, 6, 1], activations="tanh")
VIEWS = InrAugmentation(SPEC, translation=0, rotation=0, scaling=0, noise=0.1, dropout=0.1)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return random_zoo(tmp_path_factory.mktemp("zoo") / "z", SPEC)


def reader(zoo: Zoo, name: str = "ng-gnn") -> Predictor:
    torch.manual_seed(0)
    options = {"width": 8, "layers": 2, "frequencies": 8} if name == "ng-gnn" else {}
    model = make_model(name, Requirements.of([SPEC]), outputs=4, options=options)
    model.fit_normalisation(zoo.graph(zoo.split("train")))
    return model


def loader(zoo: Zoo, split: str, seed: int | None = None):  # type: ignore[no-untyped-def]
    rows = zoo.split(split).tolist()
    return batches(zoo, rows, torch.tensor(rows)[:, None].float(), batch_size=8, seed=seed)


def train(
    zoo: Zoo, folder: Path, epochs: int, stop: int | None = None
) -> tuple[ContrastiveTask, Fitted]:
    task = ContrastiveTask(reader(zoo), VIEWS, schedule=Schedule(learning_rate=1e-2), seed=3)
    if stop is not None:
        task.configure_callbacks = lambda: [StopAt(stop)]  # type: ignore[method-assign]
    return task, fit_task(
        task,
        loader(zoo, "train", 0),
        loader(zoo, "val"),
        folder,
        budget=Budget(epochs=epochs, batch_size=8),
        monitor=task.monitor,
        mode=task.mode,
        progress=False,
    )


def test_the_loss_is_that_of_loops() -> None:
    one, two = torch.randn(2, 5, 3, dtype=torch.float64)
    views = torch.cat([one, two])
    total = 0.0
    for i in range(10):
        others = [j for j in range(10) if j != i]
        alike = {j: float(F.cosine_similarity(views[i], views[j], dim=0)) / 0.1 for j in others}
        partner = (i + 5) % 10
        total -= math.log(math.exp(alike[partner]) / sum(map(math.exp, alike.values())))
    assert float(info_nce(one, two, temperature=0.1)) == pytest.approx(total / 10)


def test_it_learns_to_find_partners(zoo: Zoo, tmp_path: Path) -> None:
    _, fitted = train(zoo, tmp_path, epochs=12)
    assert fitted.best_score < 0.8 * fitted.history[0]["val_loss"]


def test_interrupted_and_resumed_is_the_same(zoo: Zoo, tmp_path: Path) -> None:
    whole, one = train(zoo, tmp_path / "whole", epochs=4)
    with pytest.raises(Interrupted):
        train(zoo, tmp_path / "cut", epochs=4, stop=2)
    resumed, two = train(zoo, tmp_path / "cut", epochs=4)
    assert one.history == two.history
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_views_are_random_but_a_function_of_the_seed(zoo: Zoo) -> None:
    task = ContrastiveTask(reader(zoo), VIEWS).eval()
    networks = zoo.graph([0, 1, 2])
    one, two, again = (task.loss(networks, seed).item() for seed in (1, 2, 1))
    assert one == again != two


def test_batches_of_several_architectures(zoo: Zoo) -> None:
    specs = [SPEC, chain_spec([1, 4, 1], activations="tanh")]
    mixed = MixedGraph.of(
        [sample_graph(s, n, dtype=torch.float32) for s, n in zip(specs, (2, 3), strict=True)]
    )
    model = make_model("ng-gnn", Requirements.of(specs), outputs=4, options={"width": 8}).eval()
    same = ContrastiveTask(model, lambda stacked, _: stacked)
    embedded = same.projection(model(MixedGraph.of(list(mixed.parts))))
    expected = info_nce(embedded, embedded, temperature=0.1)
    torch.testing.assert_close(same.loss(mixed, 0), expected)


@pytest.mark.parametrize("name", ["ng-gnn", "dws"])
def test_embeddings_do_not_depend_on_the_order_of_neurons(zoo: Zoo, name: str) -> None:
    model = reader(zoo, name).double().eval()
    networks = zoo.graph([0, 1, 2]).to(torch.float64)
    torch.testing.assert_close(model(networks), model(moved(networks)[0]))


def test_gradients_reach_every_parameter(zoo: Zoo) -> None:
    task = ContrastiveTask(reader(zoo, "dws"), VIEWS)
    # a bias before similarities of the last layer alone is still read, by the cosine
    assert unreached(task, task.loss(zoo.graph(list(range(16))), 0)) == []


def test_the_probe_reads_what_is_linear(zoo: Zoo) -> None:
    model = reader(zoo)
    x, labels = embed(model, loader(zoo, "train"))
    assert x.shape == (24, 4)
    assert labels[:, 0].tolist() == zoo.split("train").tolist()
    y = x @ np.random.default_rng(0).normal(size=(4, 2)) + 3.0
    probed = LinearProbe(x, y)(x[:5] + 1.0, y[:5])
    assert LinearProbe(x, y)(x, y).mse == pytest.approx(0, abs=1e-12)
    assert probed.mse == pytest.approx(float(np.square(probed.predictions - y[:5]).mean()))
    assert probed.mse > 1e-3


def test_wrong_options_are_said(zoo: Zoo) -> None:
    with pytest.raises(ModelError, match="temperature"):
        ContrastiveTask(reader(zoo), VIEWS, temperature=0.0)
    with pytest.raises(DataError, match="one for each of 3"):
        LinearProbe(np.zeros((3, 2)), np.zeros((2, 1)))
    with pytest.raises(DataError, match="finite"):
        LinearProbe(np.full((3, 2), np.nan), np.zeros((3, 1)))
