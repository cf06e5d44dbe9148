/* The two passes of NG-GNN over all edges, each forward and backward, for float32.
 *
 * A run has `lead` blocks of `receivers` x `senders` edges; the edge of receiver r and sender s of
 * a block is its row r * receiver_step + s * sender_step. A unit is a part of one block's
 * receivers. Units are shared out among threads in a fixed way, and what adds up over units is
 * kept by thread, so that results do not depend on timing. Edges pass through in groups of about
 * ROWS, whose products and intermediate values stay in the processor's cache.
 *
 * WIDTH, the channels of a state, is a multiple of 16 and known when this is compiled: the
 * products are unrolled over registers.
 */
#include <cmath>
#include <omp.h>
#include <vector>

#define INLINE static inline __attribute__((always_inline))

constexpr int LANES = 16, VECTORS = WIDTH / LANES, ROWS = 96;

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int whole __attribute__((vector_size(4 * LANES)));

INLINE vec load(const float *place) { return *reinterpret_cast<const vec *>(place); }
INLINE vec &at(float *place) { return *reinterpret_cast<vec *>(place); }
INLINE vec all(float value) { return vec{} + value; }
INLINE vec smaller(vec a, vec b) { return a < b ? a : b; }
INLINE vec larger(vec a, vec b) { return a > b ? a : b; }

/* exp(x) = 2^n exp(r) with |r| <= ln(2) / 2, by a polynomial of degree 6. */
INLINE vec exponential(vec x) {
    x = smaller(larger(x, all(-87.0f)), all(88.0f));
    vec scaled = x * 1.44269504f;
    whole n = __builtin_convertvector(scaled + (scaled < 0.0f ? all(-0.5f) : all(0.5f)), whole);
    vec rounded = __builtin_convertvector(n, vec);
    vec r = x - rounded * 0.693145752f - rounded * 1.42860677e-6f;
    vec p = all(1.0f / 720);
    for (float coefficient : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
        p = p * r + coefficient;
    return p * (vec)((n + 127) << 23);
}

INLINE vec sigmoid(vec x) { return 1.0f / (1.0f + exponential(-x)); }

struct Shape {
    long lead, splits, receivers, senders, receiver_step, sender_step, threads;

    long units() const { return lead * splits; }
    /* How many receivers' edges are a group. */
    long group() const { return senders >= ROWS ? 1 : ROWS / senders; }
};

struct Unit {
    long block, first, last;

    Unit(const Shape &shape, long number)
        : block(number / shape.splits),
          first(shape.receivers * (number % shape.splits) / shape.splits),
          last(shape.receivers * (number % shape.splits + 1) / shape.splits) {}
};

/* out[i] = start + rows[i] @ weight, for TALL rows and WIDE vectors of columns. */
template <int TALL, int WIDE>
INLINE void tile(const float *const *rows, float *const *out, long inner, const float *weight,
                 long columns, const float *start) {
    vec sums[TALL][WIDE];
#pragma GCC unroll 24
    for (int i = 0; i < TALL; i++)
#pragma GCC unroll 4
        for (int j = 0; j < WIDE; j++) sums[i][j] = start ? load(start + j * LANES) : vec{};
    for (long k = 0; k < inner; k++) {
        vec w[WIDE];
#pragma GCC unroll 4
        for (int j = 0; j < WIDE; j++) w[j] = load(weight + k * columns + j * LANES);
#pragma GCC unroll 24
        for (int i = 0; i < TALL; i++)
#pragma GCC unroll 4
            for (int j = 0; j < WIDE; j++) sums[i][j] += rows[i][k] * w[j];
    }
#pragma GCC unroll 24
    for (int i = 0; i < TALL; i++)
#pragma GCC unroll 4
        for (int j = 0; j < WIDE; j++) at(out[i] + j * LANES) = sums[i][j];
}

/* out[i] = start + rows[i] @ weight for any number of rows; weight is [inner, COLUMNS]. */
template <int COLUMNS>
INLINE void multiply(const float *const *rows, float *const *out, long count, long inner,
                     const float *weight, const float *start) {
    constexpr int WIDE = COLUMNS % (4 * LANES) == 0 ? 4 : COLUMNS % (2 * LANES) == 0 ? 2 : 1;
    constexpr int TALL = 24 / WIDE;
    float spare[WIDE * LANES]; /* for the rows that fill up the last tile */
    for (long first = 0; first < count; first += TALL)
        for (int column = 0; column < COLUMNS; column += WIDE * LANES) {
            const float *from[TALL];
            float *to[TALL];
            for (int i = 0; i < TALL; i++) {
                bool there = first + i < count;
                from[i] = rows[there ? first + i : first];
                to[i] = there ? out[first + i] + column : spare;
            }
            tile<TALL, WIDE>(from, to, inner, weight + column, COLUMNS,
                             start ? start + column : nullptr);
        }
}

/* sums[o] += sum over i of grads[i][o] rows[i]; sums is [OUTPUTS, WIDTH]. */
template <int OUTPUTS>
INLINE void add_outer(const float *const *grads, const float *const *rows, long count,
                      float *sums) {
    constexpr int OUTER = 16 / VECTORS > 0 ? 16 / VECTORS : 1;
    for (int o = 0; o < OUTPUTS; o += OUTER) {
        vec parts[OUTER][VECTORS];
#pragma GCC unroll 16
        for (int i = 0; i < OUTER; i++)
#pragma GCC unroll 16
            for (int j = 0; j < VECTORS; j++)
                parts[i][j] = load(sums + (o + i) * WIDTH + j * LANES);
        for (long row = 0; row < count; row++) {
            vec state[VECTORS];
#pragma GCC unroll 16
            for (int j = 0; j < VECTORS; j++) state[j] = load(rows[row] + j * LANES);
#pragma GCC unroll 16
            for (int i = 0; i < OUTER; i++)
#pragma GCC unroll 16
                for (int j = 0; j < VECTORS; j++) parts[i][j] += grads[row][o + i] * state[j];
        }
#pragma GCC unroll 16
        for (int i = 0; i < OUTER; i++)
#pragma GCC unroll 16
            for (int j = 0; j < VECTORS; j++)
                at(sums + (o + i) * WIDTH + j * LANES) = parts[i][j];
    }
}

/* What a thread works on: the edges of some receivers, sender by sender. */
template <int COLUMNS> struct Group {
    const Shape &shape;
    long block = 0, first = 0, last = 0, count = 0;
    std::vector<const float *> states; /* of each edge */
    std::vector<const float *> given;  /* the gradient that comes to it */
    std::vector<float *> targets;      /* where its states' gradient goes */
    std::vector<float *> lifted;       /* its states times the map */
    std::vector<float> room;

    explicit Group(const Shape &shape)
        : shape(shape), states(shape.group() * shape.senders), given(states.size()),
          targets(states.size()), lifted(states.size()), room(states.size() * COLUMNS) {
        for (size_t i = 0; i < lifted.size(); i++) lifted[i] = room.data() + i * COLUMNS;
    }

    /* Take the receivers from `begin` on and lift their edges' states. */
    void take(const Unit &unit, long begin, const float *edges, const float *map,
              const float *bias) {
        block = unit.block, first = begin, count = 0;
        last = begin + shape.group() < unit.last ? begin + shape.group() : unit.last;
        const float *start = edges + block * shape.receivers * shape.senders * WIDTH;
        for (long r = first; r < last; r++)
            for (long s = 0; s < shape.senders; s++)
                states[count++] =
                    start + (r * shape.receiver_step + s * shape.sender_step) * WIDTH;
        multiply<COLUMNS>(states.data(), lifted.data(), count, WIDTH, map, bias);
    }

    /* The gradients of the states and of the map, from those of the lifted states. */
    void give(const float *edges, const float *map_back, float *d_edges, float *d_map) {
        add_outer<COLUMNS>(lifted.data(), states.data(), count, d_map);
        for (long i = 0; i < count; i++) targets[i] = d_edges + (states[i] - edges);
        multiply<WIDTH>(lifted.data(), targets.data(), count, COLUMNS, map_back, nullptr);
    }
};

/* Call `work(group, thread, unit's number)` for every group of every unit. */
template <int COLUMNS, typename Work>
INLINE void for_groups(const Shape &shape, const float *edges, const float *map,
                       const float *bias, Work work) {
#pragma omp parallel num_threads(shape.threads)
    {
        Group<COLUMNS> group(shape);
#pragma omp for schedule(static)
        for (long number = 0; number < shape.units(); number++) {
            Unit unit(shape, number);
            for (long first = unit.first; first < unit.last; first += shape.group()) {
                group.take(unit, first, edges, map, bias);
                work(group, omp_get_thread_num(), number);
            }
        }
    }
}

struct Aggregates {
    float *total, *squares, *least, *most; /* [lead, receivers, WIDTH] each */
};

INLINE vec message_of(const float *lifted, int j, vec pair) {
    return load(lifted + j) * pair + load(lifted + WIDTH + j);
}

/* One receiver's sums, sums of squares and extremes of scale * (receiver + sender) + shift. */
INLINE void aggregate(const float *values, long senders, const float *receiver, const float *sender,
                      const Aggregates &found, long place) {
    for (int j = 0; j < WIDTH; j += LANES) {
        vec own = load(receiver + place + j), total{}, squares{};
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
        vec own = load(receiver + place + j), least = all(INFINITY), most = all(-INFINITY);
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

extern "C" {

/* map is [WIDTH, 2 WIDTH], bias [2 WIDTH]. */
void film_forward(const Shape &shape, const float *edges, const float *map, const float *bias,
                  const float *receiver, const float *sender, const Aggregates &found) {
    for_groups<2 * WIDTH>(shape, edges, map, bias, [&](auto &group, int, long) {
        for (long r = group.first; r < group.last; r++)
            aggregate(group.lifted[(r - group.first) * shape.senders], shape.senders, receiver,
                      sender + group.block * shape.senders * WIDTH, found,
                      (group.block * shape.receivers + r) * WIDTH);
    });
}

/* d_map is [threads, 2 WIDTH, WIDTH], d_bias [threads, 2 WIDTH] and d_sender [units, senders,
 * WIDTH], all zero before; map_back is [2 WIDTH, WIDTH]. */
void film_backward(const Shape &shape, const float *edges, const float *map, const float *map_back,
                   const float *bias, const float *receiver, const float *sender,
                   const Aggregates &grads, float *d_edges, float *d_map, float *d_bias,
                   float *d_receiver, float *d_sender) {
    std::vector<float> rooms(shape.threads * shape.senders * LANES);
    for_groups<2 * WIDTH>(shape, edges, map, bias, [&](auto &group, int thread, long number) {
        for (long r = group.first; r < group.last; r++)
            disaggregate(group.lifted[(r - group.first) * shape.senders], shape.senders, receiver,
                         sender + group.block * shape.senders * WIDTH, grads,
                         (group.block * shape.receivers + r) * WIDTH, d_receiver,
                         d_sender + number * shape.senders * WIDTH,
                         rooms.data() + thread * shape.senders * LANES);
        float *own_bias = d_bias + thread * 2 * WIDTH;
        for (int j = 0; j < 2 * WIDTH; j += LANES) {
            vec sum = load(own_bias + j);
            for (long i = 0; i < group.count; i++) sum += load(group.lifted[i] + j);
            at(own_bias + j) = sum;
        }
        group.give(edges, map_back, d_edges, d_map + thread * 2 * WIDTH * WIDTH);
    });
}

/* result = SiLU(e @ map + bias + receiver + sender) of every edge; map is [WIDTH, WIDTH]. */
void silu_forward(const Shape &shape, const float *edges, const float *map, const float *bias,
                  const float *receiver, const float *sender, float *result) {
    for_groups<WIDTH>(shape, edges, map, bias, [&](auto &group, int, long) {
        const float *sending = sender + group.block * shape.senders * WIDTH;
        for (long r = group.first; r < group.last; r++) {
            long first = (r - group.first) * shape.senders;
            const float *own = receiver + (group.block * shape.receivers + r) * WIDTH;
            for (long s = 0; s < shape.senders; s++) {
                float *out = result + (group.states[first + s] - edges);
#pragma GCC unroll 8
                for (int j = 0; j < WIDTH; j += LANES) {
                    vec x = load(group.lifted[first + s] + j) + load(own + j) +
                            load(sending + s * WIDTH + j);
                    at(out + j) = x * sigmoid(x);
                }
            }
        }
    });
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

/* d_map is [threads, WIDTH, WIDTH] and d_sender [units, senders, WIDTH], both zero before. The
 * bias has the gradient of the receivers. */
void silu_backward(const Shape &shape, const float *edges, const float *map, const float *map_back,
                   const float *bias, const float *receiver, const float *sender,
                   const float *d_result, float *d_edges, float *d_map, float *d_receiver,
                   float *d_sender) {
    for_groups<WIDTH>(shape, edges, map, bias, [&](auto &group, int thread, long number) {
        for (long i = 0; i < group.count; i++)
            group.given[i] = d_result + (group.states[i] - edges);
        for (long r = group.first; r < group.last; r++) {
            long first = (r - group.first) * shape.senders;
            long place = (group.block * shape.receivers + r) * WIDTH;
            silu_receiver(group.lifted.data() + first, group.given.data() + first, shape.senders,
                          receiver + place, sender + group.block * shape.senders * WIDTH,
                          d_receiver + place, d_sender + number * shape.senders * WIDTH);
        }
        group.give(edges, map_back, d_edges, d_map + thread * WIDTH * WIDTH);
    });
}
}
