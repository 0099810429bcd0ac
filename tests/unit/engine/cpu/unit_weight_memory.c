// The stack of a backend's weights (engine/cpu/product/memory.c): pieces lie one behind another in few mappings
// (schemas/base/memory_map.c).
#include "engine/cpu/product/memory.h"
#include "tests/support/cases.h"

#include <fcntl.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 << 20, PIECES_OF_CHUNK = 4, N_CHUNKS = 3, PAGE = 4096 };

// The pieces are never written, so they use addresses but no memory.
TEST(pieces_fill_each_mapping_to_its_end)
{
    struct memory_stack stack = {0};
    const unsigned char *last = NULL;
    int n_apart = 0;
    for (int i = 0; i < PIECES_OF_CHUNK * N_CHUNKS; i++) {
        const unsigned char *piece = memory_stack_take(&stack, PIECE_BYTES);
        assert_non_null(piece);
        n_apart += piece != last + PIECE_BYTES;
        last = piece;
    }
    assert_in_range(n_apart, 1, N_CHUNKS);
    memory_stack_finish(&stack);
    assert_null(stack.chunks);
}

TEST(pieces_begin_at_pages_whatever_their_size)
{
    static const size_t sizes[] = {1, PAGE - 1, PAGE, PAGE + 1, 5, (size_t)PIECE_BYTES * 5, 7, 3 * PAGE};
    struct memory_stack stack = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *piece = memory_stack_take(&stack, sizes[i]);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % PAGE, 0);
        assert_int_equal(piece[0] | piece[sizes[i] - 1], 0);
        piece[0] = piece[sizes[i] - 1] = 1; // of no other piece
    }
    assert_null(memory_stack_take(&stack, SIZE_MAX));
    assert_null(memory_stack_take(&stack, SIZE_MAX / 2 + 1));
    memory_stack_finish(&stack);
}

// Pages of addresses that this process has.
static long count_pages(void)
{
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    if (fd < 0)
        skip();
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return strtol(text, NULL, 10);
}

// Alignment to huge pages needs more at first.
TEST(mappings_leave_no_addresses_behind)
{
    enum { N_MAPPINGS = 50 };
    long before = count_pages();
    for (size_t i = 0; i < N_MAPPINGS; i++) {
        const size_t size = MEMORY_MAP_HUGE_BYTES + i * PAGE;
        unsigned char *memory = memory_map(size);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % MEMORY_MAP_HUGE_BYTES, 0);
        memory[0] = memory[size - 1] = 1;
        memory_unmap(memory, size);
    }
    assert_true(count_pages() - before < N_MAPPINGS * 16); // up to 511 each, if they did
}
