"""The result table of one list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def write_table(which: str, rows: dict[str, dict[str, Any]]) -> None:
    """Write ``results/LIST.md``: the counts, every network, and every failure's reason."""
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
