/* Operations on the matrices of a warp: what exec_matrix.c (fragments and memory) and exec_mma.c
 * (arithmetic) share. */
#ifndef SOFTGPU_EXEC_MATRIX_H
#define SOFTGPU_EXEC_MATRIX_H

#include "exec_core.h"

enum {
    FRAGMENT_D,
    FRAGMENT_A,
    FRAGMENT_B,
    FRAGMENT_C,
    FRAGMENTS,
    MATRIX_M = 32,
    MATRIX_K = 256,
    FLOATS_K = 32
};

/* One instruction, made when it is decoded. */
struct matrix {
    uint16_t m, n, k;
    uint8_t types[FRAGMENTS]; /* enum ptx_type of the elements */
    bool col[FRAGMENTS];      /* column major */
    bool wmma, saturates, trans;
    uint8_t bit_op;   /* PTX_MOD_xor, PTX_MOD_and: of single bits */
    uint8_t fragment; /* of wmma.load and wmma.store */
    uint8_t tiles;    /* of ldmatrix and stmatrix */
    uint32_t stride;  /* slot; 0: none given */
    uint8_t counts[FRAGMENTS];
    const uint32_t *slots[FRAGMENTS]; /* registers */
    /* of mma and wmma.mma: of each lane's elements, the place in the matrix as kept below */
    const uint16_t *places[FRAGMENTS];
};

/* Matrices in full: bits of the elements. */
struct matrices {
    uint64_t a[MATRIX_M][MATRIX_K], b[MATRIX_M][MATRIX_K]; /* b[n][k] */
    uint64_t c[MATRIX_M][MATRIX_K], d[MATRIX_M][MATRIX_K];
};

unsigned fragment_bits(uint8_t type);
/* exec_mma.c: d = a * b + c */
void matrix_multiply(const struct matrix *plan, struct matrices *x);

#endif
