// Any bytes as a record of the jobs topic, headers included, on the whole path of a job but the broker:
// intake, gate, template, tokenizer, window, batcher with the engine without arithmetic, result, dead letter,
// store. A well-formed job runs beside it, in the same batch. Any record ends once, with
// an answer or one clear error that can be read back, in bounded memory and a bounded number of rounds; and
// the other job's answer is the bytes it always is.
//
//   u8 flags         bit 0: the record has a key; bits 1-2: crashes it was a suspect of
//   u8 n_headers     each: u8 name (an index of `names`, beyond them the name is that one byte), u8 size,
//                    size bytes of value
//   u8 n_times       the headers are repeated so often, up to KAFKA_HEADERS_MAX
//   the value        what is left
#include "consumer/worker/gate.h"
#include "consumer/queue/headers.h"
#include "consumer/queue/intake.h"
#include "consumer/queue/kafka.h"
#include "consumer/worker/test_executor.h"
#include "store/store.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/vocabulary_file.h"

#include <unistd.h>

enum {
    CONTEXT = 96,
    N_PAGES = 64,
    PAGE_POSITIONS = 16,
    ROUNDS_MAX = 2 * JOB_N_MAX * CONTEXT,
    BYTES_PER_BYTE = 64,        // of the job, for each of the record
    ANSWER_BYTES_MAX = 4 << 20, // JOB_N_MAX answers of CONTEXT tokens, with logprobs
    SUSPECT_CRASHES_MAX = 3,
};

static const char *const names[] = {"content-type",   HEADER_DATASET,        HEADER_JOB_ID,
                                    HEADER_CUSTOM_ID, HEADER_INDEX,          HEADER_CREATED,
                                    "traceparent",    "tracestate",          "sheaf-source-offset",
                                    "ce_id",          "__sheaf.errors.code", ""};

// Made once.
static struct path_fixture {
    struct tokenizer *tokenizer;
    struct template *chat_template;
    struct test_executor *executor;
    struct pool *pool;
    struct store *store;
    struct buffer well; // the other job's result when it ran alone
} fixture;

// Input as it is taken apart.
struct path_input {
    const uint8_t *data;
    size_t size;
};

static uint8_t take_byte(struct path_input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

static struct text take_text(struct path_input *input, size_t size)
{
    size = size < input->size ? size : input->size;
    struct text text = {(const char *)input->data, size};
    input->data += size;
    input->size -= size;
    return text;
}

// ---- what a worker has ----

static struct tokenizer *open_tokenizer(void)
{
    static const char *const merges[] = {"t h", "th e", "e r", "\xC4\xA0 t", "i n"};
    struct vocabulary_file file = {0};
    add_byte_alphabet(&file);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        char piece[16];
        size_t n = 0;
        for (const char *letter = merges[i]; *letter; letter++)
            if (*letter != ' ')
                piece[n++] = *letter;
        piece[n] = '\0';
        add_token(&file, piece, 0, TYPE_NORMAL);
        add_merge(&file, merges[i]);
    }
    int32_t end = add_token(&file, "<|im_end|>", 0, TYPE_CONTROL);
    add_token(&file, "<|im_start|>", 0, TYPE_CONTROL);
    add_key_u32(&file, "tokenizer.ggml.eos_token_id", (uint32_t)end);
    struct error error;
    struct tokenizer *tokenizer = vocabulary_file_open(&file, "gpt2", "llama-bpe", &error);
    fuzz_check(tokenizer);
    return tokenizer;
}

// All that a record can hand to a template: roles, contents, tools, documents, names of its own.
static const char template_source[] =
    "{%- for tool in tools or [] %}{{ tool | tojson }}{% endfor -%}"
    "{%- for document in documents or [] %}{{ document }}{% endfor -%}"
    "{%- if enable_thinking is defined %}{{ enable_thinking }}{% endif -%}"
    "{%- for message in messages -%}<|im_start|>{{ message['role'] }}\n"
    "{%- if message.content is string %}{{ message.content | trim }}{% else %}{{ "
    "message.content | string }}{% endif -%}"
    "{%- for call in message.tool_calls or [] %}{{ call.function.name }}{{ "
    "call.function.arguments | tojson }}{% endfor -%}"
    "<|im_end|>\n{%- endfor -%}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif -%}";

static struct store *open_store(void)
{
    char folder[] = "/tmp/sheaf-fuzz-XXXXXX", path[64];
    struct store *store;
    struct error error;
    fuzz_check(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s.db", folder);
    fuzz_check(store_open(&store, path, STORE_CREATE, &error) == STATUS_OK);
    // Nobody else needs the names; the files go with the process.
    for (const char *const *suffix = (const char *const[]){"", "-wal", "-shm", NULL}; *suffix; suffix++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", path, *suffix);
        unlink(name);
    }
    rmdir(folder);
    return store;
}

static int64_t fixed_clock_us(void)
{
    return INT64_C(1800000000000000); // deadlines are what they were at the last run
}

static struct batcher *make_batcher(void)
{
    struct batcher *batcher;
    struct error error;
    struct batcher_config config = {
        .executor = test_executor_bind(fixture.executor),
        .pool = fixture.pool,
        .environment = {.tokenizer = fixture.tokenizer,
                        .chat_template = fixture.chat_template,
                        .tool_template = fixture.chat_template,
                        .limits = {.n_context = CONTEXT,
                                   .n_context_original = CONTEXT,
                                   .n_vocab = tokenizer_n_tokens(fixture.tokenizer) + 9}},
        .limits = {.n_sequences_max = 8,
                   .n_tokens_max = 32,
                   .n_jobs_max = 4,
                   .n_pages = N_PAGES,
                   .page_positions = PAGE_POSITIONS},
        .wall_clock_us = fixed_clock_us};
    fuzz_check(batcher_create(&batcher, &config, &error) == STATUS_OK);
    return batcher;
}

// ---- records ----

static struct record well_record(void)
{
    return (struct record){
        .topic = TEXT("jobs"),
        .offset = 1,
        .value = TEXT("{\"job_id\":\"well\",\"messages\":[{\"role\":\"user\",\"content\":\"the other "
                      "one\"}],\"max_tokens\":9,\"n\":2}")};
}

static int32_t take_headers(struct path_input *input, struct header *headers)
{
    int32_t n_given = take_byte(input), n_times = take_byte(input), n = 0;
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    for (; n < n_given && input->size; n++) {
        size_t name = take_byte(input), n_names = sizeof names / sizeof *names;
        size_t size = take_byte(input);
        headers[n] = (struct header){name < n_names ? text_from_string(names[name])
                                                    : (struct text){letters + name % 26, 1},
                                     take_text(input, size)};
    }
    int32_t n_once = n;
    for (int32_t i = 1; i < n_times; i++)
        for (int32_t j = 0; j < n_once && n < KAFKA_HEADERS_MAX; j++)
            headers[n++] = headers[j];
    return n;
}

static size_t record_bytes(const struct record *record)
{
    size_t bytes = record->value.size + record->key.size;
    for (int32_t i = 0; i < record->n_headers; i++)
        bytes += record->headers[i].name.size + record->headers[i].value.size + sizeof(struct header);
    return bytes;
}

// ---- their outcomes ----

static void check_error(const struct error *error)
{
    fuzz_check(error->code > ERROR_NONE && error->code < ERROR_CODE_COUNT);
    fuzz_check(error->text[0] && utf8_valid(error->text, strlen(error->text)));
}

static void check_headers(const struct record_headers *headers)
{
    fuzz_check(headers->n_items > 0 && headers->n_items <= RECORD_HEADERS_MAX);
    fuzz_check(headers->used_bytes <= sizeof headers->text);
}

static void check_result(struct job *job, enum encoding encoding, struct buffer *out)
{
    struct error error;
    struct record_headers headers = {0};
    if (result_check(job, &error) != STATUS_OK) {
        check_error(&error);
        job_fail(job, &error);
    }
    fuzz_check(job->result.status != RESULT_NONE && job->job_id.size > 0);
    if (job->result.status != RESULT_DONE)
        check_error(&job->result.error);
    result_encode(job, encoding, out);
    fuzz_check(!out->failed);
    job->source.encoding = encoding;
    headers_of_result(&headers, job, "group", "worker", fixed_clock_us());
    check_headers(&headers);
    struct job *again = job_create();
    fuzz_check(result_decode(again, (struct text){out->data, out->size}, encoding, &error) == STATUS_OK);
    fuzz_check(again->result.status == job->result.status &&
               again->result.error.code == job->result.error.code);
    fuzz_check(text_equal(again->job_id, job->job_id) && text_equal(again->dataset, job->dataset));
    job_destroy(again);
    if (!job->source.record.data)
        return;
    headers_of_dead_letter(&headers, job, NULL, fixed_clock_us());
    check_headers(&headers);
}

// As in worker.c: jobs pass the gate; failed ones bypass it.
static void run_batcher(struct job *const *jobs, size_t n_jobs, struct job_list *finished)
{
    struct gate gate = {0};
    struct batcher *batcher = make_batcher();
    struct error error;
    for (size_t i = 0; i < n_jobs; i++) {
        if (jobs[i]->result.status == RESULT_NONE)
            gate_add(&gate, jobs[i]);
        else
            job_list_append(finished, jobs[i]);
    }
    size_t n_left = finished->n_jobs; // have left the gate, or were never in it
    for (int i = 0; finished->n_jobs < n_jobs; i++) {
        fuzz_check(i < ROUNDS_MAX);
        struct job *group[4];
        enum suspect_state how;
        struct job_list passed = {0};
        size_t n = gate_next(&gate, n_left == finished->n_jobs, group, 4, &how);
        gate_pass(&gate, n, how, &passed);
        for (struct job *job; (job = job_list_take(&passed));)
            batcher_take(batcher, job);
        struct job_list done = {0};
        struct step_figures figures;
        fuzz_check(batcher_round(batcher, &done, &figures, &error) == STATUS_OK);
        fuzz_check(figures.n_tokens <= 32);
        for (struct job *job; (job = job_list_take(&done)); n_left++) {
            gate_left(&gate, job);
            gate_remove(&gate, job);
            job_list_append(finished, job);
        }
    }
    fuzz_check(batcher_is_empty(batcher) && !gate.many.n_jobs && !gate.few.n_jobs && !gate.alone.n_jobs);
    batcher_destroy(batcher);
}

static void record_in_store(struct job *const *jobs, size_t n_jobs)
{
    struct error error;
    struct store_record news = {.jobs = (const struct job *const *)jobs, .n_jobs = n_jobs};
    fuzz_check(store_record(fixture.store, &news, &error) == STATUS_OK);
}

static void prepare_fixture(void)
{
    struct error error;
    fixture.tokenizer = open_tokenizer();
    fuzz_check(template_parse(&fixture.chat_template,
                              (struct text){template_source, sizeof template_source - 1},
                              &error) == STATUS_OK);
    fuzz_check(test_executor_create(&fixture.executor, "instant", fixture.tokenizer, &error) == STATUS_OK);
    fuzz_check(pool_create(&fixture.pool, 1, &error) == STATUS_OK);
    fixture.store = open_store();
    struct record record = well_record();
    struct job *job = intake_job(&record, &(struct result_names){.model = TEXT("model")}, NULL);
    struct job_list finished = {0};
    run_batcher(&job, 1, &finished);
    fuzz_check(job->result.status == RESULT_DONE);
    check_result(job, ENCODING_JSON, &fixture.well);
    job_destroy(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct header headers[KAFKA_HEADERS_MAX];
    if (!fixture.tokenizer)
        prepare_fixture();
    struct path_input input = {data, size};
    uint8_t flags = take_byte(&input);
    struct record records[2] = {{.topic = TEXT("jobs"), .headers = headers}, well_record()};
    records[0].n_headers = take_headers(&input, headers);
    records[0].key = flags & 1 ? take_text(&input, 8) : (struct text){0};
    records[0].crashes = flags >> 1 & SUSPECT_CRASHES_MAX;
    records[0].value = take_text(&input, input.size);
    records[0].identity = headers_identity(headers, records[0].n_headers);
    records[0].cut = headers_find(headers, records[0].n_headers, HEADER_CUT);
    records[0].content_type = headers_find(headers, records[0].n_headers, "content-type");
    enum encoding encoding = ENCODING_JSON;
    if (!encoding_detect(records[0].content_type, records[0].value, &encoding))
        encoding = ENCODING_JSON;

    struct job *jobs[2];
    struct job_list finished = {0};
    for (int i = 0; i < 2; i++)
        jobs[i] = intake_job(&records[i], &(struct result_names){.model = TEXT("model")}, NULL);
    fuzz_check(jobs[0] && jobs[1]);
    run_batcher(jobs, 2, &finished);
    fuzz_check(finished.n_jobs == 2 && (finished.first == jobs[0] || finished.last == jobs[0]) &&
               finished.first != finished.last);
    fuzz_check(jobs[0]->arena.total_bytes <= BYTES_PER_BYTE * record_bytes(&records[0]) + ANSWER_BYTES_MAX);

    struct buffer out = {0};
    check_result(jobs[0], encoding, &out);
    buffer_clear(&out);
    check_result(jobs[1], ENCODING_JSON, &out);
    fuzz_check(out.size == fixture.well.size && memcmp(out.data, fixture.well.data, out.size) == 0);
    record_in_store(jobs, 2);
    buffer_finish(&out);
    for (int i = 0; i < 2; i++)
        job_destroy(jobs[i]);
    return 0;
}
