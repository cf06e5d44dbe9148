"""ProbeGen: functions are all it sees, of chains and of modules."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.graph.test_reordering import residual
from tests.models import baselines as check
from tests.nn.test_arrangement import Residual
from weightspace.errors import ModelError
from weightspace.graph import Activation, GraphSpec, SymmetryGroup, chain_spec
from weightspace.models import (
    Editor,
    ModuleRunner,
    Predictor,
    ProbeOnly,
    Requirements,
    load_model,
    make_model,
    save_model,
)

SPEC = chain_spec([2, 5, 4, 1], activations="tanh")
SMALL = {"probes": 3, "width": 8, "dropout": 0.0}


def make(*specs: GraphSpec) -> Predictor:
    torch.manual_seed(0)
    trunk = ProbeOnly(Requirements.of(specs or [SPEC]), **SMALL)
    return Predictor(trunk, outputs=3).double().eval()


def test_it_reads_the_answers_to_its_generators_probes() -> None:
    model, graph = make(), check.graph_of(SPEC, 2)
    probes = model.trunk.codes
    for layer in model.trunk.generator:
        probes = probes @ layer.weight.T + layer.bias
    rows = []
    for i in range(2):
        state = graph.state_dict(i)
        x = probes
        for layer in range(3):
            x = x @ state[f"{layer}.weight"].T + state[f"{layer}.bias"]
            x = x.tanh() if layer < 2 else x
        rows.append(x.flatten())
    expected = model.last(model.trunk.hidden(torch.stack(rows)))
    torch.testing.assert_close(model(graph), expected)


def test_probes_begin_as_wide_as_coordinates() -> None:
    torch.manual_seed(0)
    probes = ProbeOnly(Requirements.of([SPEC]), probes=2000).inputs()
    assert 0.4 < float(probes.detach().std()) < 0.8  # 1 / sqrt(3) for uniform values in (-1, 1)


@pytest.mark.parametrize("kind", ["permutation", "sign"])
def test_invariant_to_what_leaves_the_function_unchanged(kind: str) -> None:
    model, graph = make(), check.graph_of(SPEC, 3)
    element = SymmetryGroup(SPEC).sample(torch.Generator().manual_seed(0), kinds=(kind,))
    torch.testing.assert_close(model(element.act_graph(graph)), model(graph))
    stacked = graph.stacked_state()
    outside = graph.from_stacked(SPEC, {**stacked, "1.weight": stacked["1.weight"].flip(2)})
    assert not torch.allclose(model(outside), model(graph))


def test_as_every_baseline(tmp_path: Path) -> None:
    model, graph = make(), check.graph_of(SPEC, 4)
    check.check_batch_mates_do_not_matter(model.train(), graph)
    check.check_every_parameter_learns(model, graph)
    check.check_gradients(model, SPEC)
    check.check_round_trip(model, "probe-only", graph, tmp_path)
    other = chain_spec([2, 3, 1])
    check.check_mixed(make(SPEC, other), [check.graph_of(SPEC, 2), check.graph_of(other, 2)])


def test_networks_that_cannot_run_are_refused() -> None:
    unknown = chain_spec([2, 3, 1], activations=Activation("unknown"))
    with pytest.raises(ModelError, match=r"node set 0: .*stat-nn"):
        make_model("probe-only", Requirements.of([unknown]), outputs=2)
    with pytest.raises(ModelError, match=r"block first\.weight: .*9 values.*ModuleRunner"):
        make_model("probe-only", Requirements.of([residual().spec]), outputs=2)
    with pytest.raises(ModelError, match="ng-gnn"):
        Editor(ProbeOnly(Requirements.of([SPEC])))


def test_modules_run_with_the_networks_weights(tmp_path: Path) -> None:
    graph = residual()
    graph = graph.map(lambda t: t.abs() if t.is_floating_point() else t)  # variances
    torch.manual_seed(0)
    module = Residual()
    runner = ModuleRunner({graph.spec: module}, (3, 6, 6))
    assert (runner.values, runner.answers) == (3 * 36, 5)
    points = torch.randn(4, runner.values)
    answers = runner(graph, points)
    module.eval()
    for i in range(graph.batch_size):
        module.load_state_dict(graph.state_dict(i))
        expected = module(points.reshape(4, 3, 6, 6))
        torch.testing.assert_close(answers[i], expected, rtol=1e-4, atol=1e-4)
    model = Predictor(ProbeOnly(Requirements.of([graph.spec]), runner=runner, **SMALL), outputs=2)
    element = SymmetryGroup(graph.spec).sample(torch.Generator().manual_seed(0))
    moved = element.act_graph(graph)
    torch.testing.assert_close(model.eval()(graph), model(moved), rtol=1e-3, atol=1e-3)
    model.train()(graph).sum().backward()
    assert float(model.trunk.codes.grad.abs().max()) > 0

    save_model(tmp_path / "model.safetensors", model.eval(), name="probe-only", task={})
    loaded = load_model(tmp_path / "model.safetensors").model
    with pytest.raises(ModelError, match=r"trunk\.runner"):
        loaded(graph)
    loaded.trunk.runner = runner
    assert torch.equal(loaded(graph), model(graph))


def test_runners_refuse_what_they_cannot_run() -> None:
    module = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    spec = chain_spec([2, 4, 1], activations="tanh", layer_names=["0", "2"])
    runner = ModuleRunner({spec: module}, (2,))
    with pytest.raises(ModelError, match="a module of this architecture"):
        runner.check(SPEC)
    with pytest.raises(ModelError, match="one size"):
        ModuleRunner({spec: module, SPEC: nn.Linear(2, 3)}, (2,))
    with pytest.raises(ModelError, match="a row for each input"):
        ModuleRunner({spec: nn.Flatten(0)}, (2,))
