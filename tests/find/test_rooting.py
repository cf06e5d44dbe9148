from __future__ import annotations

from weightspace.find.rooting import Link, rooted


def parents(links: list[Link], count: int) -> dict[int, int | None]:
    return {child: parent for child, parent, _ in rooted(links, count)}


def test_networks_without_links_are_roots() -> None:
    assert list(rooted([], 2)) == [(0, None, "undecided"), (1, None, "undecided")]


def test_proofs_beat_peaks_and_these_the_centre() -> None:
    star = [Link(0, place, 1.0) for place in (1, 2, 3)]
    assert parents(star, 4) == {0: None, 1: 0, 2: 0, 3: 0}
    risen = [Link(0, 1, 1.0, rise=-0.5), *star[1:]]
    assert parents(risen, 4) == {1: None, 0: 1, 2: 0, 3: 0}
    proved = [Link(0, 1, 1.0, rise=-0.5), Link(0, 2, 1.0, derived=0), star[2]]
    assert parents(proved, 4) == {2: None, 0: 2, 1: 0, 3: 0}


def test_reasons() -> None:
    links = [Link(0, 1, 1.0, derived=1), Link(0, 2, 1.0, rise=0.2), Link(0, 3, 1.0), Link(0, 4, 0)]
    reasons = {child: reason for child, _, reason in rooted(links, 5)}
    assert reasons == {0: "undecided", 1: "proved", 2: "peaks", 3: "centre", 4: "undecided"}
    assert [r for _, _, r in rooted([Link(0, 1, 1.0)], 2)] == ["undecided"] * 2


def test_two_families() -> None:
    links = [Link(0, 3, 1.0, rise=1.0), Link(1, 2, 1.0, rise=-1.0)]
    assert parents(links, 4) == {0: None, 3: 0, 2: None, 1: 2}
