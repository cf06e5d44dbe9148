"""Domain adaptation: classifiers that are changed to work on other images."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.tasks.zoos import SPLITS, StopAt, moved, unreached
from weightspace.errors import DataError, ModelError, StateError
from weightspace.graph import MixedGraph, chain_spec
from weightspace.importers import from_module
from weightspace.models import Editor, Requirements, make_editor
from weightspace.tasks.adaptation import AdaptationTask, Domain, accuracy_on, score_adaptation
from weightspace.tasks.application import ChainApplication, ModuleApplication
from weightspace.tasks.batches import NetworkBatch, batches
from weightspace.tasks.network_task import Schedule
from weightspace.testing import sample_graph
from weightspace.train import Budget, Fitted, Interrupted, fit_task
from weightspace.zoo import Zoo, ZooWriter

SPEC = chain_spec([4, 6, 2], activations="relu")
APPLY = ChainApplication(SPEC)


def domain(count: int, seed: int, *, brighter: bool = False) -> Domain:
    """Points in four dimensions, two classes; in the other domain all values are higher."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(count, 4, generator=generator)
    return Domain(points + 0.7 * brighter, (points[:, 0] + points[:, 1] > 0).long())


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """Forty classifiers, trained together on the source domain."""
    generator = torch.Generator().manual_seed(0)
    state = {
        p.name: (0.5 * torch.randn(40, *p.shape, generator=generator)).requires_grad_()
        for p in SPEC.parameters
    }
    source = domain(256, 0)
    optimiser = torch.optim.Adam(state.values(), lr=0.03)
    for _ in range(100):
        graph = sample_graph(SPEC, 40).from_stacked(SPEC, state)
        logits = APPLY(graph, source.images)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), source.labels.repeat(40))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    folder = tmp_path_factory.mktemp("zoo") / "z"
    writer = ZooWriter(folder, specs=[SPEC], recipe={"name": "classifiers"})
    stacked = {name: tensor.detach() for name, tensor in state.items()}
    writer.write_part(0, stacked, [{"number": i} for i in range(40)])
    return writer.finish(splits={name: list(rows) for name, rows in SPLITS.items()})


def editor(zoo: Zoo, name: str = "ng-gnn") -> Editor:
    torch.manual_seed(0)
    options = {"width": 8, "layers": 2, "frequencies": 8} if name == "ng-gnn" else {}
    made = make_editor(name, Requirements.of([SPEC]), options=options)
    made.fit_normalisation(zoo.graph(zoo.split("train")))
    return made


def loader(zoo: Zoo, split: str, seed: int | None = None):  # type: ignore[no-untyped-def]
    rows = zoo.split(split).tolist()
    return batches(zoo, rows, torch.zeros(len(rows)), batch_size=8, seed=seed)


def make_task(zoo: Zoo, name: str = "ng-gnn") -> AdaptationTask:
    return AdaptationTask(
        editor(zoo, name),
        APPLY,
        domain(256, 1, brighter=True),
        domain(128, 2, brighter=True),
        images=64,
        schedule=Schedule(learning_rate=2e-2),
        seed=3,
    )


def train(
    zoo: Zoo, folder: Path, epochs: int, stop: int | None = None
) -> tuple[AdaptationTask, Fitted]:
    task = make_task(zoo)
    if stop is not None:
        task.configure_callbacks = lambda: [StopAt(stop)]  # type: ignore[method-assign]
    return task, fit_task(
        task,
        loader(zoo, "train", 0),
        loader(zoo, "val"),
        folder,
        budget=Budget(epochs=epochs, batch_size=8, patience=100),
        monitor=task.monitor,
        mode=task.mode,
        progress=False,
    )


def test_unseen_classifiers_work_on_unseen_images_of_the_other_domain(
    zoo: Zoo, tmp_path: Path
) -> None:
    networks = zoo.graph(zoo.split("test"))
    assert float(accuracy_on(domain(500, 9), APPLY, networks).mean()) > 0.9
    task, _ = train(zoo, tmp_path, epochs=30)
    scores = score_adaptation(
        task.editor, APPLY, domain(500, 9, brighter=True), loader(zoo, "test")
    )
    assert float(scores.unadapted.mean()) < 0.7
    assert float(scores.adapted.mean()) > 0.8


def test_interrupted_and_resumed_is_the_same(zoo: Zoo, tmp_path: Path) -> None:
    whole, one = train(zoo, tmp_path / "whole", epochs=4)
    with pytest.raises(Interrupted):
        train(zoo, tmp_path / "cut", epochs=4, stop=2)
    resumed, two = train(zoo, tmp_path / "cut", epochs=4)
    assert one.history == two.history
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


@pytest.mark.parametrize("name", ["ng-gnn", "dws"])
def test_adaptation_does_not_depend_on_the_order_of_neurons(zoo: Zoo, name: str) -> None:
    made = editor(zoo, name).double().eval()
    for scale in made.scales:
        scale.data.fill_(1.0)
    networks = zoo.graph([0, 1, 2]).to(torch.float64)
    images = domain(20, 5).images.double()
    one, two = (APPLY(made(x), images) for x in (networks, moved(networks)[0]))
    torch.testing.assert_close(one, two)
    assert not torch.allclose(one, APPLY(networks, images))


def test_gradients_reach_every_parameter(zoo: Zoo) -> None:
    task = make_task(zoo)
    batch = NetworkBatch(zoo.graph([0, 1]), torch.arange(2), torch.zeros(2))
    assert unreached(task, task.loss(batch, torch.arange(32))) == []


def test_the_loss_is_that_of_a_loop(zoo: Zoo) -> None:
    task = make_task(zoo).eval()
    batch = NetworkBatch(zoo.graph([0, 1, 2]), torch.arange(3), torch.zeros(3))
    chosen = torch.tensor([5, 7, 11])
    edited = task.editor(batch.networks)
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    names = dict(zip([p.name for p in SPEC.parameters], module.state_dict(), strict=True))
    losses = []
    target = domain(256, 1, brighter=True)
    for i in range(3):
        module.load_state_dict({names[k]: v for k, v in edited.state_dict(i).items()})
        losses.append(
            nn.functional.cross_entropy(module(target.images[chosen]), target.labels[chosen])
        )
    torch.testing.assert_close(task.loss(batch, chosen), torch.stack(losses).mean())


def test_images_are_no_part_of_checkpoints(zoo: Zoo) -> None:
    assert not [name for name in make_task(zoo).state_dict() if "images" in name]


@pytest.mark.parametrize("kind", ["chain", "convolution"])
def test_networks_run_as_one_by_one(kind: str) -> None:
    torch.manual_seed(0)
    if kind == "chain":
        module: nn.Module = nn.Sequential(
            nn.Flatten(), nn.Linear(18, 5), nn.ReLU(), nn.Linear(5, 3)
        )
    else:
        layers = [nn.Conv2d(2, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        module = nn.Sequential(*layers, nn.Linear(4, 3))
    spec = from_module(module, torch.zeros(1, 2, 3, 3)).spec
    networks = sample_graph(spec, 4, dtype=torch.float32)
    images = torch.rand(6, 2, 3, 3)
    together = ModuleApplication(module)(networks, images)
    for i in range(4):
        alone = torch.func.functional_call(module, networks.state_dict(i), (images,))
        torch.testing.assert_close(together[i], alone, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_adapted_is_said(zoo: Zoo) -> None:
    with pytest.raises(DataError, match="a label for each"):
        Domain(torch.zeros(3, 4), torch.zeros(2, dtype=torch.long))
    with pytest.raises(DataError, match="at least one"):
        score_adaptation(editor(zoo), APPLY, domain(3, 0), [])
    other = sample_graph(chain_spec([4, 3, 2]), 2, dtype=torch.float32)
    with pytest.raises(StateError, match="another architecture"):
        APPLY(other, torch.zeros(1, 4))
    with pytest.raises(StateError, match="module's tensors"):
        ModuleApplication(nn.Linear(4, 2))(other, torch.zeros(1, 4))
    with pytest.raises(ModelError, match="one architecture"):
        APPLY(MixedGraph.of([other, zoo.graph([0])]), torch.zeros(1, 4))
