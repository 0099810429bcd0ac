#include "consumer/queue/kafka/suspects.h"

#include "schemas/base/base64.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define TAG ".S1:"

enum { CRC_BYTES = 4, OWNER_BYTES = 8, FLAG_COMPUTING = 1, VARINT_BYTES_MAX = 10 };

// The longest text: three offsets as varints, all below 2^21 except `promised`, which may follow a long gap.
enum {
    BYTES_MAX = CRC_BYTES + OWNER_BYTES + 1 + 2 * VARINT_BYTES_MAX + 2 + SUSPECTS_MAX * 3 + VARINT_BYTES_MAX
};

_Static_assert(sizeof TAG - 1 + (BYTES_MAX + 2) / 3 * 4 <= SUSPECTS_TEXT_BYTES_MAX, "the longest text");

// ---- the list ----

static int32_t find_index(const struct suspects *suspects, int64_t offset)
{
    int32_t low = 0, high = suspects->n_items;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (suspects->items[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct suspects *suspects, int32_t i, int64_t offset)
{
    return i < suspects->n_items && suspects->items[i].offset == offset;
}

static void remove_at(struct suspects *suspects, int32_t i)
{
    suspects->n_items--;
    memmove(&suspects->items[i], &suspects->items[i + 1],
            (size_t)(suspects->n_items - i) * sizeof *suspects->items);
}

// Makes room: drops a suspect with the fewest crashes, which is then below `doubtful` again.
static void forget_least(struct suspects *suspects)
{
    int32_t least = 0;
    for (int32_t i = 1; i < suspects->n_items; i++)
        if (suspects->items[i].crashes < suspects->items[least].crashes)
            least = i;
    if (suspects->doubtful <= suspects->items[least].offset)
        suspects->doubtful = suspects->items[least].offset + 1;
    remove_at(suspects, least);
}

static struct suspect *obtain_suspect(struct suspects *suspects, int64_t offset)
{
    int32_t i = find_index(suspects, offset);
    if (is_at(suspects, i, offset))
        return &suspects->items[i];
    if (suspects->n_items == SUSPECTS_MAX) {
        forget_least(suspects);
        i = find_index(suspects, offset);
    }
    memmove(&suspects->items[i + 1], &suspects->items[i],
            (size_t)(suspects->n_items - i) * sizeof *suspects->items);
    suspects->n_items++;
    suspects->items[i] = (struct suspect){.offset = offset, .crashes = offset < suspects->doubtful};
    return &suspects->items[i];
}

int32_t suspects_crashes(const struct suspects *suspects, int64_t offset)
{
    int32_t i = find_index(suspects, offset);
    return is_at(suspects, i, offset) ? suspects->items[i].crashes : offset < suspects->doubtful;
}

void suspects_compute(struct suspects *suspects, int64_t offset, enum suspect_state state)
{
    obtain_suspect(suspects, offset)->state = (uint8_t)state;
}

void suspects_rest(struct suspects *suspects)
{
    for (int32_t i = suspects->n_items - 1; i >= 0; i--) {
        suspects->items[i].state = SUSPECT_AMONG_MANY;
        if (suspects->items[i].crashes <= (suspects->items[i].offset < suspects->doubtful))
            remove_at(suspects, i);
    }
}

void suspects_prune(struct suspects *suspects, const struct offset_map *map)
{
    int32_t n_kept = 0;
    for (int32_t i = 0; i < suspects->n_items; i++)
        if (!offset_map_is_finished(map, suspects->items[i].offset))
            suspects->items[n_kept++] = suspects->items[i];
    suspects->n_items = n_kept;
    if (suspects->doubtful <= map->watermark)
        suspects->doubtful = 0;
}

// ---- a crash ----

static void count_crash(struct suspects *suspects)
{
    bool alone = false;
    for (int32_t i = 0; i < suspects->n_items; i++)
        alone = alone || suspects->items[i].state == SUSPECT_ALONE;
    for (int32_t i = 0; i < suspects->n_items; i++) {
        struct suspect *item = &suspects->items[i];
        if (item->state == (alone ? SUSPECT_ALONE : SUSPECT_AMONG_FEW) && item->crashes < SUSPECT_CRASHES_MAX)
            item->crashes++;
    }
    if (!alone && suspects->doubtful < suspects->promised)
        suspects->doubtful = suspects->promised;
}

// ---- the text ----

struct bytes {
    unsigned char data[BYTES_MAX];
    size_t size, at;
    bool failed;
};

static void put_integer(struct bytes *bytes, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        bytes->data[bytes->size++] = (unsigned char)(value >> 8 * i);
}

static void put_varint(struct bytes *bytes, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        bytes->data[bytes->size++] = (unsigned char)(value | 0x80);
    bytes->data[bytes->size++] = (unsigned char)value;
}

static uint64_t get_integer(struct bytes *bytes, size_t n)
{
    uint64_t value = 0;
    if (bytes->failed || bytes->size - bytes->at < n) {
        bytes->failed = true;
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)bytes->data[bytes->at++] << 8 * i;
    return value;
}

// At most INT64_MAX: ten bytes could encode more.
static uint64_t get_varint(struct bytes *bytes)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
        uint64_t byte = get_integer(bytes, 1);
        value |= (byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return value;
    }
    bytes->failed = true;
    return 0;
}

int64_t suspects_encode(const struct suspects *suspects, const struct offset_map *map, uint64_t owner,
                        bool leaving, struct buffer *out)
{
    struct bytes bytes = {.size = CRC_BYTES};
    struct suspects snapshot = *suspects;
    int64_t offset = map->watermark;
    int64_t promised = leaving ? offset : map->position + SUSPECTS_AHEAD;
    suspects_prune(&snapshot, map);
    if (leaving)
        suspects_rest(&snapshot);
    put_integer(&bytes, owner, OWNER_BYTES);
    put_integer(&bytes, leaving ? 0 : FLAG_COMPUTING, 1);
    put_varint(&bytes, (uint64_t)(promised - offset));
    put_varint(&bytes, snapshot.doubtful > offset ? (uint64_t)(snapshot.doubtful - offset) : 0);
    put_varint(&bytes, (uint64_t)snapshot.n_items);
    for (int32_t i = 0; i < snapshot.n_items; i++) {
        put_varint(&bytes, (uint64_t)(snapshot.items[i].offset - offset));
        put_integer(&bytes, (uint64_t)(snapshot.items[i].crashes << 2 | snapshot.items[i].state), 1);
        offset = snapshot.items[i].offset;
    }
    uint32_t crc = offset_map_crc(map->watermark, bytes.data + CRC_BYTES, bytes.size - CRC_BYTES);
    for (int i = 0; i < CRC_BYTES; i++)
        bytes.data[i] = (unsigned char)(crc >> 8 * i);
    buffer_add_string(out, TAG);
    base64_encode((struct text){(const char *)bytes.data, bytes.size}, out);
    return promised;
}

static enum status refuse_metadata(struct error *error, int64_t offset, const char *what)
{
    return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                     "the metadata committed with offset %" PRId64
                     " %s; it would say which jobs killed workers",
                     offset, what);
}

static enum status read_bytes(struct bytes *bytes, int64_t offset, struct text text, struct error *error)
{
    size_t tag_size = sizeof TAG - 1;
    if (text.size > SUSPECTS_TEXT_BYTES_MAX || text.size < tag_size || memcmp(text.data, TAG, tag_size) != 0)
        return refuse_metadata(error, offset,
                               "names suspects as this version of sheaf does not (tag " TAG ")");
    struct buffer decoded = {.size_max = BYTES_MAX + 1};
    bool whole = base64_decode((struct text){text.data + tag_size, text.size - tag_size}, &decoded) &&
                 decoded.size <= BYTES_MAX && decoded.size >= CRC_BYTES;
    if (whole)
        memcpy(bytes->data, decoded.data, bytes->size = decoded.size);
    bool has_memory = !decoded.failed || decoded.is_full;
    buffer_finish(&decoded);
    if (!has_memory)
        return error_memory(error, STATUS_RETRY, "reading a list of suspects");
    uint32_t crc = whole ? (uint32_t)get_integer(bytes, CRC_BYTES) : 0;
    if (!whole || crc != offset_map_crc(offset, bytes->data + CRC_BYTES, bytes->size - CRC_BYTES))
        return refuse_metadata(error, offset, "has a damaged list of suspects");
    return STATUS_OK;
}

static bool read_items(struct suspects *suspects, struct bytes *bytes, int64_t offset)
{
    uint64_t n_items = get_varint(bytes);
    if (n_items > SUSPECTS_MAX)
        return false;
    for (uint64_t i = 0; i < n_items && !bytes->failed; i++) {
        uint64_t delta = get_varint(bytes);
        unsigned what = (unsigned)get_integer(bytes, 1);
        if (delta > OFFSET_MAP_WINDOW || (delta == 0 && i > 0) || (what & 3) > SUSPECT_ALONE)
            return false;
        offset += (int64_t)delta;
        suspects->items[i] = (struct suspect){offset, (uint8_t)(what >> 2), (uint8_t)(what & 3)};
    }
    suspects->n_items = (int32_t)n_items;
    return !bytes->failed && bytes->at == bytes->size;
}

enum status suspects_take_over(struct suspects *suspects, int64_t offset, struct text metadata,
                               uint64_t owner, struct error *error)
{
    const char *dot = metadata.size ? memchr(metadata.data, '.', metadata.size) : NULL;
    struct suspects snapshot = {0};
    if (!dot) { // a reset, or a worker that never computed
        *suspects = snapshot;
        return STATUS_OK;
    }
    struct bytes bytes = {0};
    struct text text = {dot, (size_t)(metadata.data + metadata.size - dot)};
    enum status status = read_bytes(&bytes, offset, text, error);
    if (status != STATUS_OK)
        return status;
    uint64_t last_owner = get_integer(&bytes, OWNER_BYTES);
    unsigned flags = (unsigned)get_integer(&bytes, 1);
    if (last_owner == owner && flags & FLAG_COMPUTING) { // the state in memory is newer
        suspects->promised = 0;
        return STATUS_OK;
    }
    uint64_t promised = get_varint(&bytes), doubtful = get_varint(&bytes);
    uint64_t room = (uint64_t)(INT64_MAX / 2 - offset);
    if (offset > INT64_MAX / 4 || promised > room || doubtful > room || flags > FLAG_COMPUTING ||
        !read_items(&snapshot, &bytes, offset))
        return refuse_metadata(error, offset, "has a list of suspects that sheaf does not write");
    snapshot.promised = offset + (int64_t)promised;
    snapshot.doubtful = doubtful ? offset + (int64_t)doubtful : 0;
    if (flags & FLAG_COMPUTING)
        count_crash(&snapshot);
    suspects_rest(&snapshot);
    snapshot.promised = 0; // the last owner's, not this process's
    *suspects = snapshot;
    return STATUS_OK;
}

bool suspects_are_computed(int64_t offset, struct text metadata)
{
    const char *dot = metadata.size ? memchr(metadata.data, '.', metadata.size) : NULL;
    struct bytes bytes = {0};
    struct error error;
    if (!dot)
        return false;
    if (read_bytes(&bytes, offset, (struct text){dot, (size_t)(metadata.data + metadata.size - dot)},
                   &error) != STATUS_OK)
        return true;
    (void)get_integer(&bytes, OWNER_BYTES);
    return (get_integer(&bytes, 1) & FLAG_COMPUTING) != 0;
}

uint64_t suspects_owner(int64_t offset, struct text metadata)
{
    const char *dot = metadata.size ? memchr(metadata.data, '.', metadata.size) : NULL;
    struct bytes bytes = {0};
    struct error error;
    if (!dot || read_bytes(&bytes, offset, (struct text){dot, (size_t)(metadata.data + metadata.size - dot)},
                           &error) != STATUS_OK)
        return 0;
    return get_integer(&bytes, OWNER_BYTES);
}
