"""The page of models: its table is true, and its code runs as it stands."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.models.networks import networks_of
from weightspace.errors import WeightspaceError
from weightspace.graph import MixedGraph, NeuralGraph, SymmetryGroup, chain_spec
from weightspace.models import MODELS, Predictor, Requirements, make_editor, make_model
from weightspace.testing import sample_graph

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROWS = {
    cells[0].strip("`"): cells
    for line in PAGE.splitlines()
    if line.startswith("| `")
    for cells in [[cell.strip() for cell in line[1:-1].split("|")]]
}
KINDS = ("permutation", "sign", "scale")
GRAPH = {"width": 4, "layers": 2, "frequencies": 4}
PAIRS = {**GRAPH, "pair_width": 4, "size": 4, "heads": 2, "node_hidden": 4, "pair_hidden": 4}
FLAT = {"width": 8}
SMALL = {
    "ng-gnn": GRAPH,
    "ng-gnn-probes": {**GRAPH, "probes": 2},
    "ng-t": PAIRS,
    "ng-t-probes": {**PAIRS, "probes": 2},
    "ng-t-edges": PAIRS,
    "ng-gnn-linear": GRAPH,
    "dws": {"width": 4, "layers": 2},
    "nfn-np": {**GRAPH, "head": 8},
    "nfn-hnp": {**GRAPH, "head": 8},
    "nft": {**GRAPH, "head": 8},
    "scale-gmn": {"width": 4, "layers": 2},
    "probe-only": {"width": 8, "probes": 3},
    "inr2vec": {"scale": 0.02},
    "neuron-transformer": {"width": 8, "layers": 1},
}


class Residual(nn.Module):
    """A residual stream."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(2, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        return self.last(x + self.inner(x).relu())


class Attention(nn.Module):
    """Self-attention with two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 3)
        self.heads = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(self.heads(x, x, x, need_weights=False)[0].mean(1))


class Recurrent(nn.Module):
    """A GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.last = nn.GRU(2, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.cells(x)[0][:, -1])


def convolutions(inner: nn.Module) -> nn.Module:
    """A convolution, another module, and a linear layer."""
    return nn.Sequential(
        *(nn.Conv2d(2, 4, 3), nn.ReLU(), inner, nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
    )


@cache
def networks() -> dict[str, NeuralGraph]:
    """Networks with each kind of block."""
    vector, image, tokens = torch.randn(1, 2), torch.randn(1, 2, 6, 6), torch.randn(1, 5, 2)
    embedding = nn.Sequential(
        *(nn.Embedding(6, 4), nn.Linear(4, 4), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3))
    )
    examples: dict[str, tuple[nn.Module, Tensor]] = {
        "kernels": (convolutions(nn.Conv2d(4, 4, 3)), image),
        "depthwise": (convolutions(nn.Conv2d(4, 4, 3, groups=4)), image),
        "grouped": (convolutions(nn.Conv2d(4, 4, 3, groups=2)), image),
        "norms": (convolutions(nn.BatchNorm2d(4)), image),
        "residuals": (Residual(), vector),
        "attention": (Attention(), tokens),
        "recurrent": (Recurrent(), tokens),
        "embedding": (embedding, torch.tensor([[0, 1, 2]])),
    }
    dense = sample_graph(chain_spec([2, 4, 3], activations="tanh"), 3)
    return {"dense": dense, **{name: networks_of(*given) for name, given in examples.items()}}


def small(name: str, batch: NeuralGraph | MixedGraph) -> Predictor:
    """A small model, fitted to networks."""
    torch.manual_seed(0)
    needs = Requirements.of(MixedGraph.of(batch).specs)
    model = make_model(name, needs, outputs=3, options=SMALL.get(name, FLAT)).double()
    model.fit_normalisation(batch)
    return model.eval()


def reads(name: str, batch: NeuralGraph | MixedGraph) -> bool:
    """Whether a model reads networks; what it cannot read it refuses with an error of ours."""
    try:
        return bool(small(name, batch)(batch).isfinite().all())
    except WeightspaceError:
        return False


def test_every_model_has_a_row() -> None:
    assert set(ROWS) == set(MODELS)
    assert {len(cells) for cells in ROWS.values()} == {8}


@pytest.mark.parametrize("name", ROWS)
def test_unchanged_by(name: str) -> None:
    said = ROWS[name][2]
    stays = []
    for kind, activation in zip(KINDS, ("tanh", "tanh", "relu"), strict=True):
        graph = sample_graph(chain_spec([2, 5, 5, 3], activations=activation), 4)
        model = small(name, graph)
        generator = torch.Generator().manual_seed(1)
        moved = SymmetryGroup(graph.spec).sample(generator, kinds=(kind,)).act_graph(graph)
        change = (model(moved) - model(graph)).abs().max() / model(graph).abs().max()
        stays += [f"{kind}s"] if change < 1e-8 else []
    found = ", ".join(stays) or "nothing"
    assert found in (said, said.removeprefix("nearly "))


@pytest.mark.parametrize("name", ROWS)
def test_edits(name: str) -> None:
    graph = networks()["dense"]
    try:
        editor = make_editor(name, Requirements.of([graph.spec]), options=SMALL.get(name, FLAT))
        found = editor.double()(graph).spec == graph.spec
    except WeightspaceError:
        found = False
    assert ROWS[name][3] == ("yes" if found else "no")


@pytest.mark.parametrize("name", ROWS)
def test_mixed(name: str) -> None:
    specs = chain_spec([2, 4, 3], activations="tanh"), chain_spec([2, 4, 4, 3])
    batch = MixedGraph.of([sample_graph(spec, 2) for spec in specs])
    assert ROWS[name][4] == ("yes" if reads(name, batch) else "no")


@pytest.mark.parametrize("name", ROWS)
def test_blocks(name: str) -> None:
    said = ROWS[name][5]
    refused = [kind for kind, graph in networks().items() if not reads(name, graph)]
    if said == "chains only":
        assert refused == [kind for kind in networks() if kind != "dense"]
    else:
        assert said == ", ".join(refused).join(["all but " if refused else "all", ""])


@pytest.mark.parametrize("name", ROWS)
def test_size(name: str) -> None:
    needs = Requirements.of([chain_spec([2, 32, 32, 1], activations="sine")])
    with torch.device("meta"):
        model = make_model(name, needs, outputs=10)
    assert ROWS[name][6] == f"{model.parameter_count:,}"


def test_kinds_of_blocks_are_listed() -> None:
    listed = re.search(r"\*\*Blocks\*\*: of (.*?)\.", PAGE, re.DOTALL)
    assert listed is not None
    assert set(re.split(r",\s+", listed[1])) == set(networks())


def test_code_runs_as_it_stands() -> None:
    names: dict[str, object] = {"__name__": "page"}
    for code in CODE:
        exec(code, names)
    assert tuple(names["exact"].shape) == (8, 10)  # type: ignore[attr-defined]
