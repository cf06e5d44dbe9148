"""Multilayer perceptrons are recognised whatever their tensors are called."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.data import shared_data
from weightspace.errors import StateError
from weightspace.graph import (
    Activation,
    ChainRunner,
    GraphSpec,
    NeuralGraph,
    SymmetryGroup,
    chain_spec,
)
from weightspace.importers import Chain, read_states, recognise_chain, recognise_chains

Naming = Callable[[int, int], tuple[str, str, bool]]
"""From a layer's place and the number of layers: weight, bias, whether stored inputs first."""

NAMINGS: dict[str, Naming] = {
    "sequential": lambda i, n: (f"seq.{2 * i}.weight", f"seq.{2 * i}.bias", False),
    "bare sequential": lambda i, n: (f"{i}.weight", f"{i}.bias", False),
    "wrapped": lambda i, n: (f"net.{i}.linear.weight", f"net.{i}.linear.bias", False),
    "nested": lambda i, n: (f"net.net.{i}.0.weight", f"net.net.{i}.0.bias", False),
    "wrapped but the last": lambda i, n: (
        (f"net.{i}.weight", f"net.{i}.bias", False)
        if i == n - 1
        else (f"net.{i}.linear.weight", f"net.{i}.linear.bias", False)
    ),
    "short": lambda i, n: (f"layers.{i}.w", f"layers.{i}.b", True),
    "functions": lambda i, n: (f"{2 * i:04d}.dense.A", f"{2 * i:04d}.dense.b", True),
    "numbered": lambda i, n: (f"w{i}", f"b{i}", True),
    "lists": lambda i, n: (f"weights.{i}", f"biases.{i}", False),
    "fc": lambda i, n: (f"fc{i + 1}.weight", f"fc{i + 1}.bias", False),
    "flat fc": lambda i, n: (f"fc{i + 1}_w", f"fc{i + 1}_b", True),
    "keras": lambda i, n: (
        (f"dense_{i}/kernel:0", f"dense_{i}/bias:0", True)
        if i
        else ("dense/kernel:0", "dense/bias:0", True)
    ),
    "flax": lambda i, n: (f"Dense_{i}.kernel", f"Dense_{i}.bias", True),
    "head": lambda i, n: (
        ("head.weight", "head.bias", False)
        if i == n - 1
        else (f"layers.{i}.weight", f"layers.{i}.bias", False)
    ),
}


def make(
    sizes: list[int], naming: Naming, *, bias: bool = True, seed: int = 0
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """A random network's tensors under a naming, and in the layout of ``seq.i.weight``."""
    generator = torch.Generator().manual_seed(seed)
    named, plain = {}, {}
    layers = len(sizes) - 1
    for i in range(layers):
        weight = torch.randn(sizes[i + 1], sizes[i], generator=generator)
        shift = torch.randn(sizes[i + 1], generator=generator)
        weight_name, bias_name, transposed = naming(i, layers)
        named[weight_name] = weight.T.contiguous() if transposed else weight
        plain[f"seq.{i}.weight"] = weight
        if bias:
            named[bias_name] = plain[f"seq.{i}.bias"] = shift
    return named, plain


def zoo_spec(sizes: list[int], *, bias: bool = True) -> GraphSpec:
    names = [f"seq.{i}" for i in range(len(sizes) - 1)]
    return chain_spec(sizes, activations="tanh", bias=bias, layer_names=names)


SIZES = st.lists(st.integers(1, 9), min_size=3, max_size=14)


@given(sizes=SIZES, naming=st.sampled_from(sorted(NAMINGS)), bias=st.booleans(), data=st.data())
@settings(deadline=None, max_examples=80)
def test_any_naming_is_the_same_network(
    sizes: list[int], naming: str, bias: bool, data: st.DataObject
) -> None:
    named, plain = make(sizes, NAMINGS[naming], bias=bias)
    shuffled = dict(data.draw(st.permutations(list(named.items()))))
    chain = recognise_chain(shuffled)
    assert chain.sizes == tuple(sizes)
    renamed = chain.renamed(zoo_spec(sizes, bias=bias))
    assert renamed.keys() == plain.keys()
    assert all(torch.equal(renamed[name], plain[name]) for name in plain)
    spec = chain.to_spec(activations="tanh")
    state = NeuralGraph.from_states(spec, [named]).state_dict()
    assert state.keys() == named.keys()
    assert all(torch.equal(state[name], named[name]) for name in named)
    inputs = torch.linspace(-1, 1, 5 * sizes[0]).reshape(5, sizes[0])
    group, kinds = SymmetryGroup(spec), ("permutation", "sign")
    group.check(ChainRunner(spec).function(inputs), named, kinds=kinds).require(1e-4)
    output = ChainRunner(spec).function(inputs)(named)
    expected = ChainRunner(zoo_spec(sizes, bias=bias)).function(inputs)(plain)
    torch.testing.assert_close(output, expected)


def test_the_common_layout_gives_the_common_spec() -> None:
    named, _ = make([2, 8, 8, 1], NAMINGS["sequential"])
    names = ["seq.0", "seq.2", "seq.4"]
    spec = chain_spec([2, 8, 8, 1], activations="relu", layer_names=names)
    assert recognise_chain(named).to_spec(activations="relu") == spec


@pytest.mark.parametrize(
    ("names", "first"),
    [(("kernel", "A", "w"), True), (("weight", "W", "weights"), False)],
)
def test_square_weights_follow_the_custom_of_their_name(
    names: tuple[str, ...], first: bool
) -> None:
    for name in names:
        tensors = {f"{i}.{name}": torch.randn(4, 4) for i in range(3)}
        assert [layer.transposed for layer in recognise_chain(tensors).layers] == [first] * 3


def test_shapes_overrule_the_custom() -> None:
    tensors = {"0.weight": torch.ones(2, 8), "1.weight": torch.ones(8, 3), "2.w": torch.ones(1, 3)}
    del tensors["2.w"]
    assert recognise_chain(tensors).sizes == (2, 8, 3)
    biased = {"0.kernel": torch.ones(8, 2), "0.bias": torch.ones(8)}
    assert recognise_chain(biased).sizes == (2, 8)
    # Without biases, 3-2-3 and 2-3-2 both fit: the custom decides.
    both = {"0.weight": torch.ones(3, 2), "1.weight": torch.ones(2, 3)}
    assert recognise_chain(both).sizes == (2, 3, 2)
    both = {"0.kernel": torch.ones(3, 2), "1.kernel": torch.ones(2, 3)}
    assert recognise_chain(both).sizes == (3, 2, 3)


def test_biases_are_optional_layer_by_layer() -> None:
    named, _ = make([2, 4, 4, 1], NAMINGS["sequential"])
    del named["seq.2.bias"]
    chain = recognise_chain(named)
    assert [layer.bias is not None for layer in chain.layers] == [True, False, True]


def test_several_chains_in_one_file() -> None:
    state = {}
    for part, sizes in {"actor": [4, 8, 2], "critic": [4, 8, 8, 1]}.items():
        named, _ = make(sizes, NAMINGS["sequential"])
        state |= {f"{part}.{name}": tensor for name, tensor in named.items()}
    chains = recognise_chains(state)
    assert {chain.name: chain.sizes for chain in chains} == {
        "actor.seq": (4, 8, 2),
        "critic.seq": (4, 8, 8, 1),
    }
    with pytest.raises(StateError, match=r"one chain.*2: actor\.seq, critic\.seq"):
        recognise_chain(state)


def test_ensembles_are_chains_beside_each_other() -> None:
    state = {}
    for member in range(3):
        named, _ = make([3, 5, 3], NAMINGS["bare sequential"], seed=member)
        state |= {f"members.{member}.layers.{name}": tensor for name, tensor in named.items()}
    chains = recognise_chains(state)
    assert [chain.name for chain in chains] == [f"members.{m}.layers" for m in range(3)]


def test_another_architecture_is_refused_with_both_named() -> None:
    named, _ = make([2, 8, 1], NAMINGS["functions"])
    chain = recognise_chain(named)
    with pytest.raises(StateError, match=r"expected 2-16-1 with biases, found 2-8-1 with biases"):
        chain.renamed(zoo_spec([2, 16, 1]))
    with pytest.raises(StateError, match=r"expected 2-8-1 without biases"):
        chain.renamed(zoo_spec([2, 8, 1], bias=False))


def test_numbers_take_the_type_of_the_spec() -> None:
    named, plain = make([2, 8, 1], NAMINGS["numbered"])
    chain = recognise_chain({name: tensor.double() for name, tensor in named.items()})
    assert chain.to_spec().parameters[0].dtype == "float64"
    renamed = chain.renamed(zoo_spec([2, 8, 1]))
    assert all(torch.equal(renamed[name], plain[name]) for name in plain)


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"seq.0.scale_factors": (8,)}, "neither the weight nor the bias"),
        ({"seq.0.weight_g": (8,)}, "neither the weight nor the bias"),
        ({"B": (4, 2)}, "neither the weight nor the bias"),
        ({"film.weight": (8, 3), "film.bias": (8,)}, "stands alone"),
        ({"seq.1.weight": (8,), "seq.1.bias": (8,)}, "layer norm, a group norm"),
        ({"seq.1.weight": (8,)}, "activation's parameter"),
        ({"seq.4.weight": (5, 5)}, "takes 5 values, seq.2 gives 1"),
        ({"seq.0.skip.weight": (8, 2)}, "named 'skip'"),
        ({"token_embedding.weight": (5, 5)}, "named 'embedding'"),
        ({"seq.0.gate.weight": (8, 2)}, "named 'gate'"),
        ({"seq.0.other.weight": (8, 2)}, "several layers stand at seq.0"),
    ],
)
def test_what_is_no_chain_is_refused_with_the_reason(
    extra: dict[str, tuple[int, ...]], reason: str
) -> None:
    named, _ = make([2, 8, 1], NAMINGS["sequential"])
    named |= {name: torch.ones(shape) for name, shape in extra.items()}
    with pytest.raises(StateError, match="from_module") as caught:
        recognise_chain(named)
    assert reason in str(caught.value)
    name = next(iter(extra))
    assert (name.rpartition(".")[0] or name) in str(caught.value)


def test_nothing_is_refused() -> None:
    for tensors in ({}, {"step": torch.tensor(3)}, {"x": torch.ones(3)}):
        with pytest.raises(StateError):
            recognise_chain(tensors)


def test_single_numbers_and_markers_are_passed_over() -> None:
    named, _ = make([2, 8, 1], NAMINGS["functions"])
    named |= {"0001.tanh._": torch.ones(0), "steps": torch.tensor(5), "scale": torch.ones(1)}
    chain = recognise_chain(named)
    assert chain.activations == ("tanh",)
    assert str(chain.to_spec().node_sets[1].activation) == "tanh"


@pytest.mark.parametrize(("name", "activation"), [("fox", "relu"), ("bunny", "elu")])
def test_shared_implicit_surfaces(name: str, activation: str) -> None:
    tensors = read_states(shared_data(f"models/implicit/{name}.npz")).tensors
    chain = recognise_chain(tensors)
    width = {"fox": 32, "bunny": 64}[name]
    assert chain.sizes == (3, *[width] * 8, 1)
    assert set(chain.activations) == {activation}
    spec = chain.to_spec()
    points = 2 * torch.rand(200, 3, generator=torch.Generator().manual_seed(0)) - 1
    x = points
    for place, layer in enumerate(chain.layers):
        x = x @ tensors[layer.weight or ""] + tensors[layer.bias or ""]
        x = Activation(activation)(x) if place < 8 else x
    function = ChainRunner(spec).function(points)
    torch.testing.assert_close(function(chain.tensors), x)
    kinds = ("permutation", "scale") if activation == "relu" else ("permutation",)
    assert {r.kind for r in spec.rescalings} == set(kinds[1:])
    SymmetryGroup(spec).check(function, chain.tensors, samples=5, kinds=kinds).require(1e-4)
    assert (x < 0).any()
    assert (x > 0).any()
    check_round_trip(chain)
    canonical = chain_spec(
        chain.sizes, activations=activation, layer_names=[f"seq.{i}" for i in range(9)]
    )
    moved = ChainRunner(canonical).function(points)(chain.renamed(canonical))
    torch.testing.assert_close(moved, x)


def check_round_trip(chain: Chain) -> None:
    state = NeuralGraph.from_states(chain.to_spec(), [chain.tensors]).state_dict()
    assert state.keys() == chain.tensors.keys()
    assert all(torch.equal(state[name], chain.tensors[name]) for name in state)


def test_shared_walkers() -> None:
    stacked = read_states(shared_data("zoos/bipedal_walker_mlps.npz")).tensors
    names = [f"{part}{layer}" for layer in range(3) for part in "wb"]
    inputs = torch.randn(20, 24, generator=torch.Generator().manual_seed(0))
    for walker in range(27):
        tensors = {name: stacked[name][walker] for name in names}
        chain = recognise_chain(tensors)
        assert chain.sizes == (24, 40, 40, 4)
        spec = chain.to_spec(activations="tanh", output=Activation("tanh"))
        function = ChainRunner(spec).function(inputs)
        x = inputs
        for layer in range(3):
            x = torch.tanh(x @ tensors[f"w{layer}"] + tensors[f"b{layer}"])
        torch.testing.assert_close(function(tensors), x)
        SymmetryGroup(spec).check(function, tensors, samples=1).require(1e-4)
        check_round_trip(chain)
    with pytest.raises(StateError):
        recognise_chain(stacked)


def test_shared_agents() -> None:
    tensors = read_states(shared_data("zoos/sb3_actor_critics.safetensors")).tensors
    agents: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        agent, _, rest = name.partition("/")
        agents.setdefault(agent, {})[rest] = tensor
    assert len(agents) == 49
    for state in agents.values():
        state.pop("log_std", None)
        chains = recognise_chains(state)
        assert {chain.name for chain in chains} == {
            "mlp_extractor.policy_net",
            "mlp_extractor.value_net",
        }
        for chain in chains:
            check_round_trip(chain)
            spec = chain.to_spec(activations="tanh")
            function = ChainRunner(spec).function(torch.randn(4, chain.sizes[0]))
            SymmetryGroup(spec).check(function, chain.tensors, samples=1).require(1e-4)
