// The layout of GEMM weights on the device: tiles of 16 outputs in the order of a warp's 32 lanes, with the
// bits and the size of the file's quantization. Packed on the host, uploaded once.
//
// A weight is a sequence of panels of 16 outputs (the last padded with zeros). A panel is a sequence of tiles
// along the inputs, of 128 inputs, or 256 for types with blocks of 256 (padded with zeros). A group is 128
// inputs. With g = lane / 4 and t = lane % 4, a lane holds inputs 32 t .. 32 t + 31 of a group for outputs g
// and g + 8: whole blocks of 32, so it needs few scales. Fragment f (0..7) of a group is the operand of one
// mma. Its registers in lane 4 g + t, the smaller input in the lower half:
//   a[0]  output g,     inputs 32 t + 4 f + 0, 1
//   a[1]  output g + 8, inputs 32 t + 4 f + 0, 1
//   a[2]  output g,     inputs 32 t + 4 f + 2, 3
//   a[3]  output g + 8, inputs 32 t + 4 f + 2, 3
//
// A tile, in bytes: planes of quants, group after group, then scales. Planes:
//   nibbles [2][32 lanes][16]  word f: register i in bits 4i.. (lower half), 16 + 4i..   Q4_0 NVFP4 Q4_K Q5_K Q6_K
//   bit     [32 lanes][8]      word f / 4, n = f % 4 * 4 + i: bits n and 16 + n          Q5_K
//   pairs   [32 lanes][16]     word f / 2, n = f % 2 * 4 + i: bits 2n.. and 16 + 2n..    Q6_K
//   bytes   [4][32 lanes][16]  words 2f (a[0], a[1]) and 2f + 1 (a[2], a[3])             Q8_0
//   halves  [8][32 lanes][16]  the registers themselves                                  F16 BF16
// Quants are the same as in the file, plus 128 for Q8_0. Scales (h16: binary16):
//   Q4_0 Q8_0  [32 lanes] h16 d of g, d of g + 8 (of the lane's block of 32 inputs)
//   Q4_K Q5_K  [32 lanes] u32, then [32 lanes] u16: together 48 bits, 24 per group, 6 bits each: scale of g,
//              scale of g + 8, minimum of g, minimum of g + 8
//              then [8 g] h16 d of g, dmin of g, d of g + 8, dmin of g + 8
//   Q6_K       [2 groups][32 lanes] u8 x 4, scale + 128: of g for the first 16 inputs, for the last 16, then
//              the same of g + 8
//              then [8 g] h16 d of g, d of g + 8
//   NVFP4      [32 lanes] u8 x 4, E4M3: in the order of Q6_K
// F32 is stored in rows, padded to a multiple of 4 inputs.
//
// Thread: any; pieces of one weight may be packed by many threads at once.
#pragma once

#include "engine/file/tensor.h"

enum {
    TILE_OUTPUTS = 16,
    GROUP_INPUTS = 128,
};

// Sizes of a tile of one type. All are 0 for F32.
struct tile_format {
    int32_t n_groups;                 // 1 or 2
    int32_t quants_bytes, high_bytes; // sizes of the first and the second plane of a group
    int32_t scales_bytes;
};

#ifdef __CUDACC__
#define TILE_CONSTANT __host__ __device__ constexpr
#elif defined(__cplusplus)
#define TILE_CONSTANT constexpr
#else
#define TILE_CONSTANT static inline
#endif

// Types with a tile format: F32 F16 BF16 Q8_0 Q4_0 NVFP4 Q4_K Q5_K Q6_K.
TILE_CONSTANT struct tile_format tile_format(enum tensor_type type)
{
    return type == TENSOR_Q4_0 || type == TENSOR_NVFP4 ? (struct tile_format){1, 1024, 0, 128}
           : type == TENSOR_Q8_0                       ? (struct tile_format){1, 2048, 0, 128}
           : type == TENSOR_F16 || type == TENSOR_BF16 ? (struct tile_format){1, 4096, 0, 0}
           : type == TENSOR_Q4_K                       ? (struct tile_format){2, 1024, 0, 256}
           : type == TENSOR_Q5_K                       ? (struct tile_format){2, 1024, 256, 256}
           : type == TENSOR_Q6_K                       ? (struct tile_format){2, 1024, 512, 288}
                                                       : (struct tile_format){0, 0, 0, 0};
}

TILE_CONSTANT int32_t tile_bytes(struct tile_format format)
{
    return format.n_groups * (format.quants_bytes + format.high_bytes) + format.scales_bytes;
}

#ifdef __cplusplus
extern "C" {
#endif

// The type of a tensor's tiles. Reads all scales. The tensor's additional factors (struct tensor) are no part of the tiles.
//
//   the tensor's own type   if it has a tile format
//   Q8_0                    for Q5_0, IQ4_NL, MXFP4, U4_32 and U4_64, exactly
//   Q6_K                    for Q3_K, exactly
//   F32                     for F8_E4M3, exactly
//   F16                     for other types
//   BF16                    instead, if an item or a product of scales exceeds binary16
//   TENSOR_TYPE_COUNT       if the type is not supported
enum tensor_type tiles_type(const struct tensor *tensor);
// Bytes of one [n_outputs, n_inputs] matrix, a multiple of 16.
uint64_t tiles_bytes(enum tensor_type type, int64_t n_outputs, int64_t n_inputs);
int64_t tiles_panels(int64_t n_outputs);
// Packs panels [begin, end) of one matrix of the tensor; `matrix` is an index below dims[2]. `out` is the
// address of panel 0, `type` is the result of tiles_type.
void tiles_pack(void *out, enum tensor_type type, const struct tensor *tensor, int64_t matrix, int64_t begin,
                int64_t end);

#ifdef __cplusplus
}
#endif
