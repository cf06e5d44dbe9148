/* Attention to pairs with states of their own, forward and backward, for float32.
 *
 * Of every pair e of receiver i and sender j: queries q_i + Q e, keys k_j + K e, factors S e + s of
 * the values v_j. Groups of pairs pass through, whose projections stay in the processor's cache;
 * backward computes them again.
 *
 * PAIRS, SIZE and HEADS, the channels of pairs and of queries and their heads, are known when this
 * is compiled. PAIRS and SIZE / HEADS are multiples of 16, HEADS is a power of 2 up to 16.
 */
#include "pairs.h"
#include <cmath>

constexpr int VECTORS = PAIRS / LANES, HEAD = SIZE / HEADS, ALL = 3 * SIZE;
/* Heads whose sums are in registers together. */
constexpr int SOME = HEADS % 4 == 0 && VECTORS <= 4 ? 4 : 1;

/* At a grid's receivers, [lead, receivers, SIZE], and senders. */
struct Nodes {
    const float *query, *key, *value;
};

/* At the grid's receivers: gradients of the sums of values, [SIZE], and of pairs, [HEADS, PAIRS],
 * and each head's product of both with the sums themselves. */
struct Given {
    const float *mixed, *pooled, *common;
};

/* map is [PAIRS, ALL], back its transpose but with queries' and keys' part exchanged. */
struct Maps {
    const float *map, *back, *start;
};

/* Sums of gradients: those of senders are [lead, splits, senders, SIZE]; those of parameters a
 * thread's: the map's in the order of `back`, and the factors' bias. */
struct Sums {
    float *query, *key, *value, *parameters;
};

/* In lane h, for each of COUNT heads h, the sum of parts[h], WIDTH lanes of which count. */
template <int COUNT, int WIDTH = LANES> INLINE vec sums_of(const vec *parts) {
    constexpr int LEFT = COUNT > 1 ? COUNT / 2 : 1;
    constexpr whole EVEN{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
    if constexpr (WIDTH == 1) return parts[0];
    vec sums[LEFT];
#pragma GCC unroll 8
    for (int i = 0; i < LEFT; i++) {
        vec one = parts[i * COUNT / LEFT], two = parts[(i + 1) * COUNT / LEFT - 1];
        sums[i] = __builtin_shuffle(one, two, EVEN) + __builtin_shuffle(one, two, EVEN + 1);
    }
    return sums_of<LEFT, WIDTH == 1 ? 1 : WIDTH / 2>(sums);
}

INLINE void store_heads(float *place, vec values) {
    __builtin_memcpy(place, &values, HEADS * sizeof(float));
}

INLINE vec load_heads(const float *place) {
    vec values{};
    __builtin_memcpy(&values, place, HEADS * sizeof(float));
    return values;
}

/* What a thread works on: pairs, and their states times a map with COLUMNS columns. */
template <int COLUMNS> struct Group {
    const float *map, *start;
    long count = 0;
    Place places[ROWS];
    const float *states[ROWS];
    Table<COLUMNS> projected;

    Group(const float *map, const float *start) : map(map), start(start) {}

    /* Call `work(first, last, receiver, fresh)` for the pairs of every receiver: `fresh` if they
     * are the first of its pairs, so that nothing is at the receiver yet. */
    template <typename Work> void for_receivers(const Grid &grid, Work work) const {
        for (long first = 0, last = 0; first < count; first = last) {
            long receiver = places[first].receiver;
            while (last < count && places[last].receiver == receiver) last++;
            bool fresh = places[first].pair == grid.first + receiver * grid.senders;
            work(first, last, receiver, fresh);
        }
    }

    bool take(Walk &walk, const float *pairs) {
        for (count = 0; count < ROWS && walk.next(places[count]); count++)
            states[count] = pairs + places[count].pair * PAIRS;
        multiply<COLUMNS>(states, projected.rows, count, PAIRS, map, start);
        return count > 0;
    }
};

/* One pair's products of queries and keys, from its projections to both. */
INLINE vec logits_of(const float *projected, const float *query, const float *key) {
    vec parts[HEADS] = {};
#pragma GCC unroll 16
    for (int h = 0; h < HEADS; h++)
        for (int j = h * HEAD; j < (h + 1) * HEAD; j += LANES)
            parts[h] += (load(projected + j) + load(query + j)) *
                        (load(projected + SIZE + j) + load(key + j));
    return sums_of<HEADS>(parts);
}

/* Turn the logits of one receiver's pairs into shares, but for a factor, and add them up. The heads
 * of several pairs share a vector. */
INLINE void share(float *logits, long count, const float *most, bool fresh, float *total) {
    float largest[LANES], sums[LANES], rest[LANES];
    for (int i = 0; i < LANES; i++) largest[i] = most[i % HEADS], rest[i] = -INFINITY;
    auto shares_of = [&](const float *values) {
        return moderate_exponential(larger(load(values) - load(largest), all(-87.0f)));
    };
    vec sum{};
    long whole_vectors = count * HEADS / LANES * LANES, left = count * HEADS - whole_vectors;
    for (long i = 0; i < whole_vectors; i += LANES) sum += at(logits + i) = shares_of(logits + i);
    __builtin_memcpy(rest, logits + whole_vectors, left * sizeof(float));
    at(rest) = shares_of(rest);
    __builtin_memcpy(logits + whole_vectors, rest, left * sizeof(float));
    at(sums) = sum;
    for (int i = 0; i < left; i++) sums[i] += rest[i];
    for (int h = 0; h < HEADS; h++) total[h] = fresh ? 0.0f : total[h];
    for (int i = 0; i < LANES; i++) total[i % HEADS] += sums[i];
}

/* The weighted sums of values and of states for the pairs from `first` to `last`, which have one
 * receiver; added to what is there unless they are the first of it. */
INLINE void receive(Group<SIZE> &group, long first, long last, bool fresh, const float *value,
                    const float *shares, float *mixed, float *pooled) {
    for (int h = 0; h < HEADS; h += SOME) {
        vec totals[SOME][VECTORS] = {}, values[SOME][HEAD / LANES] = {};
        for (long row = first; row < last; row++) {
            const Place &place = group.places[row];
            const float *share = shares + place.pair * HEADS + h;
            const float *factor = group.projected[row] + h * HEAD;
            const float *moved = value + place.sender * SIZE + h * HEAD;
#pragma GCC unroll 4
            for (int i = 0; i < SOME; i++) {
#pragma GCC unroll 8
                for (int j = 0; j < HEAD / LANES; j++) {
                    int at_channel = i * HEAD + j * LANES;
                    values[i][j] += share[i] * load(factor + at_channel) * load(moved + at_channel);
                }
#pragma GCC unroll 8
                for (int j = 0; j < VECTORS; j++)
                    totals[i][j] += share[i] * load(group.states[row] + j * LANES);
            }
        }
        for (int i = 0; i < SOME; i++) {
            float *to = mixed + (h + i) * HEAD, *to_pooled = pooled + (h + i) * PAIRS;
            for (int j = 0; j < HEAD; j += LANES)
                at(to + j) = fresh ? values[i][j / LANES] : load(to + j) + values[i][j / LANES];
            for (int j = 0; j < PAIRS; j += LANES)
                at(to_pooled + j) =
                    fresh ? totals[i][j / LANES] : load(to_pooled + j) + totals[i][j / LANES];
        }
    }
}

/* A pair's values at its ends, and where their gradients are summed. */
struct AtEnds {
    const float *query, *key, *value, *mixed, *pooled, *common;
    float *d_query, *d_key, *d_value;

    AtEnds(const Place &place, const Nodes &nodes, const Given &given, const Sums &sums)
        : query(nodes.query + place.receiver * SIZE), key(nodes.key + place.sender * SIZE),
          value(nodes.value + place.sender * SIZE), mixed(given.mixed + place.receiver * SIZE),
          pooled(given.pooled + place.receiver * HEADS * PAIRS),
          common(given.common + place.receiver * HEADS),
          d_query(sums.query + place.receiver * SIZE), d_key(sums.key + place.summed * SIZE),
          d_value(sums.value + place.summed * SIZE) {}
};

/* The gradients of a pair's logits. */
INLINE vec d_logits_of(const AtEnds &ends, const float *state, const float *factor,
                       const float *share) {
    vec parts[HEADS] = {};
#pragma GCC unroll 16
    for (int h = 0; h < HEADS; h++) {
        for (int j = h * HEAD; j < (h + 1) * HEAD; j += LANES)
            parts[h] += load(ends.mixed + j) * load(ends.value + j) * load(factor + j);
        for (int j = 0; j < PAIRS; j += LANES)
            parts[h] += load(ends.pooled + h * PAIRS + j) * load(state + j);
    }
    return load_heads(share) * (sums_of<HEADS>(parts) - load_heads(ends.common));
}

/* One pair's gradients of the projections, in their place with keys first, of its ends, and of
 * its state through `pooled`. */
INLINE void give(const AtEnds &ends, const float *state, float *projected, const float *share,
                 float *d_state) {
    float d_logit[LANES];
    at(d_logit) = d_logits_of(ends, state, projected + 2 * SIZE, share);
    vec total[VECTORS] = {};
#pragma GCC unroll 16
    for (int h = 0; h < HEADS; h++) {
#pragma GCC unroll 8
        for (int j = h * HEAD; j < (h + 1) * HEAD; j += LANES) {
            vec d_offered = (load(projected + j) + load(ends.query + j)) * d_logit[h];
            vec d_asked = (load(projected + SIZE + j) + load(ends.key + j)) * d_logit[h];
            vec d_moved = load(ends.mixed + j) * share[h];
            at(ends.d_query + j) += d_asked;
            at(ends.d_key + j) += d_offered;
            at(ends.d_value + j) += d_moved * load(projected + 2 * SIZE + j);
            at(projected + j) = d_offered;
            at(projected + SIZE + j) = d_asked;
            at(projected + 2 * SIZE + j) = d_moved * load(ends.value + j);
        }
#pragma GCC unroll 8
        for (int j = 0; j < VECTORS; j++)
            total[j] += share[h] * load(ends.pooled + h * PAIRS + j * LANES);
    }
    for (int j = 0; j < VECTORS; j++) at(d_state + j * LANES) = total[j];
}

extern "C" {

/* logits is [pairs, HEADS]; most, the largest of each receiver, [lead, receivers, HEADS]; map
 * [PAIRS, 2 SIZE]. */
void attention_logits(const Grid &grid, const float *map, const Nodes &nodes, const float *pairs,
                      float *logits, float *most) {
    for_groups(
        grid, pairs, [&] { return std::make_unique<Group<2 * SIZE>>(map, nullptr); },
        [&](Group<2 * SIZE> &group, long) {
            group.for_receivers(grid, [&](long first, long last, long receiver, bool fresh) {
                vec largest = fresh ? all(-INFINITY) : load_heads(most + receiver * HEADS);
                for (long i = first; i < last; i++) {
                    vec logit = logits_of(group.projected[i], nodes.query + receiver * SIZE,
                                          nodes.key + group.places[i].sender * SIZE);
                    store_heads(logits + group.places[i].pair * HEADS, logit);
                    largest = larger(logit, largest);
                }
                store_heads(most + receiver * HEADS, largest);
            });
        });
}

/* Shares, but for a factor, replace the logits. At each receiver, [lead, receivers, ...]: most, the
 * largest logits of all its pairs; the sums of shares, of values and of states. The map is
 * [PAIRS, SIZE]. */
void attention_received(const Grid &grid, const float *map, const float *start, const Nodes &nodes,
                        const float *pairs, float *logits, const float *most, float *total,
                        float *mixed, float *pooled) {
    for_groups(
        grid, pairs, [&] { return std::make_unique<Group<SIZE>>(map, start); },
        [&](Group<SIZE> &group, long) {
            group.for_receivers(grid, [&](long first, long last, long receiver, bool fresh) {
                share(logits + group.places[first].pair * HEADS, last - first,
                      most + receiver * HEADS, fresh, total + receiver * HEADS);
                receive(group, first, last, fresh, nodes.value, logits, mixed + receiver * SIZE,
                        pooled + receiver * HEADS * PAIRS);
            });
        });
}

/* d_pairs has the grid's pairs written; sums are added to. */
void attention_backward(const Grid &grid, const Maps &maps, const Nodes &nodes, const float *pairs,
                        const float *shares, const Given &given, const Sums &sums, float *d_pairs) {
    for_groups(
        grid, pairs, [&] { return std::make_unique<Group<ALL>>(maps.map, maps.start); },
        [&](Group<ALL> &group, long thread) {
            Table<PAIRS> d_states, through;
            float *d_map = sums.parameters + thread * (ALL * PAIRS + SIZE);
            for (long i = 0; i < group.count; i++)
                give(AtEnds(group.places[i], nodes, given, sums), group.states[i],
                     group.projected[i], shares + group.places[i].pair * HEADS, d_states[i]);
            add_outer<ALL, PAIRS>(group.projected.rows, group.states, group.count, d_map);
            for (int j = 0; j < SIZE; j += LANES) {
                vec total = load(d_map + ALL * PAIRS + j);
                for (long i = 0; i < group.count; i++)
                    total += load(group.projected[i] + 2 * SIZE + j);
                at(d_map + ALL * PAIRS + j) = total;
            }
            multiply<PAIRS>(group.projected.rows, through.rows, group.count, ALL, maps.back,
                            nullptr);
            for (long i = 0; i < group.count; i++)
                for (int j = 0; j < PAIRS; j += LANES)
                    at(d_pairs + group.places[i].pair * PAIRS + j) =
                        load(d_states[i] + j) + load(through[i] + j);
        });
}
}
