"""The recipes by name, with their options."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weightspace.errors import ModelError, similar_name
from weightspace.zoo.classifiers import Classifiers
from weightspace.zoo.cnn_wild_park import CnnWildPark
from weightspace.zoo.cnn_zoo import CnnZoo
from weightspace.zoo.inr_audio import inr_audio
from weightspace.zoo.inr_recipe import inr_images
from weightspace.zoo.inr_shapes import inr_shapes
from weightspace.zoo.inr_sines import inr_sines
from weightspace.zoo.language_models import LanguageModels
from weightspace.zoo.recipe import Recipe
from weightspace.zoo.vit_zoo import VitZoo

RECIPES: dict[str, Callable[..., Recipe]] = {
    "inr-images": inr_images,
    "inr-audio": inr_audio,
    "inr-shapes": inr_shapes,
    "inr-sines": inr_sines,
    "cnn-zoo": CnnZoo,
    "cnn-wild-park": CnnWildPark,
    "classifiers": Classifiers,
    "vit-zoo": VitZoo,
    "language-models": LanguageModels,
}
"""What makes each recipe from its options: keyword arguments with types and defaults, one of
them ``seed``."""


@dataclass(frozen=True)
class RecipeOption:
    """An option of a recipe.

    Args:
        name: the keyword.
        kind: its type.
        default: its value if not given.
        meaning: what it says.
    """

    name: str
    kind: Any
    default: Any
    meaning: str = ""

    def __str__(self) -> str:
        value = (
            ",".join(map(str, self.default)) if isinstance(self.default, tuple) else self.default
        )
        return f"{self.name}={value}"


def make_recipe(name: str, options: Mapping[str, Any]) -> Recipe:
    """Make a recipe by name.

    Args:
        name: a key of :data:`RECIPES`.
        options: keyword arguments of its function, as values or as a person types them.

    Raises:
        ModelError: the recipe or an option is unknown, or a value is of another type.

    >>> make_recipe("inr-sines", {"count": 20, "hidden": "8,8"}).parts()
    1
    """
    known = {option.name: option for option in recipe_options(name)}
    values: dict[str, Any] = {}
    for key, value in options.items():
        if key not in known:
            raise ModelError(
                f"recipe {name}",
                expected=f"options {', '.join(known)}",
                found=repr(key),
                hint="`weightspace zoo make --list` shows all.",
            )
        values[key] = _converted(known[key], value)
    return RECIPES[name](**values)


def recipe_options(name: str) -> list[RecipeOption]:
    """The options of a recipe.

    Raises:
        ModelError: there is no recipe of this name.
    """
    if name not in RECIPES:
        raise ModelError(
            "recipe",
            expected=f"one of {', '.join(RECIPES)}",
            found=repr(name),
            hint=similar_name(name, RECIPES)
            or "`weightspace zoo make --list` shows what they are.",
        )
    kinds, meanings = typing.get_type_hints(RECIPES[name]), _meanings(name)
    return [
        RecipeOption(key, kinds[key], parameter.default, meanings.get(key, ""))
        for key, parameter in inspect.signature(RECIPES[name]).parameters.items()
    ]


def recipe_summary(name: str) -> str:
    """The first line of a recipe's description."""
    return (inspect.getdoc(RECIPES[name]) or "").partition("\n")[0]


def _meanings(name: str) -> dict[str, str]:
    """What a recipe's options mean, from the docstrings of its function, or class and bases."""
    made_by = RECIPES[name]
    sources = reversed(made_by.__mro__) if inspect.isclass(made_by) else [made_by]
    meanings: dict[str, str] = {}
    for source in sources:
        section = inspect.cleandoc(source.__doc__ or "").partition("Args:\n")[2]
        section = section.partition("\n\n")[0]
        for key, text in re.findall(r"^    (\w+): (.*(?:\n     .*)*)", section, re.MULTILINE):
            meanings[key] = " ".join(_MARKS.sub(r"\1", text).split())
    return meanings


_MARKS = re.compile(r"(?::\w+:)?`+([^`]*)`+")
"""References and code in docstrings."""


def _converted(option: RecipeOption, value: Any) -> Any:
    """Bring a value into an option's type, if it can stand for it."""
    kinds = _alternatives(option.kind)
    for kind in kinds:
        try:
            return _as(kind, value)
        except (TypeError, ValueError):
            continue
    names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise ModelError(option.name, expected=names, found=repr(value), hint=f"As in {option}.")


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)


def _as(kind: Any, value: Any) -> Any:
    if kind is types.NoneType:
        if value is None or str(value).lower() == "none":
            return None
        raise ValueError
    if typing.get_origin(kind) is tuple:
        item = typing.get_args(kind)[0]
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(_as(item, p) for p in (parts if isinstance(parts, list | tuple) else [parts]))
    if kind is bool or isinstance(value, bool):
        if kind is bool and str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise ValueError
    if kind is int and isinstance(value, float) and not value.is_integer():
        raise ValueError
    return kind(value)
