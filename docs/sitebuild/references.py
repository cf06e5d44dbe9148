"""Names that docstrings refer to: they must exist, wherever they are documented."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from sitebuild.names import documented, packages


def register(app: Sphinx) -> None:
    """Answer for names that Sphinx does not find by itself."""
    app.connect("missing-reference", _resolve)


def found(target: str, module: str | None, owner: str | None) -> tuple[str, str] | None:
    """The module and the name of what a docstring refers to, or None.

    Args:
        target: as it stands in the docstring.
        module: the package on whose page the docstring is.
        owner: the class that it belongs to, if any.

    >>> found("weightspace.graph.chain.chain_spec", None, None)
    ('weightspace.graph.chain', 'chain_spec')
    """
    for candidate in _candidates(target, module, owner):
        place = _existing(candidate)
        if place is not None:
            return place
    return None


def _candidates(target: str, module: str | None, owner: str | None) -> Iterator[str]:
    yield target
    if module is None:
        return
    yield f"{module}.{target}"
    if owner is not None:
        yield f"{module}.{owner}.{target}"
        home = getattr(importlib.import_module(module), owner.split(".")[0], None)
        if home is not None:
            yield f"{home.__module__}.{target}"


def _existing(path: str) -> tuple[str, str] | None:
    """Import as much of a path as is modules, and look up the rest."""
    words = path.split(".")
    for count in range(len(words), 0, -1):
        name = ".".join(words[:count])
        if not name.startswith("weightspace"):
            return None
        try:
            value: Any = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        for word in words[count:]:
            fields = {f.name for f in dataclasses.fields(value)} if _is_record(value) else set()
            if not hasattr(value, word) and word not in fields:
                return None
            value = getattr(value, word, None)
        return name, ".".join(words[count:])
    return None


def _is_record(value: Any) -> bool:
    return inspect.isclass(value) and dataclasses.is_dataclass(value)


def _resolve(app: Sphinx, env: Any, node: Any, content: nodes.Element) -> nodes.Element | None:
    if node.get("refdomain") != "py":
        return None
    module, owner = node.get("py:module"), node.get("py:class")
    place = found(node["reftarget"], module, owner)
    if place is None and module is not None and node.get("reftype") != "class":
        # Functions of a module refer to their neighbours, which stand in other packages' pages.
        place = next((p for p in _neighbours(node["reftarget"], module) if p is not None), None)
    if place is None:
        return None
    path = _documented().get(place)
    if path is not None:
        domain = env.domains["py"]
        linked = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", path, node, content)
        if linked is not None:
            return linked
    return content


def _neighbours(target: str, package: str) -> Iterator[tuple[str, str] | None]:
    """The same name in every module that the package's public things come from."""
    if not hasattr(importlib.import_module(package), "__all__"):
        return
    pages, _ = documented([package])
    for home in dict.fromkeys(item.home for item in pages.get(package, [])):
        yield _existing(f"{home}.{target}")


_PLACES: dict[tuple[str, str], str] = {}


def _documented() -> dict[tuple[str, str], str]:
    if not _PLACES:
        for items in documented(packages())[0].values():
            _PLACES.update({(item.home, item.name): item.path for item in items})
    return _PLACES
