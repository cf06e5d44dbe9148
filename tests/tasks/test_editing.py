"""Editing: it learns, commutes with the symmetry, resumes to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.tasks.zoos import StopAt, moved, random_zoo, unreached
from weightspace.errors import DataError, ModelError, StateError
from weightspace.graph import MixedGraph, chain_spec
from weightspace.models import Editor, Requirements, make_editor
from weightspace.tasks.batches import NetworkBatch, batches
from weightspace.tasks.editing import EditingTask, edited_images, score_edits
from weightspace.tasks.image_edits import inverted
from weightspace.tasks.network_task import Schedule
from weightspace.tasks.rendering import ImageRenderer
from weightspace.testing import sample_graph
from weightspace.train import Budget, Fitted, Interrupted, fit_task
from weightspace.zoo import Zoo, render, siren_spec

SPEC = siren_spec([2, 8, 1])
RENDER = ImageRenderer(SPEC, 5, 4)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return random_zoo(tmp_path_factory.mktemp("zoo") / "z", SPEC, scale=0.05)


def editor(zoo: Zoo, name: str = "ng-gnn") -> Editor:
    torch.manual_seed(0)
    options = {"width": 8, "layers": 2, "frequencies": 8} if name == "ng-gnn" else {}
    made = make_editor(name, Requirements.of([SPEC]), options=options)
    made.fit_normalisation(zoo.graph(zoo.split("train")))
    return made


def loaders(zoo: Zoo) -> list:  # type: ignore[type-arg]
    """Networks whose targets are their own images, bright and dark exchanged."""
    made = []
    for split, seed in (("train", 0), ("val", None), ("test", None)):
        rows = zoo.split(split).tolist()
        targets = inverted(render(SPEC, zoo.states(rows), 5, 4))
        made.append(batches(zoo, rows, targets, batch_size=8, seed=seed))
    return made


def train(
    zoo: Zoo, folder: Path, epochs: int, stop: int | None = None
) -> tuple[EditingTask, Fitted]:
    task = EditingTask(editor(zoo), RENDER, schedule=Schedule(learning_rate=1e-2), seed=3)
    if stop is not None:
        task.configure_callbacks = lambda: [StopAt(stop)]  # type: ignore[method-assign]
    budget = Budget(epochs=epochs, batch_size=8)
    monitor = {"monitor": task.monitor, "mode": task.mode}
    return task, fit_task(task, *loaders(zoo)[:2], folder, budget=budget, progress=False, **monitor)


def test_rendering_is_the_other_rendering_with_gradients(zoo: Zoo) -> None:
    networks = zoo.graph([0, 1, 2])
    torch.testing.assert_close(RENDER(networks), render(SPEC, zoo.states([0, 1, 2]), 5, 4))
    state = {name: tensor.requires_grad_() for name, tensor in zoo.states([0]).items()}
    RENDER(type(networks).from_stacked(SPEC, state)).sum().backward()
    assert all(tensor.grad is not None for tensor in state.values())


def test_edits_come_nearer_to_their_targets(zoo: Zoo, tmp_path: Path) -> None:
    task, fitted = train(zoo, tmp_path, epochs=30)
    scores = score_edits(task.editor, RENDER, loaders(zoo)[2])
    assert scores.mse < 0.7 * scores.unedited_mse
    assert scores.gain == pytest.approx(scores.unedited_mse / scores.mse)
    best = score_edits(task.editor, RENDER, loaders(zoo)[1])
    assert best.mse == pytest.approx(fitted.best_score, rel=1e-4)
    (batch,) = loaders(zoo)[2]
    seen = edited_images(task.editor, RENDER, batch.networks)
    errors = (seen - batch.labels).square().mean(dim=(1, 2, 3))
    torch.testing.assert_close(errors, scores.edited)


def test_interrupted_and_resumed_is_the_same(zoo: Zoo, tmp_path: Path) -> None:
    whole, one = train(zoo, tmp_path / "whole", epochs=4)
    with pytest.raises(Interrupted):
        train(zoo, tmp_path / "cut", epochs=4, stop=2)
    resumed, two = train(zoo, tmp_path / "cut", epochs=4)
    assert one.history == two.history
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


@pytest.mark.parametrize("name", ["ng-gnn", "dws"])
def test_the_loss_does_not_depend_on_the_order_of_neurons(zoo: Zoo, name: str) -> None:
    task = EditingTask(editor(zoo, name).double().eval(), RENDER)
    for scale in task.editor.scales:
        scale.data.fill_(1.0)  # an edit that is not nearly nothing
    networks = zoo.graph([0, 1, 2, 3]).to(torch.float64)
    targets = torch.rand(4, 5, 4, 1, dtype=torch.float64)
    other, element = moved(networks)
    edited, edited_other = task.editor(networks), task.editor(other)
    expected = element.act_graph(edited).stacked_state()
    for key, tensor in edited_other.stacked_state().items():
        torch.testing.assert_close(tensor, expected[key])
        assert not torch.equal(tensor, other.stacked_state()[key])
    rows = torch.arange(4)
    one, two = (task.errors(NetworkBatch(x, rows, targets)) for x in (networks, other))
    torch.testing.assert_close(one, two)


def test_gradients_reach_every_parameter(zoo: Zoo) -> None:
    task = EditingTask(editor(zoo), RENDER)
    batch = NetworkBatch(zoo.graph([0, 1]), torch.arange(2), torch.rand(2, 5, 4, 1))
    assert unreached(task, task.errors(batch).mean()) == []


def test_what_cannot_be_edited_is_said(zoo: Zoo) -> None:
    task = EditingTask(editor(zoo), RENDER)
    batch = NetworkBatch(zoo.graph([0, 1]), torch.arange(2), torch.rand(2, 6, 4, 1))
    with pytest.raises(DataError, match="resolution"):
        task.errors(batch)
    with pytest.raises(ModelError, match="two inputs"):
        ImageRenderer(chain_spec([3, 4, 1]), 4, 4)
    with pytest.raises(DataError, match="at least one"):
        score_edits(task.editor, RENDER, [])
    other = siren_spec([2, 4, 1])
    graphs = [sample_graph(spec, 1, dtype=torch.float32) for spec in (SPEC, other)]
    with pytest.raises(ModelError, match="one architecture"):
        RENDER(MixedGraph.of(graphs))
    with pytest.raises(StateError, match="another architecture"):
        RENDER(graphs[1])
