"""Recurrent layers kept whole: gates are features, the hidden axis is shared by all of them."""

from __future__ import annotations

from weightspace.importers.atoms import Atom, Dim, Product, concat, find, leaves, place, unify
from weightspace.importers.call import Call, Result, rule
from weightspace.importers.value import Draw, Value


@rule("lstm", "gru", "rnn_tanh", "rnn_relu")
def recurrent(call: Call) -> Result:
    """``gates = W_ih x + b_ih + W_hh h + b_hh``, layer after layer, in one or two directions.

    The weight's rows are (gates, hidden); projections (LSTM with ``proj_size``) map the
    hidden state to a smaller one that recurs.
    """
    if not isinstance(call["has_biases"], bool):
        raise call.fail("a recurrent layer of padded sequences", "packed sequences")
    x = call["input"]
    gates = {"lstm": 4, "gru": 3}.get(call.name, 1)
    directions = 2 if call["bidirectional"] else 1
    layers = call["num_layers"]
    params = list(call["params"])
    per = len(params) // (layers * directions)
    states = call["hx"] if isinstance(call["hx"], list) else [call["hx"]]
    current = x.dims[-1]
    steps = []
    ends: list[Dim] = []
    cells: list[Dim] = []
    for _ in range(layers):
        outs = []
        for _ in range(directions):
            own, params = params[:per], params[per:]
            out, cell = _cell(own, current, gates, biased=call["has_biases"])
            steps.append((tuple(own), current, out))
            outs.append(out)
            cells.append(cell)
        ends.extend(outs)
        current = outs[0] if directions == 1 else concat(outs)
    return _results(call, x, current, (ends, cells), states, steps)


def _cell(params: list[Value], source: Dim, gates: int, *, biased: bool) -> tuple[Dim, Dim]:
    """Tie one cell's tensors; its output dimension and that of its hidden neurons."""
    w_ih, w_hh = params[:2]
    hidden: Dim = (Atom(w_ih.shape[0] // gates),)
    rows = (*place(gates, "gates"), *hidden)
    unify(w_ih.dims[-1], source)
    biases = params[2:4] if biased else []
    for tensor in (w_ih, w_hh, *biases):
        _bind(tensor.dims[0], rows)
    projection = params[-1] if len(params) > 2 + len(biases) else None
    if projection is None:
        unify(w_hh.dims[1], hidden)
        return hidden, hidden
    unify(projection.dims[1], hidden)
    unify(w_hh.dims[1], projection.dims[0])
    return projection.dims[0], hidden


def _bind(dim: Dim, rows: Dim) -> None:
    """Write a dimension as gates times hidden, the hidden ones the same for every gate."""
    atom = find(dim[0])
    if atom.bound is None and len(dim) == 1 and len(rows) > 1:
        atom.bound = Product(rows)
    else:
        unify(dim, rows)


def _results(  # noqa: PLR0917
    call: Call, x: Value, current: Dim, kinds: tuple[list[Dim], list[Dim]], states: list[Value],
    steps: list[tuple[tuple[Value, ...], Dim, Dim]],
) -> Result:  # fmt: skip
    """Outputs of every step, and the last states: of outputs, and of an LSTM's cells."""
    inputs = [v for v in call.tensors if v.kind != "constant"] or list(call.tensors)
    details = {"steps": steps}
    shape = call.shapes[0]
    assert shape is not None
    results: list[Value | None] = [
        call.make([*x.dims[:-1], current], inputs, draw=Draw("recurrent", tuple(inputs), details))
    ]
    for output, shape in enumerate(call.shapes[1:], start=1):
        assert shape is not None
        if output not in call.used:
            results.append(None)
            continue
        own = kinds[output - 1]
        for end in own[1:]:
            unify(own[0], end)
        batch = [x.dims[0 if call["batch_first"] else 1]] if x.rank == 3 else []
        dims = [place(shape[0], "layers"), *batch, own[0]]
        first = results[0]
        assert first is not None
        results.append(call.make(dims, inputs, draw=Draw("pass", (first,)), output=output))
    for state, own in zip(states, kinds, strict=False):
        # Zeros at the start are alike for all neurons of all layers and tie nothing.
        alike = state.kind == "constant" and not any(leaf.pin for leaf in leaves(state.dims[-1]))
        if not alike:
            for end in own:
                unify(state.dims[-1], end)
    return tuple(results)
