/* Vectors of floats and small matrix products in registers, shared by the compiled passes. */
#pragma once

#include <initializer_list>

#define INLINE static inline __attribute__((always_inline))

constexpr int LANES = 16;

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int whole __attribute__((vector_size(4 * LANES)));

INLINE vec load(const float *place) { return *reinterpret_cast<const vec *>(place); }
INLINE vec &at(float *place) { return *reinterpret_cast<vec *>(place); }
INLINE vec all(float value) { return vec{} + value; }
INLINE vec smaller(vec a, vec b) { return a < b ? a : b; }
INLINE vec larger(vec a, vec b) { return a > b ? a : b; }

/* exp(x) = 2^n exp(r) with |r| <= ln(2) / 2, by a polynomial of degree 6; for -87 <= x <= 88. */
INLINE vec moderate_exponential(vec x) {
    vec scaled = x * 1.44269504f;
    whole n = __builtin_convertvector(scaled + (scaled < 0.0f ? all(-0.5f) : all(0.5f)), whole);
    vec rounded = __builtin_convertvector(n, vec);
    vec r = x - rounded * 0.693145752f - rounded * 1.42860677e-6f;
    vec p = all(1.0f / 720);
    for (float coefficient : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
        p = p * r + coefficient;
    return p * (vec)((n + 127) << 23);
}

INLINE vec exponential(vec x) {
    return moderate_exponential(smaller(larger(x, all(-87.0f)), all(88.0f)));
}

INLINE vec sigmoid(vec x) { return 1.0f / (1.0f + exponential(-x)); }

/* The sum of a vector's values, in each of them. */
INLINE vec sum(vec x) {
    x += __builtin_shuffle(x, whole{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
    x += __builtin_shuffle(x, whole{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
    x += __builtin_shuffle(x, whole{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13});
    return x + __builtin_shuffle(x, whole{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14});
}

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

/* sums[o] += sum over i of grads[i][o] rows[i]; sums is [OUTPUTS, INPUTS]. */
template <int OUTPUTS, int INPUTS>
INLINE void add_outer(const float *const *grads, const float *const *rows, long count,
                      float *sums) {
    constexpr int VECTORS = INPUTS / LANES, OUTER = VECTORS < 16 ? 16 / VECTORS : 1;
    for (int o = 0; o < OUTPUTS; o += OUTER) {
        vec parts[OUTER][VECTORS];
#pragma GCC unroll 16
        for (int i = 0; i < OUTER; i++)
#pragma GCC unroll 16
            for (int j = 0; j < VECTORS; j++)
                parts[i][j] = load(sums + (o + i) * INPUTS + j * LANES);
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
                at(sums + (o + i) * INPUTS + j * LANES) = parts[i][j];
    }
}
