#include "store/frame/frame.h"

#include <stdlib.h>

enum {
    WINDOW = 8,           // bytes of the shortest common part
    TEXT_PART_LEAST = 16, // bytes of the shortest part of a JSON string: shorter ones are chance
    CHAIN_MAX = 16,       // places of a window that are compared
    HASH_BITS = 14,
    SAMPLE_BYTES_MAX = 1 << 18,
};

// ---- one record ----

// Returns the text up to the next gap. rest->data becomes NULL after the last one.
static struct text next_part(struct text *rest)
{
    const char *end = memchr(rest->data, FRAME_GAP, rest->size);
    if (!end) {
        struct text part = *rest;
        *rest = (struct text){0};
        return part;
    }
    size_t size = (size_t)(end - rest->data);
    struct text part = {rest->data, size};
    *rest = (struct text){end + 1, rest->size - size - 1};
    return part;
}

// True if the text may be stored in a gap: it has none of the three bytes and of their escapes, and no NUL,
// which ends a text in SQL.
static bool is_plain(struct text text)
{
    const char *at = text.data, *end = text.data + text.size;
    for (const char *c = at; c < end; c++)
        if (*c == '\0' || (*c >= FRAME_CUSTOM_ID && *c <= FRAME_GAP))
            return false;
    while ((at = memmem(at, (size_t)(end - at), "\\u001", 5))) {
        if (at + 5 < end && at[5] >= 'd' && at[5] <= 'f')
            return false;
        at += 5;
    }
    return true;
}

static bool is_id(struct text gap, struct text id)
{
    return id.size > 0 && text_equal(gap, id) && !memchr(id.data, '"', id.size) &&
           !memchr(id.data, '\\', id.size);
}

static void add_gap(struct text gap, const struct frame_ids *ids, struct buffer *gaps)
{
    if (is_id(gap, ids->job_id))
        buffer_add_byte(gaps, FRAME_JOB_ID);
    else if (is_id(gap, ids->custom_id))
        buffer_add_byte(gaps, FRAME_CUSTOM_ID);
    else
        buffer_add_text(gaps, gap);
}

bool frame_match(struct text frame, struct text record, const struct frame_ids *ids, struct buffer *gaps)
{
    const char *last_gap = frame.size ? memrchr(frame.data, FRAME_GAP, frame.size) : NULL;
    if (!last_gap)
        return false;
    struct text rest = frame, first = next_part(&rest);
    struct text last = {last_gap + 1, (size_t)(frame.data + frame.size - last_gap) - 1};
    if (record.size < first.size + last.size || memcmp(record.data, first.data, first.size) != 0 ||
        memcmp(record.data + record.size - last.size, last.data, last.size) != 0)
        return false;
    const char *at = record.data + first.size, *end = record.data + record.size - last.size;
    size_t before = gaps->size;
    bool is_last = false, matches = true;
    while (matches && !is_last) {
        is_last = rest.data > last_gap;
        struct text part = is_last ? (struct text){0} : next_part(&rest);
        const char *found = is_last ? end : memmem(at, (size_t)(end - at), part.data, part.size);
        matches = found && is_plain((struct text){at, (size_t)(found - at)});
        if (matches)
            add_gap((struct text){at, (size_t)(found - at)}, ids, gaps);
        if (matches && !is_last)
            buffer_add_byte(gaps, FRAME_GAP);
        at = matches ? found + part.size : at;
    }
    if (!matches)
        gaps->size = before;
    return matches && !gaps->failed;
}

bool frame_fill(struct text frame, struct text gaps, const struct frame_ids *ids, struct buffer *record)
{
    struct text rest = gaps.size ? gaps : TEXT("");
    buffer_add_text(record, next_part(&frame));
    while (frame.data && rest.data) {
        struct text gap = next_part(&rest);
        if (gap.size == 1 && (*gap.data == FRAME_JOB_ID || *gap.data == FRAME_CUSTOM_ID))
            gap = *gap.data == FRAME_JOB_ID ? ids->job_id : ids->custom_id;
        buffer_add_text(record, gap);
        buffer_add_text(record, next_part(&frame));
    }
    return !frame.data && !rest.data;
}

// ---- the common parts of samples ----

// The parts that two texts share, in the order of both. `one` is the frame so far, `two` a sample.
struct alignment {
    struct text one, two;
    struct text parts[FRAME_PARTS_MAX]; // in `one`
    size_t begins[FRAME_PARTS_MAX];     // of each part in `two`
    size_t n;
    int32_t *heads, *chain; // [1 << HASH_BITS] and [one.size]: places in `one` + 1 with the same window
};

static unsigned window_hash(const char *at, unsigned bits)
{
    uint64_t window;
    memcpy(&window, at, WINDOW);
    return (unsigned)((window * 0x9E3779B97F4A7C15u) >> (64 - bits));
}

static unsigned index_windows(struct alignment *alignment, size_t begin, size_t end)
{
    unsigned bits = 6;
    while (bits < HASH_BITS && ((size_t)1 << bits) < end - begin)
        bits++;
    memset(alignment->heads, 0, sizeof *alignment->heads << bits);
    size_t first = begin; // no window from here has a gap, up to the place after it
    for (size_t i = begin; i < end; i++) {
        first = alignment->one.data[i] == FRAME_GAP ? i + 1 : first;
        if (i + 1 < first + WINDOW)
            continue;
        size_t at = i + 1 - WINDOW;
        unsigned hash = window_hash(alignment->one.data + at, bits);
        alignment->chain[at] = alignment->heads[hash];
        alignment->heads[hash] = (int32_t)at + 1;
    }
    return bits;
}

// A range of `one` and a range of `two`.
struct ranges {
    size_t one, one_end, two, two_end;
};

static struct ranges longest_common(struct alignment *alignment, const struct ranges *in)
{
    const char *one = alignment->one.data, *two = alignment->two.data;
    struct ranges best = {0};
    unsigned bits = index_windows(alignment, in->one, in->one_end);
    for (size_t at = in->two; at + WINDOW <= in->two_end;) {
        int32_t place = alignment->heads[window_hash(two + at, bits)];
        size_t longest = 0;
        for (int tries = 0; place && tries < CHAIN_MAX; tries++, place = alignment->chain[place - 1]) {
            size_t begin = (size_t)place - 1, n = 0;
            while (begin + n < in->one_end && at + n < in->two_end && one[begin + n] == two[at + n])
                n++;
            if (n > best.one_end - best.one)
                best = (struct ranges){begin, begin + n, at, at + n};
            longest = n > longest ? n : longest;
        }
        at += longest > WINDOW ? longest - WINDOW + 1 : 1;
    }
    return best;
}

static void add_part(struct alignment *alignment, size_t one, size_t size, size_t two)
{
    if (!size || alignment->n == FRAME_PARTS_MAX)
        return;
    alignment->begins[alignment->n] = two;
    alignment->parts[alignment->n++] = (struct text){alignment->one.data + one, size};
}

static void align(struct alignment *alignment, const struct ranges *in)
{
    if (in->one_end - in->one < WINDOW || in->two_end - in->two < WINDOW || alignment->n == FRAME_PARTS_MAX)
        return;
    struct ranges best = longest_common(alignment, in);
    if (best.one_end - best.one < WINDOW)
        return;
    while (best.one > in->one && best.two > in->two &&
           alignment->one.data[best.one - 1] == alignment->two.data[best.two - 1]) {
        best.one--;
        best.two--;
    }
    align(alignment, &(struct ranges){in->one, best.one, in->two, best.two});
    add_part(alignment, best.one, best.one_end - best.one, best.two);
    align(alignment, &(struct ranges){best.one_end, in->one_end, best.two_end, in->two_end});
}

// Replaces `frame` by what it shares with the sample.
static void reduce_frame(struct alignment *alignment, struct text sample, struct buffer *frame,
                         struct buffer *scratch)
{
    alignment->one = (struct text){frame->data, frame->size};
    alignment->two = sample;
    alignment->n = 0;
    size_t start = 0, end = 0, shorter = frame->size < sample.size ? frame->size : sample.size;
    while (start < shorter && frame->data[start] == sample.data[start])
        start++;
    while (end < shorter - start && frame->data[frame->size - end - 1] == sample.data[sample.size - end - 1])
        end++;
    add_part(alignment, 0, start, 0);
    align(alignment, &(struct ranges){start, frame->size - end, start, sample.size - end});
    add_part(alignment, frame->size - end, end, sample.size - end);
    buffer_clear(scratch);
    for (size_t i = 0; i < alignment->n; i++) {
        bool is_begin = i == 0 && alignment->parts[0].data == frame->data && alignment->begins[0] == 0;
        if (!is_begin)
            buffer_add_byte(scratch, FRAME_GAP);
        buffer_add_text(scratch, alignment->parts[i]);
    }
    size_t n = alignment->n;
    const struct text *last = n ? &alignment->parts[n - 1] : NULL;
    bool is_end = n && last->data + last->size == frame->data + frame->size &&
                  alignment->begins[n - 1] + last->size == sample.size;
    if (!is_end)
        buffer_add_byte(scratch, FRAME_GAP);
    struct buffer other = *frame;
    *frame = *scratch;
    *scratch = other;
}

// ---- parts that are common by chance ----

static bool is_quote(struct text part, size_t i)
{
    size_t n_slashes = 0;
    if (part.data[i] != '"')
        return false;
    while (n_slashes < i && part.data[i - n_slashes - 1] == '\\')
        n_slashes++;
    return n_slashes % 2 == 0;
}

static bool is_one_of(char byte, const char *set)
{
    return byte && strchr(set, byte);
}

// Cuts a short beginning, or end, within a JSON string or number off the part, and what remains of a
// character of several bytes.
static struct text trim_part(struct text part, bool is_begin, bool is_end)
{
    size_t first = 0, last = part.size;
    while (first < part.size && !is_quote(part, first))
        first++;
    while (last > 0 && !is_quote(part, last - 1))
        last--;
    if (!last)
        return part.size < TEXT_PART_LEAST ? (struct text){part.data, 0} : part;
    bool opens_first = first + 1 < part.size && !is_one_of(part.data[first + 1], ":,]}");
    bool opens_last = last > 1 && is_one_of(part.data[last - 2], ":,[{");
    size_t begin = 0, end = part.size;
    if (!is_begin && first < TEXT_PART_LEAST)
        for (begin = first; opens_first && begin > 0 && is_one_of(part.data[begin - 1], ":,{}[]");)
            begin--;
    if (!is_end && part.size - last < TEXT_PART_LEAST)
        for (end = last; !opens_last && end < part.size && is_one_of(part.data[end], ":,{}[]");)
            end++;
    return (struct text){part.data + begin, end - begin};
}

static struct text whole_characters(struct text part, bool is_begin, bool is_end)
{
    while (!is_begin && part.size && ((unsigned char)*part.data & 0xC0) == 0x80)
        part = (struct text){part.data + 1, part.size - 1};
    if (!is_end)
        part.size = utf8_complete_prefix(part.data, part.size);
    return part;
}

static void trim_parts(struct buffer *frame, struct buffer *scratch)
{
    struct text rest = {frame->data, frame->size};
    buffer_clear(scratch);
    for (bool is_begin = true, is_end = false; !is_end; is_begin = false) {
        struct text part = next_part(&rest);
        is_end = !rest.data;
        part = whole_characters(trim_part(part, is_begin, is_end), is_begin, is_end);
        if (!is_begin && (part.size || is_end))
            buffer_add_byte(scratch, FRAME_GAP);
        buffer_add_text(scratch, part);
    }
    struct buffer other = *frame;
    *frame = *scratch;
    *scratch = other;
}

// Copies a sample. With `numbers_vary`, each number outside strings becomes a gap.
static void begin_frame(struct text sample, bool numbers_vary, struct buffer *frame)
{
    bool is_string = false;
    for (size_t i = 0; i < sample.size; i++) {
        if (is_quote(sample, i))
            is_string = !is_string;
        bool is_number = numbers_vary && !is_string && is_one_of(sample.data[i], "+-.0123456789eE");
        // the letter e of true and false is no number's
        is_number =
            is_number && (!is_one_of(sample.data[i], "eE") || frame->data[frame->size - 1] == FRAME_GAP);
        if (!is_number)
            buffer_add_byte(frame, sample.data[i]);
        else if (!frame->size || frame->data[frame->size - 1] != FRAME_GAP)
            buffer_add_byte(frame, FRAME_GAP);
    }
}

static bool saves_enough(struct buffer *frame, const struct text *samples, size_t n)
{
    struct buffer gaps = {0};
    size_t n_saved = 0;
    for (size_t i = 0; i < n; i++) {
        buffer_clear(&gaps);
        bool matches =
            frame_match((struct text){frame->data, frame->size}, samples[i], &(struct frame_ids){0}, &gaps);
        n_saved += matches && gaps.size + FRAME_SAVED_LEAST <= samples[i].size;
    }
    frame->failed = gaps.failed;
    buffer_finish(&gaps);
    return 4 * n_saved >= 3 * n;
}

bool frame_find(const struct text *samples, size_t n, bool numbers_vary, struct buffer *frame)
{
    struct buffer scratch = {0};
    struct alignment *alignment = calloc(1, sizeof *alignment);
    for (size_t i = 0; i < n; i++)
        if (samples[i].size > SAMPLE_BYTES_MAX || samples[i].size < FRAME_SAVED_LEAST ||
            memchr(samples[i].data, FRAME_GAP, samples[i].size))
            n = 0;
    buffer_clear(frame);
    if (alignment && n) {
        alignment->heads = malloc(sizeof *alignment->heads << HASH_BITS);
        alignment->chain = malloc(sizeof *alignment->chain * samples[0].size);
        begin_frame(samples[0], numbers_vary, frame);
    }
    bool is_found = alignment && alignment->heads && alignment->chain && n > 1;
    bool has_failed = n && !(alignment && alignment->heads && alignment->chain);
    for (size_t i = 1; is_found && i < n && !frame->failed && !scratch.failed; i++)
        reduce_frame(alignment, samples[i], frame, &scratch);
    if (is_found)
        trim_parts(frame, &scratch);
    frame->failed = frame->failed || scratch.failed || has_failed;
    is_found = is_found && !frame->failed && saves_enough(frame, samples, n) && !frame->failed;
    if (alignment) {
        free(alignment->heads);
        free(alignment->chain);
    }
    free(alignment);
    buffer_finish(&scratch);
    return is_found;
}
