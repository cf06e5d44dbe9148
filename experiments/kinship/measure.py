"""How often kinds of kinship, and directions, are found right; on networks made here.

    python experiments/kinship/measure.py --out experiments/kinship/results.json

Networks on scikit-learn's digits: none of them was looked at when the thresholds were chosen.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from weightspace.find import Folder, Index, Network, kinship, search, trace_lineage
from weightspace.find.freeing import freed
from weightspace.find.rooting import CLEAR
from weightspace.graph import SymmetryGroup
from weightspace.importers import from_state

State = dict[str, Tensor]
DIGITS = load_digits()
X = torch.tensor(DIGITS.data / 16.0, dtype=torch.float32)
Y = torch.tensor(DIGITS.target)
SEEDS = range(700, 703)


def mlp(widths: tuple[int, ...], act: type[nn.Module]) -> nn.Module:
    """A multilayer perceptron on digits."""
    sizes = (64, *widths)
    layers = [m for i, o in zip(sizes, widths, strict=False) for m in (nn.Linear(i, o), act())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 10))


def cnn(widths: tuple[int, ...]) -> nn.Module:
    """A small convolutional network on digits."""
    one, two = widths
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, one, 3, padding=1), nn.ReLU(),
        nn.Conv2d(one, two, 3, padding=1, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(16 * two, 10),
    )  # fmt: skip


KINDS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "relu MLP 64-56-40-10": (lambda: mlp((56, 40), nn.ReLU), "scale"),
    "tanh MLP 64-24-24-10": (lambda: mlp((24, 24), nn.Tanh), "sign"),
    "relu MLP 64-40-40-40-10": (lambda: mlp((40, 40, 40), nn.ReLU), "scale"),
    "CNN 12-24": (lambda: cnn((12, 24)), "scale"),
}
TASKS: dict[str, tuple[Tensor, Tensor]] = {
    "inverted": (1 - X, Y),
    "rotated": (X.view(-1, 8, 8).rot90(1, (1, 2)).reshape(-1, 64), Y),
    "noisy": (X + 0.3 * torch.randn(X.shape, generator=torch.Generator().manual_seed(7)), Y),
    "labels": (X, (Y + 3) % 10),
    "subset": (X[Y < 5], Y[Y < 5]),
    "parity": (X, Y % 2),
    "half": (X[::2], Y[::2]),
}


def train(net: nn.Module, data: tuple[Tensor, Tensor], epochs: int, **options: Any) -> nn.Module:
    """Train a copy of a network."""
    settings = {"lr": 1e-3, "decay": 0.0, "seed": 0, **options}
    net, (x, y) = copy.deepcopy(net), data
    generator = torch.Generator().manual_seed(settings["seed"])
    if settings.get("sgd"):
        step: Any = torch.optim.SGD(
            net.parameters(), settings["lr"], momentum=0.9, weight_decay=settings["decay"]
        )
    else:
        step = torch.optim.AdamW(net.parameters(), settings["lr"], weight_decay=settings["decay"])
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(128):
            step.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            step.step()
    return net


def network(state: State) -> Network:
    """A network to compare, read as from a bare file."""
    return Network.of(state, from_state(state).spec)


def moved(state: State, kinds: tuple[str, ...], seed: int = 1) -> State:
    """The same function with neurons in another order, and rescaled."""
    spec = from_state(state).spec
    if len(kinds) > 1:
        spec = freed(spec, (kinds[1],))  # type: ignore[arg-type]
    group = SymmetryGroup(spec)
    return group.sample(torch.Generator().manual_seed(seed), kinds=kinds).act_state(state)


def rounded(state: State) -> State:
    """Round every matrix to 255 even steps."""
    steps = {n: t.abs().max() / 127 for n, t in state.items()}
    return {n: (t / steps[n]).round() * steps[n] if t.ndim > 1 else t for n, t in state.items()}


def pruned(state: State, share: float) -> State:
    """Set the smallest weights of every matrix to zero."""

    def cut(tensor: Tensor) -> Tensor:
        return tensor.abs().flatten().kthvalue(int(share * tensor.numel())).values

    return {n: t * (t.abs() > cut(t)) if t.ndim > 1 else t for n, t in state.items()}


def made(state: State, rescaling: str) -> Iterator[tuple[str, str, State]]:
    """What can be made of a network without training: expected kind, how, state."""
    for how, kinds in {
        "as it is": (), "reordered": ("permutation",), "rescaled": ("permutation", rescaling),
    }.items():  # fmt: skip
        base = moved(state, kinds) if kinds else {n: t.clone() for n, t in state.items()}
        yield ("permuted copy" if kinds else "copy"), how, base
        yield "quantised", how, {n: t.half() for n, t in base.items()}
        yield "quantised", how, rounded(base)
        for share in (0.3, 0.6, 0.9):
            yield "pruned", f"{how} {share:.0%}", pruned(base, share)


def with_new_head(net: nn.Module, seed: int) -> nn.Module:
    """Give a network another last layer, and train it on another task."""
    torch.manual_seed(seed)
    changed = copy.deepcopy(net)
    assert isinstance(changed, nn.Sequential)
    assert isinstance(changed[-1], nn.Linear)
    changed[-1] = nn.Linear(changed[-1].in_features, 4)
    return train(changed, (X, Y % 4), 8, lr=3e-4)


def measure_kinds() -> tuple[Counter[tuple[str, str]], list[dict[str, Any]]]:
    """Confusions of kinds, and the cases that were not found as expected."""
    confusion: Counter[tuple[str, str]] = Counter()
    wrong: list[dict[str, Any]] = []

    def check(expected: str, one: Network, state: State, case: str) -> None:
        kin = kinship(one, network(state))
        confusion[expected, kin.kind] += 1
        if kin.kind != expected:
            wrong.append({"expected": expected, "found": kin.kind, "case": case,
                          "similarity": round(kin.similarity, 3)})  # fmt: skip

    for name, (make, rescaling) in KINDS.items():
        bases = []
        for seed in SEEDS:
            torch.manual_seed(seed)
            bases.append((make(), seed))
        trained = [(train(start, (X, Y), 20, seed=seed), seed) for start, seed in bases]
        for (start, _), (base, seed) in zip(bases, trained, strict=True):
            own = network(base.state_dict())
            for expected, how, state in made(base.state_dict(), rescaling):
                check(expected, own, state, f"{name}, {how}")
            for place, (task, data) in enumerate(TASKS.items()):
                lr, epochs = ((1e-4, 3), (3e-4, 8), (1e-3, 12))[place % 3]
                tuned = train(base, data, epochs, lr=lr, seed=seed + place).state_dict()
                check("fine-tune", own, tuned, f"{name}, {task}, {lr}")
                back = moved(tuned, ("permutation", rescaling))
                check("fine-tune", own, back, f"{name}, {task}, {lr}, rescaled")
                for other, other_seed in trained:
                    if other_seed < seed:
                        check("unrelated", network(other.state_dict()), tuned, f"{name}, {task}")
            headed = with_new_head(base, seed).state_dict()
            check("fine-tune", own, headed, f"{name}, new head")
            check("fine-tune", own, moved(headed, ("permutation",)), f"{name}, new head, reordered")
            sibling = train(start, TASKS["rotated"], 20, seed=seed + 50)
            check("related", own, sibling.state_dict(), f"{name}, of one initialisation")
            for other, other_seed in (*trained, *bases):
                if other_seed < seed:
                    check("unrelated", own, other.state_dict(), f"{name}, another seed")
    return confusion, wrong


def measure_directions() -> dict[str, Any]:
    """How often a rise of the peaks tells a fine-tune from what it was made of."""
    generator = torch.Generator().manual_seed(5)
    counts: Counter[str] = Counter()

    def draw(things: list[Any]) -> Any:
        return things[int(torch.randint(len(things), (), generator=generator))]

    ways = [{"decay": 0.0}, {"decay": 0.01}, {"decay": 0.5}, {"sgd": True},
            {"sgd": True, "decay": 5e-4}, {"sgd": True, "decay": 5e-3}]  # fmt: skip
    for make, _ in KINDS.values():
        for seed in range(800, 805):
            torch.manual_seed(seed)
            start, way = make(), draw(ways)
            first = {"lr": 0.05 if way.get("sgd") else 1e-3, "seed": seed, **way}
            base = train(start, (X, Y), draw([10, 25]), **first)
            pairs = [("training", start, base)]
            for _ in range(3):
                way = draw(ways)
                lr = draw([0.005, 0.02, 0.05]) if way.get("sgd") else draw([1e-4, 3e-4, 1e-3])
                data = TASKS[draw(list(TASKS))]
                tuned = train(base, data, draw([3, 8, 15]), lr=lr, seed=seed, **way)
                pairs.append(("fine-tuning", base, tuned))
            for what, before, after in pairs:
                rise = kinship(network(before.state_dict()), network(after.state_dict())).rise
                said = "none" if abs(rise) < CLEAR else "right" if rise > 0 else "wrong"
                counts[f"{what}: {said}"] += 1
                counts[f"{what}: rises"] += rise > 0
    return dict(sorted(counts.items()))


def write_family(folder: Path, number: int, name: str) -> dict[str, str | None]:
    """A network, copies and fine-tunes of it; each file's parent."""
    make, rescaling = KINDS[name]
    torch.manual_seed(900 + number)
    base = train(make(), (X, Y), 20, seed=number)
    tuned = [
        train(base, TASKS[t], 8, lr=4e-4, seed=number) for t in ("inverted", "rotated", "parity")
    ]
    again = train(tuned[0], TASKS["labels"], 8, lr=4e-4, seed=number)
    own = base.state_dict()
    files: dict[str, tuple[State, str | None]] = {
        "base": (own, None),
        "rescaled": (moved(own, ("permutation", rescaling)), "base"),
        "half": ({n: t.half() for n, t in own.items()}, "base"),
        "int8": (rounded(own), "base"),
        "pruned": (pruned(own, 0.6), "base"),
        "tuned0": (tuned[0].state_dict(), "base"),
        "tuned1": (tuned[1].state_dict(), "base"),
        "tuned2": (moved(tuned[2].state_dict(), ("permutation",)), "base"),
        "again": (again.state_dict(), "tuned0"),
        "again-int8": (rounded(again.state_dict()), "again"),
        "head": (with_new_head(base, number).state_dict(), "base"),
    }
    for file, (state, _) in files.items():
        torch.save(dict(state), folder / f"{number}-{file}.pt")
    return {
        f"{number}-{file}.pt": None if parent is None else f"{number}-{parent}.pt"
        for file, (_, parent) in files.items()
    }


def measure_lineage() -> dict[str, Any]:
    """How often parents are found, and with which reason, in a folder of families."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        folder, parents = Path(place), {}
        for number, name in enumerate(list(KINDS) * 2):
            parents |= write_family(folder, number, name)
        index = Index.of(Folder(folder))
        for step in trace_lineage(index).steps:
            name, parent = step.entry.name, None if step.parent is None else step.parent.name
            if _copied(parent) == _copied(parents[name]) or _copied(parent) == _copied(name):
                said = "right"
            else:
                turned = parent is not None and _copied(parents[parent]) == _copied(name)
                said = "reversed" if turned else "another parent"
            counts[f"{step.reason or 'root'}: {said}"] += 1
        by_name = {entry.name: entry for entry in index.entries}
        for number in range(len(KINDS) * 2):
            family = {n for n in parents if n.startswith(f"{number}-")}
            query = index.network(by_name[f"{number}-base.pt"])
            found = search(query, index, top=len(family))
            counts["search: of the family"] += sum(f.entry.name in family for f in found)
            counts["search: family members"] += len(family)
    return dict(sorted(counts.items()))


def _copied(name: str | None) -> str | None:
    """Copies stand for each other: nobody can tell them apart."""
    return None if name is None else name.replace("rescaled", "base")


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    confusion, wrong = measure_kinds()
    result = {
        "kinds": {f"{e} -> {f}": n for (e, f), n in sorted(confusion.items())},
        "wrong": wrong,
        "directions": measure_directions(),
        "lineage": measure_lineage(),
    }
    out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
