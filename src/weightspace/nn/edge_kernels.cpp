/* The two passes of NG-GNN over all edges of a batch, each forward and backward, for float32.
 *
 * A way is a direction of blocks of equal shape: `lead` blocks of `receivers` x `senders` edges; the
 * edge of receiver r and sender s of a block is its row r * receiver_step + s * sender_step. All
 * ways of a batch go through in one call, because a batch of many architectures has many small
 * ones. A unit is a part of one block's receivers. Every thread has a fixed share of the units,
 * and what adds up over units is kept by share, so that results do not depend on timing. Edges pass
 * through in groups of about ROWS, whose products and intermediate values stay in the processor's
 * cache.
 *
 * WIDTH, the channels of a state, is a multiple of 16 and known when this is compiled: the
 * products are unrolled over registers.
 */
#include "vectors.h"
#include <algorithm>
#include <cmath>
#include <vector>

constexpr int VECTORS = WIDTH / LANES, ROWS = 96;

struct Way {
    long lead, splits, receivers, senders, receiver_step, sender_step;
    long direction, start;            /* along or against, and the first of its edges */
    const long *receiver, *sender;    /* rows of the node buffer, block by block */
    const long *received, *sent;      /* rows of the buffer of received values, the same */

    /* How many receivers' edges are a group. */
    long group() const { return senders >= ROWS ? 1 : ROWS / senders; }
};

struct Inputs {
    const Way *ways;
    long count, edge_count, threads;
    const float *edges;              /* [2, edges, WIDTH] */
    const float *map;                /* [2, WIDTH, columns]: from a state to what is lifted */
    const float *map_back;           /* [2, columns, WIDTH]; backward only */
    const float *bias;               /* [2, columns] */
    const float *receivers, *senders; /* [nodes, WIDTH] */
};

struct Grads {
    float *edges;              /* [2, edges, WIDTH] */
    float *map, *bias;         /* [threads, 2, columns, WIDTH] and [threads, 2, columns], zero */
    float *receivers, *senders; /* [received, WIDTH] */
};

struct Unit {
    const Way *way;
    long block, first, last;
    float *partial; /* the gradient of the block's senders, where others add to it */
};

/* All units, and which are whose. */
struct Plan {
    std::vector<Unit> units;
    std::vector<long> begins; /* of each share, and the end */
    std::vector<float> room;

    explicit Plan(const Inputs &in) : begins(in.threads + 1) {
        long shared = 0, total = 0;
        for (const Way *way = in.ways; way < in.ways + in.count; way++) {
            if (way->splits > 1) shared += way->lead * way->splits * way->senders;
            total += way->lead * way->receivers * way->senders;
        }
        room.resize(shared * WIDTH);
        float *partial = room.data();
        long done = 0, share = 0;
        for (const Way *way = in.ways; way < in.ways + in.count; way++)
            for (long part = 0; part < way->lead * way->splits; part++) {
                long block = part / way->splits, split = part % way->splits;
                Unit unit{way, block, way->receivers * split / way->splits,
                          way->receivers * (split + 1) / way->splits, nullptr};
                if (way->splits > 1) unit.partial = partial, partial += way->senders * WIDTH;
                for (; share < in.threads && done * in.threads >= share * total; share++)
                    begins[share] = units.size();
                units.push_back(unit);
                done += (unit.last - unit.first) * way->senders;
            }
        for (; share <= in.threads; share++) begins[share] = units.size();
    }

    /* Add up what the parts of one block found. */
    void join(float *senders) const {
        for (const Unit &unit : units)
            if (unit.partial)
                for (long s = 0; s < unit.way->senders; s++) {
                    const float *part = unit.partial + s * WIDTH;
                    float *sum = senders + unit.way->sent[unit.block * unit.way->senders + s] * WIDTH;
                    for (int j = 0; j < WIDTH; j += LANES)
                        at(sum + j) = unit.first ? load(sum + j) + load(part + j) : load(part + j);
                }
    }
};

/* What a thread works on: the edges of some receivers of a unit, sender by sender. */
template <int COLUMNS> struct Group {
    const Way *way = nullptr;
    long block = 0, first = 0, last = 0, count = 0;
    std::vector<const float *> states; /* of each edge */
    std::vector<const float *> given;  /* the gradient that comes to it */
    std::vector<float *> targets;      /* where its states' gradient goes */
    std::vector<float *> lifted;       /* its states times the map */
    std::vector<float> room, sending, d_sending, messages;

    explicit Group(const Inputs &in) {
        long edges = 0, senders = 0;
        for (const Way *way = in.ways; way < in.ways + in.count; way++) {
            edges = std::max(edges, way->group() * way->senders);
            senders = std::max(senders, way->senders);
        }
        states.resize(edges), given.resize(edges), targets.resize(edges), lifted.resize(edges);
        room.resize(edges * COLUMNS), messages.resize(senders * LANES);
        sending.resize(senders * WIDTH), d_sending.resize(senders * WIDTH);
        for (long i = 0; i < edges; i++) lifted[i] = room.data() + i * COLUMNS;
    }

    /* The row of a receiver, or of a sender, in the buffer that `rows` are of. */
    long receiver(const long *rows, long r) const { return rows[block * way->receivers + r] * WIDTH; }
    long sender(const long *rows, long s) const { return rows[block * way->senders + s] * WIDTH; }

    void enter(const Unit &unit, const float *senders) {
        way = unit.way, block = unit.block;
        for (long s = 0; s < way->senders; s++)
            std::copy_n(senders + sender(way->sender, s), WIDTH, sending.data() + s * WIDTH);
        std::fill_n(d_sending.data(), way->senders * WIDTH, 0.0f);
    }

    /* Take the receivers from `begin` on and lift their edges' states. */
    void take(const Unit &unit, long begin, const Inputs &in) {
        first = begin, last = std::min(begin + way->group(), unit.last), count = 0;
        long row = way->direction * in.edge_count + way->start + block * way->receivers * way->senders;
        for (long r = first; r < last; r++)
            for (long s = 0; s < way->senders; s++)
                states[count++] =
                    in.edges + (row + r * way->receiver_step + s * way->sender_step) * WIDTH;
        multiply<COLUMNS>(states.data(), lifted.data(), count, WIDTH,
                          in.map + way->direction * WIDTH * COLUMNS,
                          in.bias + way->direction * COLUMNS);
    }

    /* The gradients of the states and of the map, from those of the lifted states. */
    void give(const Inputs &in, const Grads &grads, long share) {
        long map = share * 2 + way->direction;
        add_outer<COLUMNS, WIDTH>(lifted.data(), states.data(), count,
                                  grads.map + map * COLUMNS * WIDTH);
        float *bias = grads.bias + map * COLUMNS;
        for (int j = 0; j < COLUMNS; j += LANES) {
            vec sum = load(bias + j);
            for (long i = 0; i < count; i++) sum += load(lifted[i] + j);
            at(bias + j) = sum;
        }
        for (long i = 0; i < count; i++) targets[i] = grads.edges + (states[i] - in.edges);
        multiply<WIDTH>(lifted.data(), targets.data(), count, COLUMNS,
                        in.map_back + way->direction * COLUMNS * WIDTH, nullptr);
    }

    void leave(const Unit &unit, float *senders) const {
        for (long s = 0; s < way->senders; s++)
            std::copy_n(d_sending.data() + s * WIDTH, WIDTH,
                        unit.partial ? unit.partial + s * WIDTH : senders + sender(way->sent, s));
    }
};

/* Call `work(group, share)` for every group of every unit; with gradients, keep the senders'. */
template <int COLUMNS, typename Work>
INLINE void for_groups(const Inputs &in, const Grads *grads, Work work) {
    Plan plan(in);
#pragma omp parallel for schedule(static, 1) num_threads(in.threads)
    for (long share = 0; share < in.threads; share++) {
        Group<COLUMNS> group(in);
        for (long number = plan.begins[share]; number < plan.begins[share + 1]; number++) {
            const Unit &unit = plan.units[number];
            group.enter(unit, in.senders);
            for (long first = unit.first; first < unit.last; first = group.last) {
                group.take(unit, first, in);
                work(group, share);
            }
            if (grads) group.leave(unit, grads->senders);
        }
    }
    if (grads) plan.join(grads->senders);
}

struct Aggregates {
    float *total, *squares, *least, *most; /* [received, WIDTH] each */
};

INLINE vec message_of(const float *lifted, int j, vec pair) {
    return load(lifted + j) * pair + load(lifted + WIDTH + j);
}

/* One receiver's sums, sums of squares and extremes of scale * (receiver + sender) + shift. */
INLINE void aggregate(const float *values, long senders, const float *receiver, const float *sender,
                      const Aggregates &found, long place) {
    for (int j = 0; j < WIDTH; j += LANES) {
        vec own = load(receiver + j), total{}, squares{};
        vec least = all(INFINITY), most = all(-INFINITY);
        for (long s = 0; s < senders; s++) {
            vec message = message_of(values + s * 2 * WIDTH, j, own + load(sender + s * WIDTH + j));
            total += message;
            squares += message * message;
            least = smaller(message, least);
            most = larger(message, most);
        }
        at(found.total + place + j) = total;
        at(found.squares + place + j) = squares;
        at(found.least + place + j) = least;
        at(found.most + place + j) = most;
    }
}

/* The gradients of one receiver's messages, in place of their scales and shifts. */
INLINE void disaggregate(float *values, long senders, const float *receiver, const float *sender,
                         const Aggregates &grads, long place, float *d_receiver, float *d_sender,
                         float *messages) {
    for (int j = 0; j < WIDTH; j += LANES) {
        vec own = load(receiver + j), least = all(INFINITY), most = all(-INFINITY);
        for (long s = 0; s < senders; s++) {
            vec message = message_of(values + s * 2 * WIDTH, j, own + load(sender + s * WIDTH + j));
            at(messages + s * LANES) = message;
            least = smaller(message, least);
            most = larger(message, most);
        }
        vec lowest{}, highest{};
        for (long s = 0; s < senders; s++) {
            vec message = load(messages + s * LANES);
            lowest += message == least ? all(1.0f) : vec{};
            highest += message == most ? all(1.0f) : vec{};
        }
        vec d_least = load(grads.least + place + j) / lowest;
        vec d_most = load(grads.most + place + j) / highest;
        vec d_total = load(grads.total + place + j), d_squares = 2.0f * load(grads.squares + place + j);
        vec d_own{};
        for (long s = 0; s < senders; s++) {
            vec message = load(messages + s * LANES);
            vec d_message = d_total + message * d_squares;
            d_message += message == least ? d_least : vec{};
            d_message += message == most ? d_most : vec{};
            float *scale = values + s * 2 * WIDTH + j;
            vec d_pair = d_message * load(scale);
            at(scale) = d_message * (own + load(sender + s * WIDTH + j));
            at(scale + WIDTH) = d_message;
            at(d_sender + s * WIDTH + j) += d_pair;
            d_own += d_pair;
        }
        at(d_receiver + place + j) = d_own;
    }
}

/* One receiver's gradients of the lifted states, in their place, and of its senders. */
INLINE void silu_receiver(float *const *lifted, const float *const *given, long senders,
                          const float *own, const float *sending, float *d_own, float *d_sending) {
    vec sums[VECTORS] = {};
    for (long s = 0; s < senders; s++)
#pragma GCC unroll 8
        for (int j = 0; j < VECTORS; j++) {
            float *place = lifted[s] + j * LANES;
            vec x = load(place) + load(own + j * LANES) + load(sending + s * WIDTH + j * LANES);
            vec gate = sigmoid(x);
            vec d_x = load(given[s] + j * LANES) * gate * (1.0f + x * (1.0f - gate));
            at(place) = d_x;
            at(d_sending + s * WIDTH + j * LANES) += d_x;
            sums[j] += d_x;
        }
    for (int j = 0; j < VECTORS; j++) at(d_own + j * LANES) = sums[j];
}

extern "C" {

void film_forward(const Inputs &in, const Aggregates &found) {
    for_groups<2 * WIDTH>(in, nullptr, [&](auto &group, long) {
        const Way &way = *group.way;
        for (long r = group.first; r < group.last; r++)
            aggregate(group.lifted[(r - group.first) * way.senders], way.senders,
                      in.receivers + group.receiver(way.receiver, r), group.sending.data(), found,
                      group.receiver(way.received, r));
    });
}

void film_backward(const Inputs &in, const Aggregates &given, const Grads &grads) {
    for_groups<2 * WIDTH>(in, &grads, [&](auto &group, long share) {
        const Way &way = *group.way;
        for (long r = group.first; r < group.last; r++)
            disaggregate(group.lifted[(r - group.first) * way.senders], way.senders,
                         in.receivers + group.receiver(way.receiver, r), group.sending.data(), given,
                         group.receiver(way.received, r), grads.receivers, group.d_sending.data(),
                         group.messages.data());
        group.give(in, grads, share);
    });
}

/* result = SiLU(e @ map + bias + receiver + sender) of every edge. */
void silu_forward(const Inputs &in, float *result) {
    for_groups<WIDTH>(in, nullptr, [&](auto &group, long) {
        const Way &way = *group.way;
        for (long r = group.first; r < group.last; r++) {
            long first = (r - group.first) * way.senders;
            const float *own = in.receivers + group.receiver(way.receiver, r);
            for (long s = 0; s < way.senders; s++) {
                float *out = result + (group.states[first + s] - in.edges);
#pragma GCC unroll 8
                for (int j = 0; j < WIDTH; j += LANES) {
                    vec x = load(group.lifted[first + s] + j) + load(own + j) +
                            load(group.sending.data() + s * WIDTH + j);
                    at(out + j) = x * sigmoid(x);
                }
            }
        }
    });
}

void silu_backward(const Inputs &in, const float *d_result, const Grads &grads) {
    for_groups<WIDTH>(in, &grads, [&](auto &group, long share) {
        const Way &way = *group.way;
        for (long i = 0; i < group.count; i++)
            group.given[i] = d_result + (group.states[i] - in.edges);
        for (long r = group.first; r < group.last; r++) {
            long first = (r - group.first) * way.senders;
            silu_receiver(group.lifted.data() + first, group.given.data() + first, way.senders,
                          in.receivers + group.receiver(way.receiver, r), group.sending.data(),
                          grads.receivers + group.receiver(way.received, r),
                          group.d_sending.data());
        }
        group.give(in, grads, share);
    });
}
}
