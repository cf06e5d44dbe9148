"""Rankings on the command line: `train --task regress --model auto`, and `predict` with them."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightspace.cli.output import printable, say, show_table, write_json, write_text
from weightspace.errors import counted

if TYPE_CHECKING:
    from weightspace.rank import Ranked, Ranking
    from weightspace.zoo import Zoo

MODEL_FILE = "model.safetensors"
TEST = "test"


def train_ranking(
    zoo: Zoo,
    *,
    target: str,
    model: str,
    by: str | None,
    coverage: float,
    shares: bool,
    out: Path,
    seed: int,
) -> dict[str, Any]:
    """Fit a ranking, save it, and show how good it is and how far it can be trusted.

    The split ``test``, where a zoo has one, is set aside and judged once.
    """
    from weightspace.rank import Examples, fit_ranking, save_ranking

    rows, held = _rows(zoo)
    examples = Examples.of_zoo(zoo, target, by=by, rows=rows)
    ranking = fit_ranking(
        examples,
        model=model,
        coverage=coverage,
        shares=shares,
        folder=out / "candidates",
        seed=seed,
        progress=True,
    )
    results = ranking.report()
    if held:
        results |= _tested(ranking, Examples.of_zoo(zoo, target, by=by, rows=held, name=TEST))
    results |= {"left_out_networks": len(rows) + len(held) - len(examples), "seed": seed}
    if held:
        results["left_out_networks"] -= results["test_networks"]
    save_ranking(out / MODEL_FILE, ranking)
    _show(ranking, results)
    return results


def predict_ranking(
    model: Path,
    files: tuple[Path, ...],
    *,
    out: Path,
    activation: str | None,
    coverage: float | None,
    json: Path | None,
) -> None:
    """Rank networks, with intervals; those that are unlike anything seen are named, not guessed."""
    from weightspace.rank import load_ranking, rank_networks

    ranking = load_ranking(model)
    ranked = rank_networks(ranking, files, activation=activation, coverage=coverage)
    wanted = ranking.coverage if coverage is None else coverage
    if ranked.rows:
        _show_ranked(ranking, ranked, out, wanted, activation)
    if json is not None:
        write_json(
            json,
            {
                "model": str(model),
                "target": ranking.target,
                "coverage": wanted,
                "trust": ranking.trust.to_dict(),
                "notes": ranking.notes(),
                "predictions": ranked.rows,
                "failures": [str(problem) for problem in ranked.problems],
            },
        )
    for problem in ranked.problems[:-1]:
        sys.stderr.write(f"error: {printable(str(problem))}\n")
    if ranked.problems:
        raise ranked.problems[-1]


def _rows(zoo: Zoo) -> tuple[list[int], list[int]]:
    """The networks to learn from, and those of the split for testing."""
    held = zoo.split(TEST).tolist() if TEST in zoo.splits else []
    away = set(held)
    rest = [row for row in range(len(zoo)) if row not in away]
    return (rest, held) if rest else (held, [])


def _tested(ranking: Ranking, examples: Any) -> dict[str, Any]:
    import numpy as np

    from weightspace.rank.ranking import ranking_scores

    networks = None
    if ranking.reads_weights:
        from weightspace.graph import MixedGraph
        from weightspace.tasks.batches import read_networks

        networks = MixedGraph.of(read_networks(examples.zoo, examples.rows.tolist()))
    said = ranking.predict(examples.features, networks)
    inside = (said.low <= examples.values) & (examples.values <= said.high)
    return {
        **{f"test_{k}": v for k, v in ranking_scores(said.values, examples.values).items()},
        "test_coverage": float(np.mean(inside)),
        "test_unlike": float(np.mean(said.unlike)),
        "test_networks": len(examples),
    }


def _show(ranking: Ranking, results: dict[str, Any]) -> None:
    show_table(
        f"candidates for {ranking.target}, cross-validated",
        ["model", "tau", "Spearman", "R2"],
        [
            [name, *(f"{scores[key]:.3f}" for key in ("tau", "spearman", "r2"))]
            for name, scores in ranking.scores.items()
        ],
    )
    trust = ranking.trust
    say(
        f"{ranking.model}: Kendall's tau {trust.tau:.2f} ({trust.low:.2f} to {trust.high:.2f}), "
        f"p = {trust.p_value:.3f}, {counted(len(ranking.calibration.folds), 'network')} of "
        f"{counted(trust.sources, 'source')}"
    )
    if "test_tau" in results:
        say(
            f"on {results['test_networks']} test networks: tau {results['test_tau']:.2f}, "
            f"{results['test_coverage']:.0%} inside their intervals"
        )
    say_trust(ranking)


def say_trust(ranking: Ranking) -> None:
    """Say whether a ranking can be trusted, and what else to know."""
    if not ranking.trust.trusted:
        say("do not trust this ranking: " + "; ".join(ranking.trust.reasons))
    for note in ranking.notes():
        say(f"note: {note}")


def _show_ranked(
    ranking: Ranking, ranked: Ranked, out: Path, coverage: float, activation: str | None
) -> None:
    head = ["rank", "file", ranking.target, "low", "high", "unlike"]
    keys = ("rank", "file", "value", "low", "high")
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(head)
    shown = []
    for row in ranked.rows:
        exact = ["" if row[key] is None else row[key] for key in keys]
        why = ", ".join(row["differs_in"])
        writer.writerow([*exact, "yes" if row["unlike"] else "no"])
        numbers = [_short(row[key]) for key in ("value", "low", "high")]
        shown.append([exact[0], row["file"], *numbers, f"yes: {why}" if row["unlike"] else ""])
    write_text(out, table.getvalue())
    show_table(f"{ranking.target}, with {coverage:.0%} intervals", head, shown)
    strange = sum(row["unlike"] for row in ranked.rows)
    if strange:
        say(f"{strange} of {len(ranked.rows)} are unlike anything seen and are not ranked")
    say_trust(ranking)
    if strange == len(ranked.rows) and activation is not None:
        say(f"they were read with --activation {activation}: is it what the training networks had?")
    say(f"written to {out}")


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
