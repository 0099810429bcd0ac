// Keys and values go to their pages (gpu/kernels.h draws them): one block a row.
#include "gpu/kernel.h"
#include "gpu/kernels.h"

enum { THREADS = 128 };

struct store_arguments {
    struct attention_pages pages;
    int32_t layer;
    const struct attention_sequence *sequences;
    const int32_t *row_sequences, *tables;
    const float *k, *v;
    int64_t k_stride, v_stride;
};

static __global__ void __launch_bounds__(THREADS) store_row(const struct store_arguments arguments)
{
    const struct attention_pages &pages = arguments.pages;
    int32_t row = (int32_t)blockIdx.x, index = arguments.row_sequences[row];
    if (index < 0)
        return;
    struct attention_sequence sequence = arguments.sequences[index];
    int32_t position = sequence.position + row - sequence.first_row, at = position % ATTENTION_BLOCK;
    int64_t page = arguments.tables[sequence.first_page + position / pages.page_positions];
    int32_t key_width = (pages.key_dim + 31) / 32 * 32, value_width = (pages.value_dim + 15) / 16 * 16;
    int64_t block_items = ATTENTION_BLOCK * (int64_t)(key_width + value_width);
    int64_t page_blocks = pages.page_positions / ATTENTION_BLOCK;
    int64_t first = ((int64_t)arguments.layer * pages.n_pages + page) * pages.n_kv_heads;
    for (int32_t i = (int32_t)threadIdx.x; i < pages.n_kv_heads * (key_width + value_width); i += THREADS) {
        int32_t head = i / (key_width + value_width), d = i % (key_width + value_width);
        int64_t block = (first + head) * page_blocks + position % pages.page_positions / ATTENTION_BLOCK;
        uint16_t *items = (uint16_t *)pages.memory + block * block_items;
        float item;
        if (d < key_width) {
            item = d < pages.key_dim ? arguments.k[row * arguments.k_stride + head * pages.key_dim + d] : 0.0f;
            items += ((at / 8 * (key_width / 32) + d / 32) * 32 + at % 8 * 4 + d % 32 / 8) * 8 + d % 8;
        } else {
            d -= key_width;
            item = d < pages.value_dim ? arguments.v[row * arguments.v_stride + head * pages.value_dim + d] : 0.0f;
            items += ATTENTION_BLOCK * key_width + ((d / 16 * 32 + d % 8 * 4 + at / 4) * 2 + d % 16 / 8) * 4 + at % 4;
        }
        *items = (uint16_t)half2_make(item, 0.0f);
    }
}

void launch_attention_store(void *stream, const struct attention_pages *pages, int32_t layer,
                            const struct attention_sequence *sequences, const int32_t *row_sequences,
                            const int32_t *tables, int32_t n_rows, const float *k, int64_t k_stride, const float *v,
                            int64_t v_stride)
{
    if (n_rows == 0)
        return;
    struct store_arguments arguments = {*pages, layer, sequences, row_sequences, tables, k, v, k_stride, v_stride};
    launch(store_row, {(unsigned)n_rows, 1, 1, THREADS, 0}, stream, arguments);
}
