// The fields of a job record. One table is used to decode, check and encode them; tests compare it with
// job.schema.json. Internal to schemas/. job_record.c uses the table; prompt.c, parameters.c,
// job_constraint.c and tools.c decode the fields that need more than a type and a range.
#pragma once

#include "schemas/decoding.h"

// Begins to decode a record with the table.
struct decoding request_decoding(struct job *job, struct error *error);
// The table, in the order in which job_encode writes.
const struct field *request_fields(size_t *n_fields);

enum collect { COLLECT_ALL, COLLECT_IDENTITY, COLLECT_REQUEST };
// Sorts an object's members into decoding->values; unknown members become warnings. COLLECT_IDENTITY: the
// outer object of an OpenAI batch line, where request fields are errors, reported after all members are
// sorted.
enum status request_collect(struct decoding *decoding, struct value *object,
                            enum collect collect) WARN_UNUSED;
// Reads the whole identity even after a fault, so that the error is reported for the right job. Returns the
// first fault.
enum status request_decode_identity(struct decoding *decoding) WARN_UNUSED;
// Decodes the other collected values, and checks combinations of fields.
enum status request_decode(struct decoding *decoding) WARN_UNUSED;
bool request_encode(const struct job *job, struct arena *arena, struct value *object);
// Encodes everything that the answer depends on: the request without the job's identity, priority and
// deadline.
bool request_encode_alone(const struct job *job, struct arena *arena, struct value *object);

// prompt.c
enum status prompt_decode_messages(struct decoding *decoding, struct value *value);
enum status prompt_decode_prompt(struct decoding *decoding, struct value *value);
enum status prompt_decode_tokens(struct decoding *decoding, struct value *value);
enum status prompt_decode_documents(struct decoding *decoding, struct value *value);
enum status prompt_decode_add_generation_prompt(struct decoding *decoding, struct value *value);
enum status prompt_decode_add_special_tokens(struct decoding *decoding, struct value *value);
enum status prompt_decode_kwargs(struct decoding *decoding, struct value *value);
enum status prompt_decode_enable_thinking(struct decoding *decoding, struct value *value);
enum status prompt_decode_reasoning_effort(struct decoding *decoding, struct value *value);
// Checks that exactly one of messages, prompt and tokens is given, and builds the template's variables.
enum status prompt_finish(struct decoding *decoding) WARN_UNUSED;
bool prompt_encode_messages(const struct job *job, struct arena *arena, struct value *value);
bool prompt_encode_prompt(const struct job *job, struct arena *arena, struct value *value);
bool prompt_encode_tokens(const struct job *job, struct arena *arena, struct value *value);
bool prompt_encode_documents(const struct job *job, struct arena *arena, struct value *value);
bool prompt_encode_add_generation_prompt(const struct job *job, struct arena *arena, struct value *value);
bool prompt_encode_add_special_tokens(const struct job *job, struct arena *arena, struct value *value);
bool prompt_encode_kwargs(const struct job *job, struct arena *arena, struct value *value);

// tool_calls.c
// Converts the arguments of an assistant's tool_calls to objects, as vLLM does. `index`: of the message.
enum status tool_calls_decode(struct decoding *decoding, size_t index, struct value *message) WARN_UNUSED;

// tools.c
enum status tools_decode(struct decoding *decoding, struct value *value);
enum status tools_decode_choice(struct decoding *decoding, struct value *value);
enum status tools_decode_parallel(struct decoding *decoding, struct value *value);
bool tools_encode(const struct job *job, struct arena *arena, struct value *value);
bool tools_encode_choice(const struct job *job, struct arena *arena, struct value *value);
bool tools_encode_parallel(const struct job *job, struct arena *arena, struct value *value);

// parameters.c
enum status parameters_decode_max_tokens(struct decoding *decoding, struct value *value);
enum status parameters_decode_max_completion_tokens(struct decoding *decoding, struct value *value);
enum status parameters_decode_seed(struct decoding *decoding, struct value *value);
enum status parameters_decode_stop(struct decoding *decoding, struct value *value);
enum status parameters_decode_stop_token_ids(struct decoding *decoding, struct value *value);
enum status parameters_decode_bad_words(struct decoding *decoding, struct value *value);
enum status parameters_decode_allowed_token_ids(struct decoding *decoding, struct value *value);
enum status constraint_decode_response_format(struct decoding *decoding, struct value *value);
enum status constraint_decode_structured_outputs(struct decoding *decoding, struct value *value);
enum status constraint_decode_guided_json(struct decoding *decoding, struct value *value);
enum status constraint_decode_guided_regex(struct decoding *decoding, struct value *value);
enum status constraint_decode_guided_choice(struct decoding *decoding, struct value *value);
enum status constraint_decode_guided_grammar(struct decoding *decoding, struct value *value);
enum status constraint_decode_json_spacing(struct decoding *decoding, struct value *value);
enum status constraint_decode_guided_whitespace_pattern(struct decoding *decoding, struct value *value);
enum status constraint_decode_json_schema(struct decoding *decoding, struct value *value);
enum status constraint_decode_grammar(struct decoding *decoding, struct value *value);
// Called after all fields. Refuses fields that contradict the constraint.
enum status constraint_finish(struct decoding *decoding);
enum status parameters_decode_logit_bias(struct decoding *decoding, struct value *value);
enum status parameters_decode_logprobs(struct decoding *decoding, struct value *value);
enum status parameters_decode_warnings(struct decoding *decoding, struct value *value);
enum status parameters_finish(struct decoding *decoding) WARN_UNUSED;
bool parameters_encode_max_tokens(const struct job *job, struct arena *arena, struct value *value);
bool parameters_encode_seed(const struct job *job, struct arena *arena, struct value *value);
bool parameters_encode_stop(const struct job *job, struct arena *arena, struct value *value);
bool parameters_encode_logprobs(const struct job *job, struct arena *arena, struct value *value);
bool parameters_encode_stop_token_ids(const struct job *job, struct arena *arena, struct value *value);
bool parameters_encode_bad_words(const struct job *job, struct arena *arena, struct value *value);
bool parameters_encode_allowed_token_ids(const struct job *job, struct arena *arena, struct value *value);
bool constraint_encode_json_spacing(const struct job *job, struct arena *arena, struct value *value);
bool constraint_encode_structured_outputs(const struct job *job, struct arena *arena, struct value *value);
bool parameters_encode_logit_bias(const struct job *job, struct arena *arena, struct value *value);
bool parameters_encode_warnings(const struct job *job, struct arena *arena, struct value *value);

// embedding_request.c
enum status embedding_decode_input(struct decoding *decoding, struct value *value);
enum status embedding_decode_encoding_format(struct decoding *decoding, struct value *value);
enum status embedding_decode_input_type(struct decoding *decoding, struct value *value);
enum status embedding_decode_truncation_side(struct decoding *decoding, struct value *value);
// Called after all fields.
enum status embedding_finish(struct decoding *decoding) WARN_UNUSED;
bool embedding_encode_input(const struct job *job, struct arena *arena, struct value *value);
bool embedding_encode_encoding_format(const struct job *job, struct arena *arena, struct value *value);
bool embedding_encode_input_type(const struct job *job, struct arena *arena, struct value *value);
bool embedding_encode_truncation_side(const struct job *job, struct arena *arena, struct value *value);

// ranking_request.c
enum status ranking_decode_task(struct decoding *decoding, struct value *value);
enum status ranking_decode_query(struct decoding *decoding, struct value *value);
enum status ranking_decode_documents(struct decoding *decoding, struct value *value);
enum status ranking_decode_text_1(struct decoding *decoding, struct value *value);
enum status ranking_decode_text_2(struct decoding *decoding, struct value *value);
// Called after all fields, after embedding_finish.
enum status ranking_finish(struct decoding *decoding) WARN_UNUSED;
bool ranking_encode_task(const struct job *job, struct arena *arena, struct value *value);
bool ranking_encode_input(const struct job *job, struct arena *arena, struct value *value);
bool ranking_encode_query(const struct job *job, struct arena *arena, struct value *value);
bool ranking_encode_documents(const struct job *job, struct arena *arena, struct value *value);
bool ranking_encode_text_1(const struct job *job, struct arena *arena, struct value *value);
bool ranking_encode_text_2(const struct job *job, struct arena *arena, struct value *value);

// openai.c
// Decodes an OpenAI batch line: an object with a "body".
enum status openai_line_decode(struct decoding *decoding, struct value *line) WARN_UNUSED;
