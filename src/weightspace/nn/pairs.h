/* Walking over the pairs of a grid in groups, for the compiled passes over pairs.
 *
 * A grid has `lead` blocks of `receivers` x `senders` pairs, one after the other in the buffer of
 * all pairs; the pairs (j, i) of a block's (i, j) are a block of the same or of another grid. A
 * unit is a part of one block's receivers. Threads have units one after the other, in a fixed way,
 * and what adds up over units is kept by thread, so that results do not depend on timing.
 */
#pragma once

#include "vectors.h"
#include <memory>

constexpr int ROWS = 48; /* pairs of a group: what products make of them stays in the cache */

struct Grid {
    /* first and reverse: where the grid's pairs and their reverses begin in the buffer */
    long lead, splits, receivers, senders, first, reverse, threads;
};

/* Where a pair's values lie: rows of the buffers of pairs and of ends, and of senders' sums. */
struct Place {
    long pair, reverse, receiver, sender, summed;
};

/* A thread's pairs in order. */
struct Walk {
    const Grid &grid;
    long unit = 0, end, block = 0, receiver = 0, stop = 0, sender = 0;

    Walk(const Grid &grid, long thread)
        : grid(grid), end(grid.lead * grid.splits * (thread + 1) / grid.threads) {
        enter(grid.lead * grid.splits * thread / grid.threads);
    }

    void enter(long number) {
        unit = number, block = unit / grid.splits;
        receiver = grid.receivers * (unit % grid.splits) / grid.splits;
        stop = grid.receivers * (unit % grid.splits + 1) / grid.splits;
    }

    bool next(Place &place) {
        if (unit == end) return false;
        long own = block * grid.receivers + receiver, other = block * grid.senders + sender;
        place = {grid.first + own * grid.senders + sender,
                 grid.reverse + other * grid.receivers + receiver, own, other,
                 unit * grid.senders + sender};
        if (++sender == grid.senders) {
            sender = 0;
            if (++receiver == stop) enter(unit + 1);
        }
        return true;
    }
};

/* Values of a group's pairs. */
template <int COLUMNS> struct Table {
    alignas(64) float values[ROWS][COLUMNS];
    float *rows[ROWS];

    Table() {
        for (int i = 0; i < ROWS; i++) rows[i] = values[i];
    }
    float *operator[](long i) { return values[i]; }
};

/* Call `work(group, thread)` for every group; `make` makes what a thread works on. */
template <typename Make, typename Work>
INLINE void for_groups(const Grid &grid, const float *pairs, Make make, Work work) {
#pragma omp parallel for schedule(static) num_threads(grid.threads)
    for (long thread = 0; thread < grid.threads; thread++) {
        auto group = make();
        Walk walk(grid, thread);
        while (group->take(walk, pairs)) work(*group, thread);
    }
}
