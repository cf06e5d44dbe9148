"""Bare checkpoints become graphs with a true symmetry, or ask for the module."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

from tests.data import shared_data
from tests.importers.checkpoint_files import WRITERS
from weightspace.errors import SpecError, StateError
from weightspace.graph import GraphSpec, NeuralGraph, NodeSet, SymmetryGroup
from weightspace.graph.neural_graph import State
from weightspace.importers import (
    Checkpoint,
    from_checkpoint,
    from_module,
    from_state,
    read_states,
)


def check(graph: NeuralGraph, module: nn.Module, inputs: Tensor) -> None:
    """The module's function is unchanged under the graph's group, and its state comes back."""
    state = {name: tensor.detach() for name, tensor in module.state_dict().items()}
    module.eval()

    def function(changed: State) -> Tensor:
        result: Tensor = functional_call(module, dict(changed), (inputs,))
        return result

    SymmetryGroup(graph.spec).check(function, state, samples=4).require(1e-4)
    check_round_trip(graph, state)


def check_round_trip(graph: NeuralGraph, state: State) -> None:
    back = graph.state_dict()
    assert back.keys() == state.keys()
    for name, tensor in state.items():
        assert back[name].dtype == tensor.dtype
        assert torch.equal(back[name], tensor)


def random_statistics(module: nn.Module) -> nn.Module:
    """Give norms values that differ from neuron to neuron, as training does."""
    generator = torch.Generator().manual_seed(1)
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point():
            low = 0.5 if name.endswith("running_var") else -0.5
            tensor.copy_(low + torch.rand(tensor.shape, generator=generator))
    return module


@st.composite
def networks(draw: st.DrawFn) -> tuple[nn.Sequential, Tensor]:
    """A sequence of convolutions, flattened or pooled, then linear layers, with norms."""
    layers: list[nn.Module] = []
    channels, side = draw(st.integers(1, 3)), 8
    inputs = torch.randn(3, channels, side, side)
    for _ in range(draw(st.integers(0, 3))):
        width, kernel = draw(st.integers(1, 6)), draw(st.sampled_from([1, 3]))
        layers.append(nn.Conv2d(channels, width, kernel, bias=draw(st.booleans())))
        if draw(st.booleans()):
            layers.append(nn.BatchNorm2d(width, affine=draw(st.booleans())))
        layers.append(draw(st.sampled_from([nn.ReLU(), nn.Tanh()])))
        channels, side = width, side - kernel + 1
    if layers:
        if draw(st.booleans()):
            layers.append(nn.AdaptiveAvgPool2d(1))
            side = 1
        layers.append(nn.Flatten())
        size = channels * side * side
    else:
        size = channels
        inputs = torch.randn(3, size)
    for _ in range(draw(st.integers(1, 3))):
        width = draw(st.integers(1, 6))
        layers.append(nn.Linear(size, width))
        if draw(st.booleans()):
            layers.append(nn.BatchNorm1d(width))
        layers.append(nn.ReLU())
        size = width
    layers.append(nn.Linear(size, draw(st.integers(1, 3))))
    return nn.Sequential(*layers), inputs


@given(network=networks())
@settings(deadline=None, max_examples=80)
def test_recognised_sequences_keep_their_function(network: tuple[nn.Sequential, Tensor]) -> None:
    module, inputs = network
    random_statistics(module)
    graph = from_state(module.state_dict())
    check(graph, module, inputs)
    matrices = [m for m in module if isinstance(m, nn.Conv2d | nn.Linear)]
    permuting = [axis.size for axis in graph.spec.axes if axis.permutes]
    assert permuting == [m.weight.shape[0] for m in matrices[:-1]]
    left_out = {item.parameter.name for item in graph.spec.left_out}
    assert all(name.endswith("num_batches_tracked") for name in left_out)


def without_rescalings(spec: GraphSpec) -> list[NodeSet]:
    """A spec's node sets; bare checkpoints with norms or convolutions tell no rescalings."""
    return [
        replace(n, pieces=tuple(replace(p, weighings=()) for p in n.pieces)) for n in spec.node_sets
    ]


def test_the_graph_is_that_of_the_module() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3),
        nn.ReLU(), nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 2),
    )  # fmt: skip
    random_statistics(module)
    traced = from_module(module, torch.zeros(2, 3, 14, 14))
    bare = from_state(module.state_dict(), activations="relu")
    assert without_rescalings(bare.spec) == without_rescalings(traced.spec)
    assert bare.spec.axes == traced.spec.axes
    assert {p.name: p.buffer for p in bare.spec.parameters} == {
        p.name: p.buffer for p in traced.spec.parameters
    }
    assert [i.parameter.name for i in bare.spec.left_out] == ["1.num_batches_tracked"]
    for name, edges in traced.edges.items():
        assert torch.equal(bare.edges[name], edges)
    for name, nodes in traced.nodes.items():
        assert torch.equal(bare.nodes[name], nodes)


class Named(nn.Module):
    """Layers under names of their own, run in a given order."""

    def __init__(self, **layers: nn.Module) -> None:
        super().__init__()
        self.order = list(layers)
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: Tensor) -> Tensor:
        for name in self.order:
            layer = self.get_submodule(name)
            if isinstance(layer, nn.Linear) and x.ndim > 2:
                x = x.flatten(1)
            x = layer(x)
            x = x if name == self.order[-1] or "norm" in name else F.relu(x)
        return x


@pytest.mark.parametrize(
    "module",
    [
        Named(conv1=nn.Conv2d(1, 4, 3), bn1=nn.BatchNorm2d(4), conv2=nn.Conv2d(4, 4, 3),
              bn2=nn.BatchNorm2d(4), fc1=nn.Linear(64, 8), fc2=nn.Linear(8, 2)),
        Named(c1=nn.Conv2d(1, 4, 3), c2=nn.Conv2d(4, 5, 3), f3=nn.Linear(80, 2)),
        Named(features=nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3)),
              classifier=nn.Sequential(nn.Flatten(), nn.Linear(80, 6), nn.ReLU(), nn.Linear(6, 2))),
        Named(convs=nn.Sequential(nn.Conv2d(1, 4, 5)), fc=nn.Linear(64, 3)),
    ],
    ids=["conv1 bn1 fc1", "c1 f3", "features classifier", "convs fc"],
)  # fmt: skip
def test_named_convolutional_networks(module: Named) -> None:
    random_statistics(module)
    check(from_state(module.state_dict()), module, torch.randn(2, 1, 8, 8))


@pytest.mark.parametrize(
    "module",
    [
        Named(input=nn.Linear(3, 6), hidden1=nn.Linear(6, 6), output=nn.Linear(6, 1)),
        Named(fc1=nn.Linear(3, 6), ln1=nn.LayerNorm(6), fc2=nn.Linear(6, 6), ln2=nn.LayerNorm(6),
              head=nn.Linear(6, 1)),
        Named(layers=nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 4), nn.BatchNorm1d(4)),
              out=nn.Linear(4, 1)),
        nn.Linear(3, 2),
    ],
    ids=["input hidden output", "layer norms", "norm of the inputs", "one layer"],
)  # fmt: skip
def test_named_perceptrons(module: nn.Module) -> None:
    random_statistics(module)
    check(from_state(module.state_dict()), module, torch.randn(5, 3))


def test_activations_stand_after_the_norms() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1))
    spec = from_state(module.state_dict(), activations=["relu"]).spec
    found = {node_set.name: str(node_set.activation) for node_set in spec.node_sets}
    assert found == {"input": "none", "0": "none", "1": "relu", "3": "none"}
    with pytest.raises(SpecError, match="1"):
        from_state(module.state_dict(), activations=["relu", "relu"])


class Residual(nn.Module):
    """Shapes that chain, and a sum that ties all of them to one order."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.layer1 = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1))
        self.fc = nn.Linear(4, 2)


class GroupNormed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.gn1 = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4)
        self.conv2 = nn.Conv2d(4, 2, 3)


def state_of(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    return {name.replace("__", "."): torch.ones(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (Residual().state_dict(), "named 'layer1.0'"),
        (GroupNormed().state_dict(), "group norm"),
        (state_of(conv1__weight=(8, 3, 3, 3), conv2__weight=(8, 1, 3, 3)), "conv2 takes 1"),
        (state_of(conv1__weight=(8, 3, 3, 3), fc1__weight=(4, 16)), "stands alone"),
        (state_of(conv1__weight=(8, 3, 3, 3), fc1__weight=(4, 8 * 21)), "stands alone"),
        (state_of(decoder__0__weight=(8, 8, 3, 3), decoder__2__weight=(3, 8, 3, 3)), "transposed"),
        (state_of(net__0__weight=(8, 8, 4, 4), net__2__weight=(3, 8, 3, 3)), "transposed"),
        (state_of(trunk__0__weight=(8, 2), trunk__2__weight=(8, 8), alpha__weight=(1, 8),
                  colour__weight=(3, 8)), "stands alone"),
        (state_of(conv4_1__weight=(2, 8, 1, 1), conv4_2__weight=(4, 8, 1, 1)), "conv4_2 takes 8"),
        (state_of(lstm__weight_ih_l0=(8, 2), lstm__weight_hh_l0=(8, 2)), "named 'lstm'"),
        (state_of(fc1__weight=(8, 8), fc1__bias=(8,), norm1__weight=(8,), norm1__bias=(8,),
                  fc2__weight=(8, 8)), "before or after"),
        (state_of(fc1__weight=(8, 2), fc2__weight=(8, 8), bn__weight=(8,), bn__bias=(8,)),
         "unclear place"),
    ],
)  # fmt: skip
def test_what_names_and_shapes_cannot_tell_asks_for_the_module(
    state: dict[str, Tensor], reason: str
) -> None:
    with pytest.raises(StateError, match="from_module") as caught:
        from_state(state)
    assert reason in str(caught.value)


def test_every_tensor_is_in_the_graph_or_left_out_with_its_reason() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    state = {**module.state_dict(), "temperature": torch.tensor([2.0]), "empty": torch.ones(0, 4)}
    spec = from_state(state).spec
    named = {p.name for p in spec.parameters} | {i.parameter.name for i in spec.left_out}
    assert named == set(state)
    reasons = {item.parameter.name: item.reason for item in spec.left_out}
    assert reasons == {
        "1.num_batches_tracked": "integers, which count or point",
        "temperature": "a single number, which no neuron owns",
        "empty": "holds no values",
    }


def test_with_the_module_anything_traceable_is_read(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(2, 4), nn.GroupNorm(2, 4), nn.ReLU(), nn.Linear(4, 1))
    filled = random_statistics(nn.Sequential(*module))
    torch.save({"state_dict": filled.state_dict()}, tmp_path / "a.pt")
    fresh = nn.Sequential(nn.Linear(2, 4), nn.GroupNorm(2, 4), nn.ReLU(), nn.Linear(4, 1))
    before = {name: tensor.clone() for name, tensor in fresh.state_dict().items()}
    graph = from_checkpoint(tmp_path / "a.pt", module=fresh, example_inputs=torch.zeros(1, 2))
    check(graph, filled, torch.randn(5, 2))
    assert all(torch.equal(before[name], t) for name, t in fresh.state_dict().items())
    with pytest.raises(StateError, match=r"Missing key|Unexpected key"):
        from_checkpoint(tmp_path / "a.pt", module=nn.Linear(2, 1), example_inputs=torch.zeros(1, 2))
    with pytest.raises(StateError, match="example_inputs"):
        from_checkpoint(tmp_path / "a.pt", module=fresh)


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_becomes_a_graph(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    graph = from_checkpoint(tmp_path / name)
    assert [axis.size for axis in graph.spec.axes] == [3, 4, 1]


def keras_layer(kind: str, name: str, *sources: str, **config: object) -> dict[str, object]:
    nodes = [[[source, 0, 0, {}] for source in sources]] if sources else []
    return {"class_name": kind, "config": {"name": name, **config}, "inbound_nodes": nodes}


def keras_checkpoint(*layers: dict[str, object]) -> Checkpoint:
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "conv2d/kernel:0": (3, 3, 1, 4), "conv2d/bias:0": (4,),
        "batch_normalization/gamma:0": (4,), "batch_normalization/beta:0": (4,),
        "batch_normalization/moving_mean:0": (4,), "batch_normalization/moving_variance:0": (4,),
        "dense/kernel:0": (4 * 36, 5), "dense/bias:0": (5,), "dense_1/kernel:0": (5, 2),
    }  # fmt: skip
    tensors = {n: 0.5 + torch.rand(s, generator=generator) for n, s in shapes.items()}
    config = {"model_config": {"class_name": "Functional", "config": {"layers": list(layers)}}}
    return Checkpoint(Path("model.h5"), "keras", tensors, config=config if layers else {})


PLAIN = (
    keras_layer("InputLayer", "input_1"),
    keras_layer("Conv2D", "conv2d", "input_1"),
    keras_layer("BatchNormalization", "batch_normalization", "conv2d"),
    keras_layer("Activation", "activation", "batch_normalization"),
    keras_layer("Flatten", "flatten", "activation"),
    keras_layer("Dense", "dense", "flatten"),
    keras_layer("Dense", "dense_1", "dense"),
)


def run_keras(state: State, inputs: Tensor) -> Tensor:
    """The network of :data:`PLAIN`, channels last as Keras runs it."""
    kernel = state["conv2d/kernel:0"].permute(3, 2, 0, 1)
    x = F.conv2d(inputs, kernel, state["conv2d/bias:0"])
    norm = [state[f"batch_normalization/{part}:0"] for part in (
        "moving_mean", "moving_variance", "gamma", "beta")]  # fmt: skip
    x = F.relu(F.batch_norm(x, *norm, eps=1e-3))
    x = x.permute(0, 2, 3, 1).flatten(1)
    x = F.relu(x @ state["dense/kernel:0"] + state["dense/bias:0"])
    return x @ state["dense_1/kernel:0"]


def test_keras_kernels_and_flattening_are_channels_last() -> None:
    checkpoint = keras_checkpoint(*PLAIN)
    graph = from_checkpoint(checkpoint, activations="relu")
    assert graph.edges["conv2d/kernel:0"].shape == (1, 1, 4, 1, 9)
    assert graph.edges["dense/kernel:0"].shape == (1, 1, 5, 4, 36)
    inputs = torch.rand(2, 1, 8, 8)
    group = SymmetryGroup(graph.spec)
    group.check(lambda s: run_keras(s, inputs), checkpoint.tensors, samples=4).require(1e-4)
    check_round_trip(graph, checkpoint.tensors)
    assert sum(axis.permutes for axis in graph.spec.axes) == 2


def test_keras_models_with_merges_or_without_configuration_are_refused() -> None:
    with pytest.raises(StateError, match="weights alone"):
        from_checkpoint(keras_checkpoint())
    add = keras_layer("Add", "add", "batch_normalization", "conv2d")
    with pytest.raises(StateError, match="add reads from batch_normalization, conv2d"):
        from_checkpoint(keras_checkpoint(*PLAIN[:3], add, *PLAIN[4:]))
    branch = keras_layer("Dense", "dense_1", "flatten")
    with pytest.raises(StateError, match="dense_1 reads from flatten"):
        from_checkpoint(keras_checkpoint(*PLAIN[:-1], branch))
    grouped = keras_layer("Conv2D", "conv2d", "input_1", groups=2)
    with pytest.raises(StateError, match="in groups"):
        from_checkpoint(keras_checkpoint(PLAIN[0], grouped, *PLAIN[2:]))
    with pytest.raises(StateError, match="dense has no place"):
        from_checkpoint(
            keras_checkpoint(*PLAIN[:3], keras_layer("Dense", "dense_1", "batch_normalization"))
        )


def test_keras_3_configurations_are_understood() -> None:
    def history(source: str) -> list[object]:
        tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": [source, 0, 0]}}
        return [{"args": [tensor], "kwargs": {}}]

    layers = [dict(layer) for layer in PLAIN]
    for before, layer in zip(PLAIN[:-1], layers[1:], strict=True):
        layer["inbound_nodes"] = history(str(before["config"]["name"]))  # type: ignore[index]
    assert (
        from_checkpoint(keras_checkpoint(*layers)).spec
        == from_checkpoint(keras_checkpoint(*PLAIN)).spec
    )


class LeNet(nn.Module):
    """The network of the shared checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.convnet, self.fc = nn.Module(), nn.Module()
        self.convnet.c1, self.convnet.c3 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.convnet.c5 = nn.Conv2d(16, 120, 5)
        self.fc.f6, self.fc.f7 = nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.convnet.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.convnet.c3(x)), 2)
        x = F.relu(self.convnet.c5(x)).flatten(1)
        result: Tensor = self.fc.f7(F.relu(self.fc.f6(x)))
        return result


def test_shared_lenet() -> None:
    path = shared_data("models/torch/lenet5_mnist.pth")
    module = LeNet()
    module.load_state_dict(read_states(path).tensors)
    graph = from_checkpoint(path)
    assert [axis.size for axis in graph.spec.axes if axis.permutes] == [6, 16, 120, 84]
    check(graph, module, torch.rand(8, 1, 32, 32))


def run_ppo(state: State, inputs: Tensor) -> Tensor:
    results = []
    for trunk, head in (("policy_net", "action_net"), ("value_net", "value_net")):
        x = inputs
        for layer in (f"mlp_extractor.{trunk}.0", f"mlp_extractor.{trunk}.2"):
            x = torch.tanh(F.linear(x, state[f"{layer}.weight"], state[f"{layer}.bias"]))
        results.append(F.linear(x, state[f"{head}.weight"], state[f"{head}.bias"]))
        if trunk == "policy_net" and state.get("log_std", torch.ones(1)).ndim == 2:
            results.append((x**2) @ torch.exp(state["log_std"]) ** 2)
    return torch.cat(results, dim=-1)


def test_shared_agent_archives() -> None:
    path = shared_data("models/sb3/ppo__CartPole-v1_1.zip")
    state, inputs = read_states(path).tensors, torch.randn(6, 4)
    graph = from_checkpoint(path)
    group = SymmetryGroup(graph.spec)
    group.check(lambda s: run_ppo(s, inputs), state, samples=5).require(1e-4)
    check_round_trip(graph, state)
    for name, axes in {"dqn__CartPole-v1_1": [256] * 4, "sac__Pendulum-v1_1": [64] * 10}.items():
        path = shared_data(f"models/sb3/{name}.zip")
        graph = from_checkpoint(path)
        assert [axis.size for axis in graph.spec.axes if axis.permutes] == axes
        check_round_trip(graph, read_states(path).tensors)


def test_shared_actor_critics_with_their_deviations() -> None:
    tensors = read_states(shared_data("zoos/sb3_actor_critics.safetensors")).tensors
    agents: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        agent, _, rest = name.partition("/")
        agents.setdefault(agent, {})[rest] = tensor
    seen = set()
    for state in agents.values():
        graph = from_state(state, activations="tanh")
        seen.add(state["log_std"].ndim if "log_std" in state else 0)
        inputs = torch.randn(3, state["mlp_extractor.policy_net.0.weight"].shape[1])
        group = SymmetryGroup(graph.spec)
        kinds = ("permutation", "sign")
        group.check(lambda s, x=inputs: run_ppo(s, x), state, samples=1, kinds=kinds).require(1e-4)
        assert sum(axis.permutes for axis in graph.spec.axes) == 4
        check_round_trip(graph, state)
    assert seen == {0, 1, 2}


def test_a_second_head_for_deviations() -> None:
    state = state_of(
        actor__latent_pi__0__weight=(8, 3), actor__latent_pi__0__bias=(8,),
        actor__latent_pi__2__weight=(8, 8), actor__mu__weight=(2, 8), actor__mu__bias=(2,),
        actor__log_std__weight=(2, 8), actor__log_std__bias=(2,),
    )  # fmt: skip
    spec = from_state(state).spec
    ends = [(block.source, block.target) for block in spec.blocks]
    assert ("actor.latent_pi.2", "actor.log_std") in ends
    assert ("actor.latent_pi.2", "actor.mu") in ends


@pytest.mark.parametrize(
    "name",
    [
        "models/torch/resnet20_cifar10.th",
        "models/torch/nerf_lego.ckpt",
        "models/torch/mtcnn_pnet.pt",
        "models/torch/attacut_c_dilated_cnn.pth",
        "models/safetensors/stories260K_llama.safetensors",
        "models/keras_h5/mlperf_tiny_resnet8_cifar10.h5",
        "zoos/nerf_7scenes.safetensors",
    ],
)
def test_shared_networks_that_are_no_sequences_ask_for_the_module(name: str) -> None:
    path = shared_data(name)
    with pytest.raises(StateError, match="from_module") as caught:
        from_checkpoint(path)
    assert path.name in str(caught.value)


NAME = st.lists(
    st.sampled_from(
        ["0", "1", "10", "net", "fc1", "fc", "conv2", "bn1", "weight", "bias", "w0", "A",
         "kernel:0", "weights", "running_mean", "input", "head", "log_std", "actor",
         "mu", "latent_pi", "²", "",
         "9" * 5000, "mlp_extractor", "policy_net", "action_net"]
    ) | st.text(max_size=4),
    min_size=1, max_size=4,
)  # fmt: skip
SHAPE = st.lists(st.sampled_from([0, 1, 2, 3, 4]), max_size=5).map(tuple)


@given(st.dictionaries(NAME.map(".".join), SHAPE, max_size=8))
@settings(deadline=None, max_examples=150)
def test_any_names_and_shapes_give_a_graph_or_a_clear_error(
    shapes: dict[str, tuple[int, ...]],
) -> None:
    state = {name: torch.rand(shape) for name, shape in shapes.items()}
    try:
        graph = from_state(state)
    except (StateError, SpecError):
        return
    check_round_trip(graph, state)
