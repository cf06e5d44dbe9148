"""Specs as JSON: canonical, complete, safe to read from files of unknown origin."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from weightspace.errors import SpecError
from weightspace.graph.activations import Activation
from weightspace.graph.axis import Axis, Mixing, Rescaling
from weightspace.graph.binding import Factor, LeftOut, Mixed, Parameter, Piece, Span, Weighing
from weightspace.graph.spec import EdgeBlock, GraphSpec, NodeSet


def spec_to_json(spec: GraphSpec) -> str:
    """Write a spec as canonical JSON: equal specs give equal text.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 3, 1], activations="relu")
    >>> spec_from_json(spec_to_json(spec)) == spec
    True
    """
    return json.dumps(spec_to_dict(spec), sort_keys=True, separators=(",", ":"))


def spec_to_dict(spec: GraphSpec) -> dict[str, Any]:
    """Write a spec as plain dictionaries and lists."""
    return {
        field.name: [dataclasses.asdict(item) for item in getattr(spec, field.name)]
        for field in dataclasses.fields(spec)
    }


def spec_from_json(text: str) -> GraphSpec:
    """Read a spec written by :func:`spec_to_json`.

    Raises:
        SpecError: the text is not JSON, not a spec, or a spec that contradicts itself.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise SpecError("spec", expected="JSON", found=str(error)) from error
    return spec_from_dict(data)


def spec_from_dict(data: Any) -> GraphSpec:
    """Read a spec from plain dictionaries and lists.

    Raises:
        SpecError: a field is missing or of the wrong kind.
    """
    try:
        return GraphSpec(
            axes=tuple(Axis(**item) for item in data["axes"]),
            node_sets=tuple(_node_set(item) for item in data["node_sets"]),
            blocks=tuple(_block(item) for item in data["blocks"]),
            parameters=tuple(_parameter(item) for item in data["parameters"]),
            left_out=tuple(
                LeftOut(_parameter(item["parameter"]), str(item["reason"]), item.get("same_as"))
                for item in data.get("left_out", [])
            ),
            rescalings=tuple(Rescaling(**item) for item in data.get("rescalings", [])),
            mixings=tuple(Mixing(**item) for item in data.get("mixings", [])),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise SpecError("spec", expected="the fields of a graph spec", found=repr(error)) from error


def _parameter(item: dict[str, Any]) -> Parameter:
    return Parameter(**{**item, "shape": tuple(item["shape"])})


def _piece(item: dict[str, Any]) -> Piece:
    return Piece(
        item["parameter"],
        tuple(
            Span(tuple(Factor(**factor) for factor in span["factors"]), span["start"])
            for span in item["spans"]
        ),
        tuple(Weighing(**weighing) for weighing in item["weighings"]),
        tuple(Mixed(**mixed) for mixed in item.get("mixed", [])),
    )


def _activation(item: dict[str, Any]) -> Activation:
    arguments = tuple((str(key), float(value)) for key, value in item["arguments"])
    return Activation(item["name"], arguments)


def _node_set(item: dict[str, Any]) -> NodeSet:
    return NodeSet(
        item["name"],
        tuple(item["axes"]),
        item["role"],
        _activation(item["activation"]),
        tuple(_piece(piece) for piece in item["pieces"]),
    )


def _block(item: dict[str, Any]) -> EdgeBlock:
    return EdgeBlock(
        item["name"],
        item["source"],
        item["target"],
        item["kind"],
        tuple(item["shared"]),
        tuple(_piece(piece) for piece in item["pieces"]),
    )
