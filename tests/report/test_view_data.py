"""The data of the page that shows a network: numbers as in the tensors, text that stays text."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
import torch
from torch import nn

from tests.align.networks import trained
from weightspace.graph import GraphSpec, NeuralGraph
from weightspace.importers.flowing import FlowReader
from weightspace.report.view_content import View
from weightspace.report.view_encoding import Encoded, encode, script_json
from weightspace.report.view_maps import MapShape, pooled, starts, target_rows
from weightspace.report.view_network import block_norms, view_network
from weightspace.report.view_observing import Batch, observe_chain, observe_module


def decoded(coded: Encoded) -> np.ndarray:
    if "f4" in coded:
        return np.frombuffer(base64.b64decode(coded["f4"]), "<f4")
    return np.frombuffer(base64.b64decode(coded["i2"]), "<i2") * coded["step"]


def test_numbers_come_back() -> None:
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    assert np.array_equal(decoded(encode(values, exact=True)), values)
    near = decoded(encode(values, exact=False))
    assert np.abs(near - values).max() <= np.abs(values).max() / 32767 / 1.9
    odd = np.array([np.nan, np.inf, 1.0], np.float32)
    assert np.array_equal(decoded(encode(odd, exact=False)), odd, equal_nan=True)
    assert decoded(encode(np.zeros(3), exact=False)).tolist() == [0, 0, 0]


def test_no_text_ends_its_element() -> None:
    data = {"</script>": ["<!--", "&amp;", "\u2028", "\ud800", "\x00"], "n": float("nan")}
    text = script_json(data)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {
        "</script>": ["<!--", "&amp;", "\u2028", "\ufffd", "\ufffd"],
        "n": "nan",
    }


@pytest.mark.parametrize("shape", [(7, 13), (64, 3), (1, 50)])
def test_pooling_is_that_of_a_plain_loop(shape: tuple[int, int]) -> None:
    layers = list(np.random.default_rng(1).normal(size=(2, *shape)))
    mean, largest = pooled(layers, 5)
    rows, columns = (np.append(starts(n, 5), n) for n in shape)
    for i in range(mean.shape[0]):
        for j in range(mean.shape[1]):
            cell = np.stack(layers)[:, rows[i] : rows[i + 1], columns[j] : columns[j + 1]].ravel()
            assert mean[i, j] == pytest.approx(cell.mean())
            assert largest[i, j] == cell[np.abs(cell).argmax()]


def test_rows_are_neurons_in_the_order_of_their_layer() -> None:
    module, inputs = trained("transformer", 0)
    reader = FlowReader(module, inputs)
    state = dict(module.state_dict())
    graph = NeuralGraph.from_states(reader.spec, [state])
    name = "1.layers.0.self_attn.in_proj_weight"
    block = reader.spec.block(name)
    rows = target_rows(reader.spec, block, graph.edges[name][0])
    matrix = MapShape.of(block, reader.spec.shape_of(block)).matrix(rows)[0]
    weight = state[name].numpy().reshape(3, 16, 16)  # query, key and value side by side
    assert np.array_equal(matrix, np.concatenate(list(weight), axis=1))
    out = state["1.layers.0.self_attn.out_proj.weight"]
    norms = block_norms(graph, "outgoing")[name]
    assert np.allclose(norms, out.double().norm(dim=0))


def view_of(kind: str) -> tuple[View, GraphSpec, nn.Module, torch.Tensor]:
    module, inputs = trained(kind, 0)
    reader = FlowReader(module, inputs)
    state = dict(module.state_dict())
    seen = observe_module(module, reader, state, [Batch(inputs)], described="random inputs")
    return (
        view_network(reader.spec, state, title=kind, observation=seen),
        reader.spec,
        module,
        inputs,
    )


def test_features_are_the_networks_own() -> None:
    view, _, module, inputs = view_of("mlp")
    neurons = view.neurons["1"]
    with torch.no_grad():
        values = torch.relu(module[1](inputs.flatten(1)))
    assert np.allclose(neurons["mean"], values.mean(0), atol=1e-6)
    assert np.allclose(neurons["active"], (values != 0).float().mean(0))
    assert np.allclose(neurons["incoming"], module[1].weight.detach().norm(dim=1))
    assert np.array_equal(neurons["bias"], module[1].bias.detach())
    (0.5 * module(inputs).square().mean()).backward()
    assert np.allclose(neurons["gradient"], module[1].weight.grad.norm(dim=1), atol=1e-6)
    shown = view.as_data()["blocks"][0]
    weight = module[1].weight.detach()
    assert np.array_equal(decoded(shown["maps"]["weight"]["mean"]), weight.numpy().ravel())
    assert shown["statistics"]["norm"] == pytest.approx(float(weight.double().norm()))


def test_a_chain_is_seen_as_its_module_is() -> None:
    view, spec, module, inputs = view_of("mlp")
    chain = nn.Sequential(module[1], nn.ReLU(), module[3], nn.Tanh(), module[5])
    from weightspace.graph import chain_spec

    flat = chain_spec([64, 24, 16, 10], activations=["relu", "tanh"], layer_names=["0", "2", "4"])
    state = dict(chain.state_dict())
    seen = observe_chain(flat, state, inputs.flatten(1), labels=None, described="random inputs")
    assert np.allclose(seen.activations["2",]["mean"], view.neurons["3"]["mean"], atol=1e-6)
    assert torch.allclose(seen.gradient["0.weight"], _gradient(module, inputs), atol=1e-6)
    assert spec.node_count == flat.node_count


def _gradient(module: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    module.zero_grad()
    (0.5 * module(inputs).square().mean()).backward()
    found: torch.Tensor = module[1].weight.grad
    return found


def test_batches_are_seen_as_one() -> None:
    module, inputs = trained("mlp", 0)
    labels = torch.arange(16) % 10
    halves = [Batch(inputs[:8], labels[:8]), Batch(inputs[8:], labels[8:])]
    state = dict(module.state_dict())
    seen = []
    for batches in ([Batch(inputs, labels)], halves):
        reader = FlowReader(module, batches[0].inputs)
        seen.append(observe_module(module, reader, state, batches, described=""))
    for key in ("mean", "spread", "active"):
        assert np.allclose(seen[0].activations["1",][key], seen[1].activations["1",][key])
    for name, slope in seen[0].gradient.items():
        torch.testing.assert_close(seen[1].gradient[name], slope)
    assert {own.loss for own in seen} == {"the cross-entropy"}


def test_what_never_answers_is_marked_but_not_where_residuals_add() -> None:
    module, inputs = trained("residual", 0)
    with torch.no_grad():
        module.first[1].weight[3], module.first[1].bias[3] = 0, -1  # always below zero
        module.second[1].bias[5] = -100
        module.stem[1].bias[5] = -100
    reader = FlowReader(module, inputs)
    state = dict(module.state_dict())
    seen = observe_module(module, reader, state, [Batch(inputs)], described="random inputs")
    found = view_network(reader.spec, state, title="", observation=seen).findings
    assert [(f.mark, f.axis, f.neurons) for f in found] == [("silent", "first.0", (3,))]
