#include "schemas/result_size.h"

static uint64_t n_results_of(const struct job *job)
{
    uint64_t n = (uint64_t)job->request.embedding.n_inputs, top = (uint64_t)job->request.ranking.top_n;
    return top && top < n ? top : n;
}

uint64_t result_input_bytes(const struct job *job, int32_t width)
{
    enum { CLASS_BYTES = 40, SCORE_BYTES = 24 };
    int32_t given = job->request.embedding.n_dimensions;
    bool is_json = job->source.encoding == ENCODING_JSON;
    uint64_t n = (uint64_t)(given ? given : width);
    if (job->request.task == TASK_CLASSIFY)
        return CLASS_BYTES + n * (is_json ? 2 : sizeof(float));
    if (job->request.task == TASK_RERANK)
        return SCORE_BYTES;
    return n * sizeof(float) * (is_json ? 4 : 3) / 3;
}

uint64_t result_bytes(const struct job *job, int32_t width)
{
    const struct request_embedding *embedding = &job->request.embedding;
    if (job->request.task == TASK_GENERATE)
        return 0;
    uint64_t n_inputs = (uint64_t)embedding->n_inputs, n_results = n_results_of(job),
             bytes = result_input_bytes(job, width) * n_results;
    for (uint64_t i = 0; job->request.ranking.returns_documents && n_results == n_inputs && i < n_inputs; i++)
        bytes += embedding->inputs[i].text.size;
    return bytes;
}

uint64_t result_inputs_max(const struct job *job, int32_t width, uint64_t bytes_max)
{
    enum { AROUND_BYTES = 8 }; // of each item
    return bytes_max / (result_bytes(job, width) / n_results_of(job) + AROUND_BYTES);
}
