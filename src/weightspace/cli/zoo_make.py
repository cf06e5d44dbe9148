"""The command ``weightspace zoo make``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from weightspace.cli.engines import EngineName, make_engine
from weightspace.cli.models import parse_options
from weightspace.cli.output import say, show_table, write_json
from weightspace.errors import ModelError

if TYPE_CHECKING:
    from weightspace.zoo import Zoo
    from weightspace.zoo.recipes import RecipeOption


def make(
    recipe: Positional[str | None] = None,
    *,
    list_: Annotated[bool, arg(name="list")] = False,
    out: Path | None = None,
    seed: int = 0,
    engine: EngineName = "local",
    workers: int = 0,
    option: tuple[str, ...] = (),
    json: Path | None = None,
) -> None:
    """Make a zoo by a recipe, or list the recipes with their options.

    Interrupted or killed, the same command goes on where it stopped; the zoo is the same to the
    bit as one that was not interrupted, whatever the engine.

    Args:
        recipe: its name, such as inr-images or cnn-zoo.
        list_: show the recipes instead, or the options of the one named.
        out: the zoo's folder; the recipe's name if not given.
        seed: of every random choice.
        engine: processes of this machine, or tasks of a Ray cluster (extra `ray`).
        workers: processes, or Ray tasks, at a time; 0 for one each core.
        option: options of the recipe, such as steps=200 hidden=64,64.
        json: also write what was made, or the list, as JSON to this file.
    """
    if list_:
        if recipe is None:
            _show_all(json)
        else:
            _show_one(recipe, json)
        return
    if recipe is None:
        raise ModelError("recipe", expected="a name", found="none", hint="See them with --list.")
    from weightspace.zoo.recipe import make_zoo
    from weightspace.zoo.recipes import make_recipe

    chosen = make_recipe(recipe, {**parse_options(option), "seed": seed})
    folder = out or Path(recipe)
    start = time.perf_counter()
    zoo = make_zoo(chosen, folder, engine=make_engine(engine, workers))
    seconds = time.perf_counter() - start
    measures = _measures(zoo)
    say(f"{zoo} in {folder}, {seconds:.1f} s")
    if measures:
        rows = [
            [name, *(f"{value:.4g}" for value in row.values())] for name, row in measures.items()
        ]
        show_table("measures", ["column", "mean", "least", "greatest"], rows)
    if json is not None:
        write_json(
            json,
            {
                "recipe": recipe,
                "path": str(folder),
                "networks": len(zoo),
                "specs": len(zoo.specs),
                "splits": dict(zoo.splits),
                "seconds": seconds,
                "measures": measures,
            },
        )


def _show_all(json: Path | None) -> None:
    from weightspace.zoo.recipes import RECIPES, recipe_summary

    show_table(
        "recipes",
        ["name", "what it makes", "options"],
        [[name, recipe_summary(name), " ".join(map(str, _options(name)))] for name in RECIPES],
    )
    if json is not None:
        write_json(json, [_described(name) for name in RECIPES])


def _show_one(recipe: str, json: Path | None) -> None:
    options = _options(recipe)
    show_table(
        recipe,
        ["option", "if not given", "what it says"],
        [[o.name, str(o).partition("=")[2], o.meaning] for o in options],
    )
    if json is not None:
        write_json(json, _described(recipe))


def _options(recipe: str) -> list[RecipeOption]:
    """The options of a recipe but for the seed, which the command has."""
    from weightspace.zoo.recipes import recipe_options

    return [option for option in recipe_options(recipe) if option.name != "seed"]


def _described(recipe: str) -> dict[str, Any]:
    from weightspace.zoo.recipes import recipe_summary

    options = {option.name: option.default for option in _options(recipe)}
    return {"name": recipe, "summary": recipe_summary(recipe), "options": options}


def _measures(zoo: Zoo) -> dict[str, dict[str, float]]:
    """Mean, least and greatest finite value of each column of measurements."""
    import numpy as np

    measures: dict[str, dict[str, float]] = {}
    for name in zoo.metadata.schema.names:
        values: Any = zoo.column(name)
        if values.dtype.kind == "f" and np.isfinite(values).any():
            finite = values[np.isfinite(values)]
            measures[name] = {
                "mean": float(finite.mean()),
                "min": float(finite.min()),
                "max": float(finite.max()),
            }
    return measures
