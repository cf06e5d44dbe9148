"""What the policies of Stable-Baselines3 name in ways of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from weightspace.importers.recognition.fitting import MisfitError, fit
from weightspace.importers.recognition.groups import Group
from weightspace.importers.recognition.layers import Gathered, Layer

HEADS_OF: dict[tuple[str, ...], tuple[str, ...]] = {
    ("mlp_extractor", "policy_net"): ("action_net",),
    ("mlp_extractor", "value_net"): ("value_net",),
    ("actor", "latent_pi"): ("actor", "mu"),
}
"""Which head follows which trunk."""
POLICIES: dict[tuple[str, ...], int] = {
    ("mlp_extractor", "policy_net"): 2,
    ("actor", "latent_pi"): 1,
    ("actor", "mu"): 1,
}
"""The trunks of policies, and how many components their scope is above."""
DEVIATION = "log_std"


def link_agents(groups: Sequence[Group], tensors: Mapping[str, Tensor]) -> list[Group]:
    """Join the trunks of agents with their heads."""
    linked = list(groups)
    for trunk, head in HEADS_OF.items():
        for group in [g for g in linked if g.key[-len(trunk) :] == trunk and not g.misfit]:
            key = (*group.key[: -len(trunk)], *head)
            followers = [g for g in linked if g.key == key and len(g.matrices) == 1]
            if len(followers) != 1:
                continue
            try:
                layers = fit([*group.layers, *followers[0].layers], tensors)
            except MisfitError:
                continue
            numbers = (*group.numbers, *followers[0].numbers)
            linked = [g for g in linked if g not in (group, *followers)]
            linked.append(Group(group.key, layers, numbers))
    return linked


def find_deviations(
    group: Group, groups: Sequence[Group], gathered: Gathered, tensors: Mapping[str, Tensor]
) -> list[Layer]:
    """The layers beside a policy's head that give its actions' deviations.

    ``log_std`` is a free vector over the actions, which is left out; or a matrix from the last
    hidden neurons to the actions (state-dependent exploration); or a second head.
    """
    depth = POLICIES.get(group.key[-2:])
    if depth is None or group.misfit or len(group.matrices) < 2:
        return []
    scope, last = group.key[:-depth], group.matrices[-1]
    found = [
        other.matrices[0]
        for other in groups
        if other.key == (*scope, DEVIATION)
        and len(other.layers) == len(other.matrices) == 1
        and other.matrices[0].inputs == last.inputs
    ]
    for name, parsed in gathered.strays.items():
        if parsed.path != (*scope, DEVIATION):
            continue
        shape = tuple(tensors[name].shape)
        if shape == (last.outputs,):
            gathered.left_out[name] = "a free parameter of the outputs, which stay in order"
        elif shape == (last.inputs, last.outputs):
            found.append(Layer(parsed.path, "linear", shape, name, transposed=True))
    return found
