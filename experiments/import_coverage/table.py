"""The result table of one list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


_REASONS = (
    ("needs a library that was not installed", "library but it was not found"),
    ("no model or module with a forward function is made of the configuration alone", "no class"),
    ("only sizes above the limit of parameters could be made", "are too many"),
    ("no example inputs are known for its arguments", "no example inputs"),
    ("its small configurations are refused", "configuration:"),
)


def write_table(which: str, rows: dict[str, dict[str, Any]], total: int | None = None) -> None:
    """Write ``results/LIST.md``: the counts, every network, and every failure's reason.

    Args:
        which: the list.
        rows: what became of each network that was run.
        total: how many networks the list has.
    """
    stages = ("ok", "check", "import", "timeout", "died", "export", "build")
    counts = {stage: sum(r["stage"] == stage for r in rows.values()) for stage in stages}
    exported = len(rows) - counts["export"] - counts["build"]
    lines = [
        f"# {which}",
        "",
        f"{counts['ok']} of the {exported} networks that torch.export accepts are imported with "
        "every tensor accounted for, an exact round trip, and outputs unchanged within 1e-4 "
        f"under random group elements ({100 * counts['ok'] / max(exported, 1):.1f}%).",
        f"{counts['build']} could not be built or run from a default configuration and "
        f"{counts['export']} could not be exported; these are not counted.",
        *_partly(rows, total),
        *_unbuilt(rows),
        "",
        "| network | stage | parameters | nodes | edges | axes | permutable | ln of the order "
        "| change | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, r in rows.items():
        change = r.get("max_relative_change")
        shown = "" if change is None else f"{change:.1e}"
        cells = [
            name,
            r["stage"],
            *(
                r.get(k, "")
                for k in ("parameters", "nodes", "edges", "axes", "permutable", "log_order")
            ),
            shown,
            r.get("seconds", ""),
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += [
        "",
        "## What did not succeed",
        "",
        "| network | stage | reason |",
        "| --- | --- | --- |",
    ]
    for name, r in rows.items():
        if r["stage"] != "ok":
            reason = str(r.get("error", f"change {r.get('max_relative_change')}"))
            if r.get("rounding_change", 0) > 1e-4:
                reason += (
                    f"; not continuous: rounding alone changes it by {r['rounding_change']:.2g}"
                )
            lines.append(
                f"| {name} | {r['stage']} | "
                f"{reason[:300].replace('|', '/').replace(chr(10), ' ')} |"
            )
    (HERE / "results" / f"{which}.md").write_text("\n".join(lines) + "\n")


def _partly(rows: dict[str, dict[str, Any]], total: int | None) -> list[str]:
    if total is None or total == len(rows):
        return []
    return [
        "",
        f"{len(rows)} of {total} networks have been run so far, in a fixed random order.",
    ]


def _unbuilt(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Why networks could not be built, and how many for each reason."""
    counts: dict[str, int] = {}
    for row in rows.values():
        if row["stage"] == "build":
            error = str(row.get("error", ""))
            found = [reason for reason, sign in _REASONS if sign in error]
            reason = found[0] if found else "none of the example inputs were accepted"
            counts[reason] = counts.get(reason, 0) + 1
    if not counts:
        return []
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return ["", "Not built: " + "; ".join(f"{n} {reason}" for reason, n in ranked) + "."]
