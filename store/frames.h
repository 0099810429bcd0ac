// Frames in the store (store/frame/frame.h, schemas/store_16.sql): records are stored without what they share with
// others of their dataset. Frames are found from the first records that none fits. Thread: the store's.
#pragma once

#include "store/database.h"
#include "store/frame/frame.h"

struct frames;

enum frame_kind { FRAME_OF_REQUESTS, FRAME_OF_RESULTS };

// Records of one dataset and kind that are to be stored.
struct frame_source {
    enum frame_kind kind;
    struct text dataset;
};

struct whole_record {
    struct text record;
    struct frame_ids ids;
};

struct stored_record {
    struct text bytes;
    int64_t frame; // 0: the record is whole
};

// Adds the SQL functions that statements of the store use:
//   whole_record(record, frame, job_id, custom_id)   the record; of requests the ids are NULL
//   frame_bytes(frame)                               the size of its parts; NULL: 0
enum status frames_open(struct store *store, struct error *error) WARN_UNUSED;
void frames_close(struct store *store);
// Finds a frame for records that will be stored in this transaction, if most of these samples have none.
enum status frames_prepare(struct store *store, const struct frame_source *source,
                           const struct whole_record samples[FRAME_SAMPLES], struct error *error) WARN_UNUSED;
// Called within the transaction that stores them. stored: [n], valid until the next call. After
// FRAME_SAMPLES records without a frame, one is looked for.
enum status frames_shrink(struct store *store, const struct frame_source *source,
                          const struct whole_record *records, size_t n, struct stored_record *stored,
                          struct error *error) WARN_UNUSED;
