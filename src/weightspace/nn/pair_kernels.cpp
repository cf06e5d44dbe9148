/* The update of the states of pairs, forward and backward, for float32.
 *
 * Groups of pairs pass through, whose products and everything between them stay in the processor's
 * cache; backward computes again what forward had there.
 *
 * PAIRS and HIDDEN, the channels of states and of hidden layers, are multiples of 16 and known
 * when this is compiled: products are unrolled over registers.
 */
#include "pairs.h"
#include <cmath>

constexpr int VECTORS = PAIRS / LANES, BOTH = 2 * PAIRS;

/* One step LN(x + dropout(GELU(lifted) @ second^T + bias)). */
struct Residual {
    const float *second, *second_t, *bias, *norm, *norm_bias;
    const signed char *kept; /* ones where dropout keeps a value, or null */
    float scale, eps;

    vec factor(long place) const {
        typedef signed char bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
        if (!kept) return all(1.0f);
        bytes ones = *reinterpret_cast<const bytes *>(kept + place);
        /* by way of integers: straight from bytes the compiler goes value by value */
        return __builtin_convertvector(__builtin_convertvector(ones, whole), vec) * scale;
    }
};

struct Maps {
    const float *pair, *pair_t, *first, *first_t, *first_bias;
    Residual one, two;
};

/* The values at a grid's receivers, [lead, receivers, HIDDEN], and senders. */
struct Ends {
    const float *receiver, *sender;
};

/* Sums of gradients. Those of senders are [lead, splits, senders, HIDDEN]; those of parameters are
 * a thread's, one after the other: pair, out, its bias, norm and its bias, first, second, its bias,
 * last norm and its bias, first's bias. */
struct Sums {
    float *receiver, *sender, *parameters;

    static constexpr long MAP = PAIRS * HIDDEN, STEP = MAP + 3 * PAIRS;
    float *pair(long thread) const {
        return parameters + thread * (3 * MAP + 2 * STEP + HIDDEN);
    }
    float *one(long thread) const { return pair(thread) + 2 * MAP; }
    float *first(long thread) const { return one(thread) + STEP; }
    float *two(long thread) const { return first(thread) + MAP; }
    float *first_bias(long thread) const { return two(thread) + STEP; }
};

/* What backward needs of a step. */
struct Step {
    Table<HIDDEN> active, slope; /* GELU and its derivative; then the gradient of what it is of */
    Table<PAIRS> normed;         /* before the norm's own factors */
    float rate[ROWS];
};

INLINE vec mean(const vec *parts) {
    vec total = parts[0];
    for (int j = 1; j < VECTORS; j++) total += parts[j];
    return sum(total) * (1.0f / PAIRS);
}

/* The share of the normal distribution below x, to 3e-7: 1/2 + x P(x^2), fitted on |x| <= 5.06, in
 * powers of 2 (x / 5.06)^2 - 1, which are well conditioned. Exactly 0 below. */
INLINE vec normal_share(vec x) {
    constexpr float MOST = 5.06f;
    x = smaller(larger(x, all(-MOST)), all(MOST));
    vec u = x * x * (2 / (MOST * MOST)) - 1.0f, p = all(7.259838958e-04f);
    for (float coefficient :
         {-1.888647071e-03f, 1.897492340e-03f, -2.827661125e-03f, 6.880198161e-03f,
          -1.183278959e-02f, 1.696686623e-02f, -2.367392460e-02f, 3.163181752e-02f,
          -4.032426962e-02f, 5.107935515e-02f, -6.951620712e-02f, 1.396960114e-01f})
        p = p * u + coefficient;
    return larger(x * p + 0.5f, vec{});
}

INLINE vec normal_density(vec x) {
    return 0.39894228f * moderate_exponential(larger(x * x * -0.5f, all(-87.0f)));
}

template <bool SLOPES> INLINE void activate(float *lifted, float *slope, vec x) {
    vec share = normal_share(x);
    at(lifted) = x * share;
    if (SLOPES) at(slope) = share + x * normal_density(x);
}

/* What a thread works on. */
struct Group {
    const Maps &maps;
    long count = 0;
    Place places[ROWS];
    Table<BOTH> both;
    Table<PAIRS> between, change, total;
    Table<HIDDEN> d_active;
    Step one, two;
    float *out[ROWS];

    explicit Group(const Maps &maps) : maps(maps) {}

    /* Take the next pairs with their reverses side by side. */
    bool take(Walk &walk, const float *pairs) {
        for (count = 0; count < ROWS && walk.next(places[count]); count++)
            for (int j = 0; j < PAIRS; j += LANES) {
                at(both[count] + j) = load(pairs + places[count].pair * PAIRS + j);
                at(both[count] + PAIRS + j) = load(pairs + places[count].reverse * PAIRS + j);
            }
        return count > 0;
    }

    /* Both steps; the second one's result goes to `result`, or nowhere. */
    template <bool BACK> void forward(const Ends &ends, float *result) {
        multiply<HIDDEN>(both.rows, one.active.rows, count, BOTH, maps.pair_t, nullptr);
        for (long i = 0; i < count; i++)
#pragma GCC unroll 8
            for (int j = 0; j < HIDDEN; j += LANES)
                activate<BACK>(one.active[i] + j, one.slope[i] + j,
                               load(one.active[i] + j) +
                                   load(ends.receiver + places[i].receiver * HIDDEN + j) +
                                   load(ends.sender + places[i].sender * HIDDEN + j));
        finish<BACK>(maps.one, one, both.rows, between.rows);
        multiply<HIDDEN>(between.rows, two.active.rows, count, PAIRS, maps.first_t,
                         maps.first_bias);
        for (long i = 0; i < count; i++)
#pragma GCC unroll 8
            for (int j = 0; j < HIDDEN; j += LANES)
                activate<BACK>(two.active[i] + j, two.slope[i] + j, load(two.active[i] + j));
        for (long i = 0; i < count; i++)
            out[i] = BACK ? total[i] : result + places[i].pair * PAIRS;
        finish<BACK>(maps.two, two, between.rows, out);
    }

    /* Add a step's change to the states and normalise. */
    template <bool BACK>
    void finish(const Residual &given, Step &step, float *const *states, float *const *to) {
        multiply<PAIRS>(step.active.rows, change.rows, count, HIDDEN, given.second_t, given.bias);
        for (long i = 0; i < count; i++) {
            vec values[VECTORS], squares[VECTORS];
            for (int j = 0; j < VECTORS; j++)
                values[j] = load(states[i] + j * LANES) +
                            load(change[i] + j * LANES) *
                                given.factor(places[i].pair * PAIRS + j * LANES);
            vec middle = mean(values);
            for (int j = 0; j < VECTORS; j++) {
                values[j] -= middle;
                squares[j] = values[j] * values[j];
            }
            float rate = 1.0f / std::sqrt(mean(squares)[0] + given.eps);
            if (BACK) step.rate[i] = rate;
            for (int j = 0; j < VECTORS; j++) {
                vec normed = values[j] * rate;
                if (BACK) at(step.normed[i] + j * LANES) = normed;
                at(to[i] + j * LANES) =
                    normed * load(given.norm + j * LANES) + load(given.norm_bias + j * LANES);
            }
        }
    }

    /* From the gradients of a step's result those of its states, to `total`, and of what its GELU
     * is of, in place of the slopes. */
    void back(const Residual &given, Step &step, const float *const *grads, float *sums) {
        float *others = sums + PAIRS * HIDDEN;
        vec d_bias[VECTORS] = {}, d_norm[VECTORS] = {}, d_norm_bias[VECTORS] = {};
        for (long i = 0; i < count; i++) {
            vec grad[VECTORS], along[VECTORS], normed[VECTORS];
            for (int j = 0; j < VECTORS; j++) {
                normed[j] = load(step.normed[i] + j * LANES);
                grad[j] = load(grads[i] + j * LANES);
                d_norm[j] += grad[j] * normed[j];
                d_norm_bias[j] += grad[j];
                grad[j] *= load(given.norm + j * LANES);
                along[j] = grad[j] * normed[j];
            }
            vec middle = mean(grad), common = mean(along);
            for (int j = 0; j < VECTORS; j++) {
                vec d_total = (grad[j] - middle - normed[j] * common) * step.rate[i];
                vec d_change = d_total * given.factor(places[i].pair * PAIRS + j * LANES);
                at(total[i] + j * LANES) = d_total;
                at(change[i] + j * LANES) = d_change;
                d_bias[j] += d_change;
            }
        }
        for (int j = 0; j < VECTORS; j++) {
            at(others + j * LANES) += d_bias[j];
            at(others + PAIRS + j * LANES) += d_norm[j];
            at(others + 2 * PAIRS + j * LANES) += d_norm_bias[j];
        }
        add_outer<PAIRS, HIDDEN>(change.rows, step.active.rows, count, sums);
        multiply<HIDDEN>(change.rows, d_active.rows, count, PAIRS, given.second, nullptr);
        for (long i = 0; i < count; i++)
            for (int j = 0; j < HIDDEN; j += LANES)
                at(step.slope[i] + j) *= load(d_active[i] + j);
    }

    /* The gradients of the second step, then of the first; writes each pair's own and what it adds
     * to its reverse. */
    void backward(const float *grads, const Sums &sums, long thread, float *d_pairs,
                         float *d_reverse) {
        for (long i = 0; i < count; i++)
            out[i] = const_cast<float *>(grads) + places[i].pair * PAIRS;
        back(maps.two, two, out, sums.two(thread));
        add_rows(two.slope, sums.first_bias(thread));
        add_outer<HIDDEN, PAIRS>(two.slope.rows, between.rows, count, sums.first(thread));
        multiply<PAIRS>(two.slope.rows, change.rows, count, HIDDEN, maps.first, nullptr);
        for (long i = 0; i < count; i++)
            for (int j = 0; j < PAIRS; j += LANES) at(total[i] + j) += load(change[i] + j);
        back(maps.one, one, total.rows, sums.one(thread));
        add_outer<HIDDEN, BOTH>(one.slope.rows, both.rows, count, sums.pair(thread));
        multiply<BOTH>(one.slope.rows, both.rows, count, HIDDEN, maps.pair, nullptr);
        for (long i = 0; i < count; i++) {
            for (int j = 0; j < HIDDEN; j += LANES) {
                at(sums.receiver + places[i].receiver * HIDDEN + j) += load(one.slope[i] + j);
                at(sums.sender + places[i].summed * HIDDEN + j) += load(one.slope[i] + j);
            }
            for (int j = 0; j < PAIRS; j += LANES) {
                at(d_pairs + places[i].pair * PAIRS + j) = load(both[i] + j) + load(total[i] + j);
                at(d_reverse + places[i].reverse * PAIRS + j) = load(both[i] + PAIRS + j);
            }
        }
    }

    void add_rows(Table<HIDDEN> &table, float *sums) {
        for (int j = 0; j < HIDDEN; j += LANES) {
            vec total = load(sums + j);
            for (long i = 0; i < count; i++) total += load(table[i] + j);
            at(sums + j) = total;
        }
    }
};

extern "C" {

void update_forward(const Grid &grid, const Maps &maps, const Ends &ends, const float *pairs,
                    float *result) {
    for_groups(
        grid, pairs, [&] { return std::make_unique<Group>(maps); },
        [&](Group &group, long) { group.forward<false>(ends, result); });
}

/* d_pairs and d_reverse have the grid's pairs and their reverses written; sums are added to. */
void update_backward(const Grid &grid, const Maps &maps, const Ends &ends, const float *pairs,
                     const float *grads, const Sums &sums, float *d_pairs, float *d_reverse) {
    for_groups(
        grid, pairs, [&] { return std::make_unique<Group>(maps); },
        [&](Group &group, long thread) {
            group.forward<true>(ends, nullptr);
            group.backward(grads, sums, thread, d_pairs, d_reverse);
        });
}
}
