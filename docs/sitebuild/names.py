"""The public names of the package: what they are and where they are documented."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin

from sphinx.pycode import ModuleAnalyzer

Kind = Literal["class", "exception", "function", "data", "module"]


@dataclass(frozen=True)
class Public:
    """A name of a package's ``__all__``.

    Args:
        package: whose name it is.
        name: as it is imported.
        kind: of thing.
        value: the thing.
        home: the module that defines it.
    """

    package: str
    name: str
    kind: Kind
    value: Any
    home: str

    @property
    def path(self) -> str:
        """What one types to import it."""
        return f"{self.package}.{self.name}"

    @property
    def documentation(self) -> str:
        """Its own documentation; empty if it has none."""
        if get_origin(self.value) is Literal:  # its values say it, if nobody else does
            said = comment_of(self.home, self.name)
            return said or "One of " + ", ".join(f"``{x!r}``" for x in get_args(self.value)) + "."
        if self.kind == "data":
            return comment_of(self.home, self.name)
        return inspect.getdoc(self.value) or ""


def packages(root: str = "weightspace") -> list[str]:
    """Every package below a root that says what is public in it, and the root itself."""
    top = importlib.import_module(root)
    found = [root]
    for item in pkgutil.walk_packages(top.__path__, f"{root}."):
        if item.ispkg and hasattr(importlib.import_module(item.name), "__all__"):
            found.append(item.name)
    return [root, *sorted(set(found) - {root})]


def public_names(package: str) -> list[Public]:
    """All names of a package but those with two underscores."""
    module = importlib.import_module(package)
    names = [name for name in module.__all__ if not name.startswith("__")]
    return [_public(package, name, getattr(module, name)) for name in names]


def documented(roots: list[str]) -> tuple[dict[str, list[Public]], dict[str, str]]:
    """Where each thing is documented: in the first of the packages that have it.

    Returns:
        The names documented in each package; and for all other paths, the path where the same
        thing is documented.
    """
    pages: dict[str, list[Public]] = {}
    places: dict[tuple[str, str], str] = {}
    elsewhere: dict[str, str] = {}
    for package in sorted(roots, key=lambda name: (name.count("."), name)):
        for item in public_names(package):
            key = (item.home, item.name)
            if key in places:
                elsewhere[item.path] = places[key]
            else:
                places[key] = item.path
                pages.setdefault(package, []).append(item)
    return pages, elsewhere


def _public(package: str, name: str, value: Any) -> Public:
    if isinstance(value, types.ModuleType):
        return Public(package, name, "module", value, value.__name__)
    if inspect.isclass(value) and not isinstance(value, types.GenericAlias):
        kind: Kind = "exception" if issubclass(value, BaseException) else "class"
        return Public(package, name, kind, value, value.__module__)
    if inspect.isroutine(value) or hasattr(value, "__wrapped__"):
        return Public(package, name, "function", value, value.__module__)
    return Public(package, name, "data", value, home_of(package, name))


@cache
def home_of(module: str, name: str) -> str:
    """The module that gives a name its value; imports are followed."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return home_of(node.module, alias.name)
    return module


def comment_of(module: str, name: str) -> str:
    """The documentation that stands below or beside a value."""
    comments = ModuleAnalyzer.for_module(module).find_attr_docs()
    return "\n".join(comments.get(("", name), ())).strip()


def leaves(app: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command of the command line, as the words that are typed."""
    for name, entry in app._subcommands.items():
        target = getattr(entry, "target", entry)
        if hasattr(target, "_subcommands"):
            yield from leaves(target, (*prefix, name))
        else:
            yield (*prefix, name)
