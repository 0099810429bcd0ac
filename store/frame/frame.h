// The constant parts of records: a frame is what the records of a dataset share (system text, schema, the
// template's text, the keys of a result), and a record is stored as its frame's number and the texts in the
// gaps. Pure functions over bytes; store/frames.h keeps frames in the store.
//
//   frame    {"messages":[{"role":"user","content":"Label: | "}],"temperature":0,"seed": | }
//   gaps     the row's text | 4711
//   record   {"messages":[{"role":"user","content":"Label: the row's text"}],"temperature":0,"seed":4711}
//
// `|` is the byte FRAME_GAP. A frame with n gaps has n + 1 parts, of which the first and the last may be empty.
// In the gaps of a result the bytes FRAME_JOB_ID and FRAME_CUSTOM_ID mean the job's own. These bytes are
// control characters, which JSON has only as escapes; a record that contains one of them, or its escape, has
// no frame, so that the views of schemas/store_16.sql can fill a frame in SQL.
#pragma once

#include "schemas/base/text.h"

enum {
    FRAME_CUSTOM_ID = 0x1d,
    FRAME_JOB_ID = 0x1e,
    FRAME_GAP = 0x1f,
    FRAME_PARTS_MAX = 64,
    FRAME_BYTES_MAX = 1 << 20,
    FRAME_SAMPLES = 8,      // records from which a frame is found
    FRAME_SAVED_LEAST = 32, // bytes per record that a frame must save
};

// Ids of a job that may stand for themselves in gaps; empty: none.
struct frame_ids {
    struct text job_id, custom_id;
};

// Appends the record's gaps to `gaps`. False: the record does not have this frame, or memory ran out
// (gaps->failed).
bool frame_match(struct text frame, struct text record, const struct frame_ids *ids, struct buffer *gaps);
// Appends the record. False: `gaps` has another number of gaps than the frame.
bool frame_fill(struct text frame, struct text gaps, const struct frame_ids *ids, struct buffer *record);
// Finds the frame that the samples share, greedily: the longest common substring first, then to its left and
// right. samples: [n], n at least 2. `numbers_vary`: every number in JSON becomes a gap. False: no frame
// saves FRAME_SAVED_LEAST bytes in most samples, or memory ran out (frame->failed).
bool frame_find(const struct text *samples, size_t n, bool numbers_vary, struct buffer *frame);
