"""The NFN layer in its form NP: input and output neurons are exchanged, too."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.lead import at_lead
from weightspace.nn.matrix_step import matrix_step
from weightspace.nn.nf_slots import IN, OUT, OWN, Segment, Slots


class NFState(NamedTuple):
    """Features of all weights of a batch.

    Args:
        blocks: ``[lead, targets, sources, channels]`` for each segment.
        nodes: of the biases; zero where a node set has none.
        pools: of each segment over its sources and over its targets.
    """

    blocks: list[Float[Tensor, "lead targets sources c"]]
    nodes: Float[Tensor, "nodes c"]
    pools: list[tuple[Tensor, Tensor]]

    @classmethod
    def of(cls, blocks: list[Tensor], nodes: Tensor) -> NFState:
        """A state whose blocks are still to be pooled."""
        return cls(blocks, nodes, [(block.mean(2), block.mean(1)) for block in blocks])


class NFLayer(nn.Module):
    """Map features of all weights and biases, equivariantly.

    Zhou et al. 2023, section 2.2: a weight is given a map of itself, of the means of its row and
    of its column, of the weights of the layers before and after that touch its neurons, of its
    neurons' biases, and of the means of every layer's weights and biases; a bias alike. All that
    lies on a node set is mapped by one product, and all means by another, before anything is
    broadcast. No map depends on sizes, so one layer reads networks of any.

    Args:
        slots: which layers share weights.
        inputs: channels that are read.
        outputs: channels of the result.
        rectify: whether a ReLU follows.
    """

    def __init__(self, slots: Slots, inputs: int, outputs: int, *, rectify: bool = True) -> None:
        super().__init__()
        self.slots, self.outputs, self.rectify = slots, outputs, rectify
        self.entries = nn.ParameterList(torch.empty(outputs, inputs) for _ in range(slots.blocks))
        self.ends = nn.ModuleList(
            nn.Linear(len(ports) * inputs, len(ports) * outputs, bias=False)
            for ports in map(slots.ports, range(slots.nodes))
        )
        means = slots.blocks + len(slots.biased())
        self.means = nn.Linear(means * inputs, means * outputs)
        gain = 2.0 if rectify else 1.0
        weights = [*self.entries, *(layer.weight for layer in self.ends), self.means.weight]
        for weight in weights:  # each of the maps that are added has its share of the variance
            nn.init.normal_(weight, std=math.sqrt(gain / 4 / max(weight.shape[1], 1)))
        nn.init.zeros_(self.means.bias)

    def forward(
        self,
        arrangement: Arrangement,
        parts: list[Segment],
        state: NFState,
        given: Float[Tensor, "nodes three_d"] | None = None,
    ) -> NFState:
        """Map a state.

        Args:
            arrangement: of the batch.
            parts: its segments.
            state: the features.
            given: added to what each neuron gives to its incoming weights, its bias and its
                outgoing weights: position encodings.
        """
        means = self.means(network_means(arrangement, parts, self.slots, state))
        constants = _by_part(arrangement, means, self.outputs)
        ends = self._ends(arrangement, parts, state)
        if given is not None:
            ends = [end + more for end, more in zip(ends, given.chunk(3, -1), strict=True)]
        nodes = self._biases(arrangement, ends[OWN], constants)
        at_targets = arrangement.at_targets(ends[IN])
        at_sources = arrangement.at_sources(ends[OUT])
        blocks, pools = [], []
        for part, block in zip(parts, state.blocks, strict=True):
            constant = [
                constants[m.part][:, part.identity].repeat_interleave(groups, 0)
                for m, groups in zip(part.members, part.groups, strict=True)
            ]
            rows = at_lead(at_targets[part.run], part.lead).squeeze(2) + torch.cat(
                constant
            ).unsqueeze(1)
            columns = at_lead(at_sources[part.run], part.lead).squeeze(1)
            weight = self.entries[part.identity]
            result, *pooled = matrix_step(block, weight, rows, columns, rectify=self.rectify)
            blocks.append(result)
            pools.append((pooled[0], pooled[1]))
        return NFState(blocks, nodes, pools)

    def _ends(
        self, arrangement: Arrangement, parts: list[Segment], state: NFState
    ) -> list[Float[Tensor, "nodes d"]]:
        """What neurons give to their incoming weights, biases and outgoing weights."""
        sizes = [section.count * section.neurons for section in arrangement.sections]
        held = [*received(arrangement, parts, state)]
        held.insert(OWN, state.nodes)
        pieces = [torch.split(buffer, sizes) for buffer in held]
        found: list[list[Tensor | None]] = [[None] * len(sizes) for _ in range(3)]
        groups: dict[int, list[int]] = {}
        for i, section in enumerate(arrangement.sections):
            spec = arrangement.specs[section.part]
            groups.setdefault(self.slots.node(spec, section.place), []).append(i)
        for identity, members in groups.items():
            ports = self.slots.ports(identity)
            rows = [torch.cat([pieces[port][i] for port in ports], -1) for i in members]
            mapped = self.ends[identity](torch.cat(rows) if len(rows) > 1 else rows[0])
            for i, values in zip(
                members, torch.split(mapped, [sizes[i] for i in members]), strict=True
            ):
                for port, value in zip(ports, values.chunk(len(ports), -1), strict=True):
                    found[port][i] = value
        return [
            torch.cat(
                [
                    state.nodes.new_zeros(size, self.outputs) if value is None else value
                    for value, size in zip(port, sizes, strict=True)
                ]
            )
            for port in found
        ]

    def _biases(
        self, arrangement: Arrangement, nodes: Tensor, constants: list[Tensor]
    ) -> Float[Tensor, "nodes d"]:
        """Add the constants to the biases, and keep those that do not exist at zero."""
        biased = {identity: i for i, identity in enumerate(self.slots.biased())}
        states = arrangement.split(nodes)
        for section in arrangement.sections:
            where = section.part, section.place
            if not arrangement.node_set(section).pieces:
                states[where] = torch.zeros_like(states[where])
                continue
            slot = biased[self.slots.node(arrangement.specs[section.part], section.place)]
            constant = constants[section.part][:, self.slots.blocks + slot]
            states[where] = states[where] + constant.unsqueeze(1)
        result = arrangement.join(states)
        return F.relu(result) if self.rectify else result


def received(
    arrangement: Arrangement, parts: list[Segment], state: NFState
) -> tuple[Float[Tensor, "nodes c"], Float[Tensor, "nodes c"]]:
    """The means of each neuron's incoming weights, and of its outgoing ones.

    Of several blocks the means are added.
    """
    width = state.nodes.shape[-1]
    incoming: list[Tensor] = []
    outgoing: list[Tensor] = []
    for place in range(len(arrangement.runs)):
        own = [i for i, part in enumerate(parts) if part.run == place]
        at_target = [state.pools[i][0].flatten(0, 1) for i in own]
        at_source = [state.pools[i][1].flatten(0, 1) for i in own]
        rows = [sum(len(values) for values in side) for side in (at_target, at_source)]
        incoming += [*at_target, state.nodes.new_zeros(rows[1], width)]
        outgoing += [state.nodes.new_zeros(rows[0], width), *at_source]
    if not incoming:
        return torch.zeros_like(state.nodes), torch.zeros_like(state.nodes)
    return arrangement.merge(torch.cat(incoming)), arrangement.merge(torch.cat(outgoing))


def network_means(
    arrangement: Arrangement, parts: list[Segment], slots: Slots, state: NFState
) -> Float[Tensor, "networks means_c"]:
    """The mean of the weights of each identity, and of its biases, for each network.

    Where several blocks of a network share an identity their means are added; where it has
    none the mean is zero.
    """
    biased = {identity: slots.blocks + i for i, identity in enumerate(slots.biased())}
    table: list[dict[int, Tensor]] = [{} for _ in arrangement.counts]

    def add(part: int, slot: int, values: Tensor) -> None:
        known = table[part].get(slot)
        table[part][slot] = values if known is None else known + values

    for part, (over_sources, _) in zip(parts, state.pools, strict=True):
        leads = [m.count * groups for m, groups in zip(part.members, part.groups, strict=True)]
        for member, values in zip(
            part.members, torch.split(over_sources.mean(1), leads), strict=True
        ):
            means = values.view(member.count, -1, values.shape[-1]).mean(1)
            add(member.part, part.identity, means)
    states = arrangement.split(state.nodes)
    for section in arrangement.sections:
        identity = slots.node(arrangement.specs[section.part], section.place)
        if arrangement.node_set(section).pieces:
            means = states[section.part, section.place].mean(1)
            add(section.part, biased[identity], means)
    width, total = state.nodes.shape[-1], slots.blocks + len(biased)
    return torch.cat(
        [
            torch.cat(
                [
                    known[slot] if slot in known else state.nodes.new_zeros(count, width)
                    for slot in range(total)
                ],
                dim=-1,
            )
            for known, count in zip(table, arrangement.counts, strict=True)
        ]
    )


def _by_part(arrangement: Arrangement, means: Tensor, width: int) -> list[Tensor]:
    """Cut rows of all networks into ``[networks, slots, width]`` for each part."""
    return list(torch.split(means.view(len(means), -1, width), list(arrangement.counts)))
