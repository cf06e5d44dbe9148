"""Recurrent layers, unrolled over the steps of the example inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.importers.onnx.operation import Function, Operation, operator

_LONGEST = 256
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}

Cell = Callable[[Tensor, list[Tensor], Tensor, Tensor | None, Tensor | None], list[Tensor]]


@operator("RNN", "GRU", "LSTM")
def recurrent(op: Operation) -> Function:
    """``W [directions, gates * hidden, inputs]``, ``R`` likewise, ``B`` both biases in a row.

    The outputs are all states ``[steps, directions, batch, hidden]`` and the last ones.
    """
    _refuse(op)
    steps, batch = op.shape()[:2]
    direction = str(op.attributes.get("direction", "forward"))
    directions = op.shape(1)[0]
    hidden = op.shape(2)[-1]
    cells = {"RNN": _plain(op), "GRU": _gru(op), "LSTM": _lstm}
    cell: Cell = cells[op.kind]
    states = 2 if op.kind == "LSTM" else 1

    def run(*given: Tensor | None) -> tuple[Any, ...]:
        x, w, r = given[:3]
        assert isinstance(x, Tensor)
        assert isinstance(w, Tensor)
        assert isinstance(r, Tensor)
        b = given[3] if len(given) > 3 else None
        first = (*given[5:7], None, None)
        outs, ends = [], []
        for d in range(directions):
            backwards = direction == "reverse" or d == 1
            state = [
                x.new_zeros(batch, hidden) if start is None else start.select(0, d)
                for start in first[:states]
            ]
            biases = (None, None) if b is None else b.select(0, d).chunk(2)
            out = [x] * steps
            for t in reversed(range(steps)) if backwards else range(steps):
                inputs = F.linear(x.select(0, t), w.select(0, d), biases[0])
                state = cell(inputs, state, r.select(0, d), biases[1], None)
                out[t] = state[0]
            outs.append(torch.stack(out))
            ends.append(state)
        lasts = [torch.stack([end[s] for end in ends]) for s in range(states)]
        return (torch.stack(outs, 1), *lasts)

    return run


def _plain(op: Operation) -> Cell:
    kind = op.attributes.get("activations", ["Tanh"])[0]
    function = torch.tanh if kind in ("Tanh", b"Tanh") else torch.relu

    def cell(
        x: Tensor, state: list[Tensor], r: Tensor, b: Tensor | None, _: Tensor | None
    ) -> list[Tensor]:
        return [function(x + F.linear(state[0], r, b))]

    return cell


def _lstm(
    x: Tensor, state: list[Tensor], r: Tensor, b: Tensor | None, _: Tensor | None
) -> list[Tensor]:
    """Gates in the order input, output, forget, cell."""
    gates = (x + F.linear(state[0], r, b)).chunk(4, -1)
    enter, leave, keep = (torch.sigmoid(gate) for gate in gates[:3])
    memory = keep * state[1] + enter * torch.tanh(gates[3])
    return [leave * torch.tanh(memory), memory]


def _gru(op: Operation) -> Cell:
    """Gates in the order update, reset, candidate."""
    after = bool(op.attributes.get("linear_before_reset", 0))

    def cell(
        x: Tensor, state: list[Tensor], r: Tensor, b: Tensor | None, _: Tensor | None
    ) -> list[Tensor]:
        (h,) = state
        inner = x.chunk(3, -1)
        matrices = r.chunk(3)
        biases: tuple[Tensor | None, ...] = (None,) * 3 if b is None else b.chunk(3)
        update, reset = (
            torch.sigmoid(inner[i] + F.linear(h, matrices[i], biases[i])) for i in (0, 1)
        )
        if after:
            candidate = torch.tanh(inner[2] + reset * F.linear(h, matrices[2], biases[2]))
        else:
            candidate = torch.tanh(inner[2] + F.linear(reset * h, matrices[2], biases[2]))
        return [(1 - update) * candidate + update * h]

    return cell


def _refuse(op: Operation) -> None:
    """Options that no network in use has are refused by name."""
    op.require("layout", 0)
    op.require("input_forget", 0)
    if "clip" in op.attributes:
        op.fail("no clipping of gates", f"clip {op.attributes['clip']}")
    if op.has(7):
        op.fail("a cell without peepholes", "one with them")
    if op.has(4) and set(op.static(4).tolist()) != {op.shape()[0]}:
        op.fail("sequences of full length", "sequence_lens")
    if op.shape()[0] > _LONGEST:
        op.fail(f"at most {_LONGEST} steps", f"{op.shape()[0]}, which input_shapes can make fewer")
    asked = [
        a.decode() if isinstance(a, bytes) else a for a in op.attributes.get("activations", [])
    ]
    usual = _DEFAULTS[op.kind] * op.shape(1)[0]
    relu = op.kind == "RNN" and set(asked) == {"Relu"}
    if asked and asked != usual and not relu:
        op.fail(f"activations {usual}", str(asked))
