"""The command ``weightspace zoo make``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from weightspace.cli.models import parse_options
from weightspace.cli.output import say, show_table, write_json
from weightspace.errors import ModelError

if TYPE_CHECKING:
    from weightspace.zoo import Engine, Zoo

EngineName = Literal["local", "ray"]


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
        list_: show the recipes and their options instead.
        out: the zoo's folder; the recipe's name if not given.
        seed: of every random choice.
        engine: processes of this machine, or tasks of a Ray cluster (extra `ray`).
        workers: processes, or Ray tasks, at a time; 0 for one each core.
        option: options of the recipe, such as steps=200 hidden=64,64.
        json: also write what was made, or the list, as JSON to this file.
    """
    if list_ or recipe is None:
        if recipe is None and not list_:
            raise ModelError(
                "recipe", expected="a name", found="none", hint="See them with --list."
            )
        _show(json)
        return
    from weightspace.zoo.recipe import make_zoo
    from weightspace.zoo.recipes import make_recipe

    chosen = make_recipe(recipe, {**parse_options(option), "seed": seed})
    folder = out or Path(recipe)
    start = time.perf_counter()
    zoo = make_zoo(chosen, folder, engine=_engine(engine, workers))
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


def _show(json: Path | None) -> None:
    from weightspace.zoo.recipes import RECIPES, recipe_options, recipe_summary

    options = {name: [o for o in recipe_options(name) if o.name != "seed"] for name in RECIPES}
    show_table(
        "recipes",
        ["name", "what it makes", "options"],
        [[name, recipe_summary(name), " ".join(map(str, options[name]))] for name in RECIPES],
    )
    if json is not None:
        write_json(
            json,
            [
                {
                    "name": name,
                    "summary": recipe_summary(name),
                    "options": {option.name: option.default for option in options[name]},
                }
                for name in RECIPES
            ],
        )


def _engine(name: EngineName, workers: int) -> Engine:
    if name == "local":
        from weightspace.zoo.recipe import LocalPool

        return LocalPool(workers)
    from weightspace.zoo.ray_engine import RayEngine

    return RayEngine(workers)


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
