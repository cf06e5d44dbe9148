"""Rules of recurrent layers, whole and unrolled."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from .checking import faithful, groups


class Reader(nn.Module):
    def __init__(self, cell: nn.Module, width: int, *, last: bool = False) -> None:
        super().__init__()
        self.inlet, self.cell, self.head = nn.Linear(3, 4), cell, nn.Linear(width, 2)
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        outputs, states = self.cell(self.inlet(x))
        states = states[0] if isinstance(states, tuple) else states
        return self.head(states[-1] if self.last else outputs)


KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_one_layer(kind: str) -> None:
    graph = faithful(Reader(KINDS[kind](4, 5, batch_first=True), 5), torch.randn(2, 6, 3))
    assert groups(graph) == ["4", "5"]
    block = graph.spec.block("cell.weight_hh_l0")
    assert (block.kind, block.source) == ("recurrent", block.target)
    assert graph.spec.shape_of(block) == (1, 5, 5, GATES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_layers_and_directions(kind: str) -> None:
    cell = KINDS[kind](4, 5, num_layers=2, bidirectional=True, batch_first=True)
    assert groups(faithful(Reader(cell, 10), torch.randn(2, 6, 3))) == ["4", "5", "5", "5", "5"]


def test_relu_cells_without_biases_time_first() -> None:
    cell = nn.RNN(4, 5, nonlinearity="relu", bias=False)
    assert groups(faithful(Reader(cell, 5), torch.randn(6, 2, 3))) == ["4", "5"]


def test_projected_cells() -> None:
    cell = nn.LSTM(4, 5, proj_size=3, num_layers=2, batch_first=True)
    assert groups(faithful(Reader(cell, 3), torch.randn(2, 6, 3))) == ["3", "3", "4", "5", "5"]


def test_last_states_tie_the_layers() -> None:
    cell = nn.GRU(4, 5, num_layers=2, batch_first=True)
    graph = faithful(Reader(cell, 5, last=True), torch.randn(2, 6, 3))
    assert groups(graph) == ["4", "5"]


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_unrolled_cells(kind: str) -> None:
    make = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn": nn.RNNCell}[kind]

    class Unrolled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inlet, self.cell, self.head = nn.Linear(3, 4), make(4, 5), nn.Linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            state = None
            for t in range(x.shape[1]):
                state = self.cell(self.inlet(x[:, t]), state)
            return self.head(state[0] if isinstance(state, tuple) else state)

    assert groups(faithful(Unrolled(), torch.randn(2, 3, 3))) == ["4", "5"]
