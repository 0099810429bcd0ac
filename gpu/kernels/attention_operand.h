// For kernels: converts rows that attention has completed to the activation operand (struct next_operand).
// The heads of a row are computed by several blocks. Each block adds the number of its heads to the row's
// arrivals, and the block that completes the number of heads converts the row. The conversion overlaps with
// the tiles of other blocks, and needs no launch of its own.
#pragma once

#include "gpu/kernels/attention_tile.h"
#include "gpu/kernels/operand_rows.h"

enum {
    ROWS_TILE_MAX = 64,   // rows of a tile, if each query belongs to another row
    ROWS_PIECES_HELD = 2, // pieces in registers: 4,096 inputs of a row by 256 threads
};

// The arrived rows of a tile, in shared memory.
struct arrived_rows {
    uint32_t maxima[32];
    int32_t complete[ROWS_TILE_MAX];
};

// Converts the complete rows. Not inlined, because the attention kernels have no registers left.
static __device__ __noinline__ void convert_arrived(const struct activation_operand out,
                                                    const struct complete_rows rows, uint32_t *maxima)
{
    int32_t lane = (int32_t)threadIdx.x % 32;
    bool any = false;
    for (int32_t i = lane; i < rows.n; i += 32)
        any = any || rows.complete[i];
    if (!__any_sync(0xFFFFFFFFu, any))
        return; // the whole block returns
    if (out.swizzled)
        convert_rows<true, ROWS_PIECES_HELD>(out, rows, maxima);
    else
        convert_rows<false, ROWS_PIECES_HELD>(out, rows, maxima);
}

// Called by all threads of a block after they have stored the results of a tile of one sequence. Uses the
// tile's shared memory.
static __device__ __forceinline__ void finish_rows(const struct attention_launch &call,
                                                   const tile_place &place)
{
    if (!call.next.out.items)
        return;
    struct arrived_rows *shared = (struct arrived_rows *)dynamic_shared();
    int32_t begin = divide_by(place.first_query, place.group_magic),
            end_query = place.first_query + place.n_queries,
            n = divide_by(end_query - 1, place.group_magic) + 1 - begin,
            first = place.sequence.first_row + begin;
    __syncthreads(); // all results are stored; the tile's shared memory is no longer read
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += (int32_t)blockDim.x) {
        int32_t from = (begin + i) * place.group, to = from + place.group;
        from = from > place.first_query ? from : place.first_query;
        to = to < end_query ? to : end_query;
        shared->complete[i] = arrive_last(call.next.arrivals + first + i, to - from, call.n_heads);
    }
    __syncthreads();
    convert_arrived(call.next.out, {call.out, call.strides.out, NULL, first, n, shared->complete},
                    shared->maxima);
}
