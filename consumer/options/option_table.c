#include "consumer/options/option_table.h"

#include "schemas/job.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct command commands[] = {
    {"work", WORK | WORK_ALONE, 0, 1, 0, "MODEL [--brokers HOSTS | --store FILE]",
     "The worker: computes jobs from the queue."},
    {"submit", SUBMIT, 1, 1, -1, "FILE.jsonl --dataset NAME [--brokers HOSTS | --store FILE]",
     "Queues the lines of a file (- is standard input): OpenAI batch lines, or "
     "objects with prompt or messages."},
    {"collect", COLLECT, 0, 0, -1,
     "--dataset NAME -o OUT.jsonl [--errors ERR.jsonl] [--brokers HOSTS | --store FILE]",
     "Writes a dataset's results in input order, in the OpenAI batch output format."},
    {"run", RUN, 1, 2, 1, "IN.jsonl MODEL -o OUT.jsonl",
     "Submit, work and collect in one process; resumes after an interruption."},
    {"serve", SERVE | WORK, 0, 1, 0,
     "MODEL [--listen HOST:PORT] [--store FILE] | --no-work [--listen HOST:PORT] [--store FILE]",
     "A worker with OpenAI's files, batches and completions over HTTP in front of it.",
     "A batch is a dataset of the store, answered by this worker and by any other one of the same store. /readyz is 200 "
     "while requests are answered.\n"},
    {"annotate", ANNOTATE, 1, OPTIONS_POSITIONALS_MAX - 1, MODEL_LAST,
     "TABLE... (MODEL | --cascade SMALL,LARGE) (--prompt FILE.jinja | --messages FILE.jsonl.jinja) [--schema FILE | --choice A,B | --questions FILE] -o OUT",
     "Adds columns with answers to a table (CSV, TSV, JSON lines, Parquet, SQLite); "
     "resumes, and computes nothing twice.",
     "A row of CSV or TSV is a line, or several where a quoted field holds line "
     "feeds; the first line names the columns.\n"
     "A row of JSON lines is an object, its members are the columns. A prompt reads "
     "a column by its name, {{ title }}, or\n"
     "all of them as row. Each row is written again as it was, with the answers' "
     "columns after its own: answer, label (--choice)\n"
     "or the schema's properties, then sheaf_finish_reason and sheaf_error. In CSV and TSV a BLOB is "
     "base64; no prompt reads one.\n"
     "Several files with the same columns are one table, a file after the other; with --split each has an output of its own.\n"
     "With --brokers the workers of a jobs topic answer (sheaf work --brokers),"
     " and no MODEL is needed here.\n"},
    {"verify", VERIFY, 1, OPTIONS_POSITIONALS_MAX - 1, -1,
     "TABLE... --certificate FILE [--model MODEL] [--sample N]",
     "Checks a table against its certificate (annotate --certificate), and computes random rows of it again.",
     "Without --model no row is computed: the cells, the prompts and the options are checked alone.\n"
     "A row that was changed, added, removed or moved, another model or arithmetic, or a changed certificate: exit "
     "status 1.\n"},
    {"report", REPORT, 0, 0, -1, "--dataset NAME -o REPORT.html [--store FILE] [--statistics FILE]",
     "Writes a page with a dataset's figures, plots, errors, labels and evaluation."},
    {"status", STATUS, 0, 0, -1,
     "[--dataset NAME] [--watch] [--json] --store FILE [--rebuild --brokers HOSTS]",
     "Progress, rate and time left of each dataset."},
    {"mirror", MIRROR, 0, 0, -1, "--brokers HOSTS --store FILE",
     "Builds the store of a whole fleet from the topics and keeps it up to date."},
    {"lag", LAG, 0, 0, -1, "--brokers HOSTS [--jobs TOPIC --group NAME] [--json | --metrics HOST:PORT]",
     "The jobs that a group has not finished, from its topic alone, also without a worker.",
     "With --metrics it goes on and serves the number, as Prometheus metrics and as JSON, for a scaler.\n"},
    {"redrive", REDRIVE, 0, 0, -1, "--brokers HOSTS [--dead TOPIC --jobs TOPIC] [--where NAME=VALUE]",
     "Sends dead letters to the jobs topic again, each once.",
     "A job keeps its key, value and headers; why it died becomes the headers __sheaf.errors.1.code and so on, and "
     "collect takes\nits new result. What was sent is on the control topic, so a redrive that was killed goes on.\n"},
    {"cancel", CANCEL, 0, 0, -1, "--dataset NAME [--brokers HOSTS | --store FILE]",
     "Cancels the unfinished jobs of a dataset."},
    {"dataset", DATASET, 1, 3, -1, "list|delete|rename|reopen [NAME [NEW-NAME]] [--store FILE]",
     "Lists, deletes, renames datasets of a store, or queues their failed and cancelled jobs again."},
    {"backup", BACKUP, 1, 1, -1, "FILE [--store FILE]", "Copies a store, also while workers use it.",
     "The copy is one file with everything that was finished when the command began; --store FILE opens it as it is.\n"},
    {"inspect", INSPECT, 1, 1, 0, "MODEL [--json]",
     "Family, shape, tensor types, tokenizer, template, memory needed."},
    {"tokenize", TOKENIZE, 1, 1, 0, "MODEL [--special] [--add-special-tokens]",
     "Standard input: lines {\"text\": ...}. Standard output: an array of token ids per line."},
    {"grammar", GRAMMAR, 1, 2, 0,
     "MODEL (--json-schema FILE | --regex R | --choice A,B | --grammar FILE) "
     "[FILE] | --cases CASES.jsonl --json",
     "Compiles a constraint; of each line of FILE or standard input: accepted or not, and where; tokens, "
     "forced tokens. Times are processor time of one thread."},
    {"template", TEMPLATE, 1, 1, 0, "MODEL|FILE.jinja [--bos TEXT --eos TEXT --now YYYY-MM-DD]",
     "Standard input: {\"messages\": [...], ...}. Standard output: the rendered prompt. Of a "
     "model, tools and documents that are absent are none,"
     " as in jobs; of a file undefined, as in plain Jinja2."},
    {"logits", LOGITS, 1, 1, 0, "MODEL --tokens \"3 17 9\" -o OUT.f32",
     "float32 logits of every position, row-major [tokens, vocabulary]."},
    {"perplexity", PERPLEXITY, 2, 2, 0, "MODEL FILE [--against MODEL2] [--context N] [--json]",
     "How well a model predicts a text file; with --against also how far it is from another model: KL "
     "divergence, same most likely token.",
     "As llama-perplexity: the text is divided into windows of N tokens, and the second half of each is scored.\n"
     "A shorter text is one window, scored from its second token on.\n"},
    {"embed", EMBED, 1, 2, 0, "MODEL [-o OUT.jsonl] | MODEL TABLE --column NAME|--prompt FILE.jinja -o OUT",
     "Vectors of texts. Standard input: texts, a line each, or lines {\"text\": ...}; standard output: a JSON line "
     "with each one's vector. Or of the rows of a table.",
     "The lines are JSON if the first is an object with a string text, or if all are strings; else each line is a text.\n"
     "An object's id or custom_id, a string or a number, stands beside its vector.\n"
     "A text without a vector, one that is too long say, has a line with its error, and the exit status is 3.\n"
     "Vectors are written as some thousand texts are computed, and at the end of the input. The file of -o appears when "
     "it is complete;\nuntil then it is OUT.jsonl.part, which the same command continues after an interruption.\n"
     "Of a TABLE (CSV, TSV, JSON lines, Parquet, SQLite) each row has a vector, equal texts are computed once. OUT.npy: an "
     "array of NumPy whose row i\nis the table's row i. Any other OUT is the table with a column embedding: base64 of "
     "the items in CSV, TSV and Parquet, a list in\nJSON lines, a BLOB in SQLite (--into). A row without a vector is "
     "NaN, empty or NULL, and has a line in the file of --errors.\n"
     "With --brokers a fleet of workers (sheaf work) computes a table's vectors: sheaf embed TABLE --column NAME -o OUT "
     "--brokers HOSTS.\n"},
    {"classify", CLASSIFY, 1, 1, 0, "MODEL [--activation HOW] [-o OUT.jsonl]",
     "Standard input: texts, a line each, or lines {\"text\": ...}. Standard output: a JSON line with each one's "
     "label and the probabilities of all.",
     "The model has a classification head (*ForSequenceClassification, or a GGUF with cls.output). sheaf inspect lists "
     "its labels.\n"
     "Lines, ids, errors and interruptions are as of sheaf embed. {\"text\": ..., \"text_pair\": ...} is a pair.\n"},
    {"rerank", RERANK, 1, 1, 0, "MODEL [--top-n N] [-o OUT.jsonl]",
     "Standard input: lines {\"query\": ..., \"documents\": [...]}. Standard output: a JSON line with the documents in "
     "the order of their relevance.",
     "The model is a reranker with one label, or a language model that answers yes or no (Qwen3-Reranker).\n"
     "A document is a string or an object with a string text. With \"document\" in place of documents the line has one "
     "score.\n"
     "Ids, errors and interruptions are as of sheaf embed; a document without a score has its error in the line.\n"},
    {"quantize", QUANTIZE, 2, 2, 0, "IN OUT.gguf [--type q8_0|q6_k|q5_k|q4_k|q4_0|bf16|f16|f32]",
     "Writes a model as GGUF with its matrices in another type. IN: a GGUF file or a Hugging Face folder."},
    {"bench", BENCH, 0, 1, 0,
     "MODEL [--prompt 128 --generate 32 --batch 1,8,32 | --settings LIST | --embed] [--json] | --products",
     "Prefill and decode tokens per second by batch size."},
};

#define AT(field) offsetof(struct settings, field)

static const struct option options[] = {
    {"model", 'm', TEXT_VALUE, WITH_MODEL, AT(model.path), 1, ONCE, "MODEL",
     "GGUF file, or Hugging Face folder: the same as MODEL in the usage"},
    {"brokers", 'b', TEXT_VALUE, ON_KAFKA, AT(kafka.brokers), 1, 0, "HOSTS",
     "Kafka bootstrap servers; default: the embedded queue"},
    {"jobs", 0, TEXT_VALUE, ON_KAFKA, AT(kafka.topics.jobs), 1, 0, "TOPIC", "topic of jobs (sheaf-jobs)"},
    {"results", 0, TEXT_VALUE, ON_KAFKA, AT(kafka.topics.results), 1, 0, "TOPIC",
     "topic of results (sheaf-results)"},
    {"dead", 0, TEXT_VALUE, ON_KAFKA, AT(kafka.topics.dead), 1, 0, "TOPIC",
     "topic of dead letters (sheaf-dead)"},
    {"control", 0, TEXT_VALUE, ON_KAFKA, AT(kafka.topics.control), 1, 0, "TOPIC",
     "compacted topic of cancellations (sheaf-control)"},
    {"group", 'g', TEXT_VALUE, WORK | COLLECT | MIRROR | STATUS | LAG, AT(kafka.group.name), 1, 0, "NAME",
     "consumer group (sheaf)"},
    {"member-name", 0, TEXT_VALUE, WORK, AT(kafka.group.member_name), 1, 0, "NAME",
     "static member name and transactional id, e.g. of a"
     " pod; default: generated and stored beside the store"},
    {"dynamic-member", 0, FLAG, WORK, AT(kafka.group.is_dynamic), 0, 0, NULL,
     "no group.instance.id; default: static membership: a killed worker that is started again has its partitions "
     "at once"},
    {"group-protocol", 0, TEXT_VALUE, WORK, AT(kafka.group.protocol), 1, 0, "HOW",
     "rebalance protocol: eager, cooperative (librdkafka 2.6.1) or consumer "
     "(KIP-848: librdkafka 2.12, Kafka 4) (eager)"},
    {"membership-timeout", 0, DURATION, WORK, AT(kafka.group.membership_timeout_s), 0, 0, "TIME",
     "the worker ends after this time without confirmed membership in the group (three times "
     "max.poll.interval.ms: 3m)"},
    {"create-topics", 0, FLAG, WORK | SUBMIT | ANNOTATE | EMBED, AT(kafka.topics.create), 0, 0, NULL,
     "create missing topics"},
    {"partitions", 0, INTEGER, WORK | SUBMIT | ANNOTATE | EMBED, AT(kafka.topics.n_partitions), 1, 65536, "N",
     "partitions of the jobs and results topics created by --create-topics (the brokers' default)"},
    {"pass-headers", 0, TEXT_VALUE, WORK, AT(kafka.pass_headers), 1, 0, "A,B",
     "headers of a job that its result repeats, besides those of traces, correlation and tenants; x-* names all "
     "that begin so"},
    {"reply-topics", 0, TEXT_VALUE, WORK, AT(kafka.reply_topics), 1, 0, "A,B",
     "topics that a job's header reply-topic or kafka_replyTopic may name for its result, in place of the results "
     "topic; replies-* names all that begin so; a job that names another is a dead letter; default: such a header has "
     "no effect"},
    {"where", 0, TEXT_LIST, REDRIVE, AT(redrive_where), 0, 0, "NAME=VALUE",
     "dead letters whose code, stage, dataset or job_id is VALUE; may be repeated: all names must match, each by one "
     "of its values"},
    {"refuse-deleted", 0, FLAG, WORK, AT(kafka.refuse_deleted), 0, 0, NULL,
     "end if retention deleted jobs before the group had read them, or was there; default: a warning"},
    {"skip-unreadable", 0, FLAG, WORK, AT(kafka.skip_unreadable), 0, 0, NULL,
     "pass over batches that can't be read (corrupt, unknown codec, too large once inflated): each is one dead letter "
     "that names its offsets; default: its partition waits, and the worker is not ready"},
    {"ignore-offset-map", 0, FLAG, WORK, AT(kafka.ignore_offset_map), 0, 0, NULL,
     "start even if the group's offset map cannot be read: finished jobs above the offset run again"},
    {"property", 'X', PROPERTY, ON_KAFKA, 0, 0, 0, "KEY=VALUE",
     "any librdkafka property; may be repeated. Passwords: in the file of --config (property = KEY=VALUE)"},
    {"store", 's', TEXT_VALUE,
     ALL & ~(LAG | INSPECT | TOKENIZE | TEMPLATE | LOGITS | PERPLEXITY | EMBED | CLASSIFY | RERANK | BENCH |
             QUANTIZE | GRAMMAR | RUN | ANNOTATE | VERIFY),
     AT(store), 1, 0, "FILE", "SQLite file (sheaf.db)"},
    {"store", 's', TEXT_VALUE, RUN, AT(store), 1, 0, "FILE",
     "SQLite file (OUT.jsonl.db, or IN.jsonl.db where OUT is no file of its own)"},
    {"store", 's', TEXT_VALUE, ANNOTATE, AT(store), 1, 0, "FILE",
     "SQLite file (OUT.csv.db, or IN.csv.db where OUT is no file of its own)"},
    {"dataset", 'd', TEXT_VALUE, SUBMIT | COLLECT | STATUS | CANCEL | WORK_ALONE | DATASET | REPORT,
     AT(dataset), 1, ONCE, "NAME", "dataset"},
    {"split", 0, INTEGER, SUBMIT, AT(split), 1, JOB_INPUTS_MAX, "N",
     "divide /v1/embeddings jobs of more than N inputs, so that each result fits a record of the topic; collect joins "
     "their results"},
    {"dataset", 'd', TEXT_VALUE, RUN, AT(dataset), 1, ONCE, "NAME", "dataset (default run)"},
    {"dataset", 'd', TEXT_VALUE, ANNOTATE, AT(dataset), 1, ONCE, "NAME", "dataset (default annotate)"},
    {"dataset", 'd', TEXT_VALUE, EMBED, AT(dataset), 1, ONCE, "NAME",
     "dataset of the jobs over Kafka (default embed)"},
    {"output", 'o', TEXT_VALUE, COLLECT | RUN | ANNOTATE | LOGITS | EMBED | CLASSIFY | RERANK | REPORT,
     AT(output.file), 1, 0, "FILE", "where to write (- is standard output)"},
    {"errors", 0, TEXT_VALUE, COLLECT | RUN, AT(output.errors), 1, 0, "FILE",
     "file for failed jobs, instead of the output"},
    {"errors", 0, TEXT_VALUE, ANNOTATE, AT(output.errors), 1, 0, "FILE",
     "file for bad rows, with --skip-bad-rows"},
    {"errors", 0, TEXT_VALUE, EMBED, AT(output.errors), 1, 0, "FILE",
     "file for the errors of a table's rows"},
    {"until-end", 0, FLAG, MIRROR, AT(follow.until_end), 0, 0, NULL, "exit at the end of the topics"},
    {"force", 0, FLAG, COLLECT, AT(output.force), 0, 0, NULL, "even if some jobs have not finished"},
    {"force", 0, FLAG, DATASET, AT(output.force), 0, 0, NULL, "delete: even if jobs are running"},
    {"force-new", 0, FLAG, WORK_ALONE | RUN | ANNOTATE, AT(worker.force_new), 0, 0, NULL,
     "if the dataset has answers of another model or other options, compute all "
     "of its jobs again (embedded queue)"},
    {"overwrite", 0, FLAG,
     WORK | RUN | ANNOTATE | COLLECT | EMBED | CLASSIFY | RERANK | REPORT | LOGITS | QUANTIZE | BENCH,
     AT(output.overwrite), 0, 0, NULL,
     "replace an output also if this dataset or this input did not write it, or it was edited since"},
    {"no-reuse", 0, FLAG, WORK | RUN | ANNOTATE, AT(worker.no_reuse), 0, 0, NULL,
     "compute what was answered in another dataset of the store, or under a smaller max_tokens (such answers are the "
     "same bytes; those of equal requests of the dataset are taken all the same)"},
    {"unique-jobs", 0, FLAG, WORK_ALONE, AT(worker.unique_jobs), 0, 0, NULL,
     "with --brokers: of records with one job_id of a dataset answer the first alone; known are the last 65,536 jobs and "
     "the finished ones of this worker's store, so producers should key their records by job_id"},
    {"require-arithmetic", 0, TEXT_VALUE, WORK | RUN | ANNOTATE, AT(worker.require_arithmetic), 1, 0, "PARTS",
     "end unless answers have this system_fingerprint, whole, or these parts of one, e.g. "
     "\"backend=cuda-sm90 kv-type=f16\""},
    {"retry-failed", 0, FLAG, WORK_ALONE | RUN | ANNOTATE, AT(worker.retry_failed), 0, 0, NULL,
     "first queue the failed jobs again (embedded queue)"},
    {"model-failures", 0, INTEGER, WORK | RUN | ANNOTATE, AT(worker.model_failures), 0, 1024, "N",
     "end once N or more jobs have failed because of the model, e.g. by NaN logits, and none was answered, "
     "and leave them unfinished (16; 0: never)"},
    {"backend", 0, TEXT_VALUE, ENGINE, AT(engine.backend), 1, 0, "NAME",
     "auto, cpu or cuda; cpu:plain, cpu:avx2, cpu:avxvnni, cpu:avx512, cpu:amx, on ARM cpu:plain, cpu:neon, cpu:i8mm, limit the "
     "instruction set"},
    {"threads", 't', INTEGER, ENGINE, AT(engine.threads), 1, 256, "N",
     "threads of the engine (one per core)"},
    {"gpu-memory", 0, SIZE, ENGINE, AT(engine.gpu.memory_bytes), 0, 0, "SIZE",
     "GPU memory for weights, pages and scratch (the free memory)"},
    {"gpu", 0, INTEGER, ENGINE, AT(engine.gpu.device), 0, 1023, "N",
     "the GPU to use, by its index among the visible ones (0); one worker a GPU"},
    {"placement", 0, TEXT_VALUE, ENGINE, AT(engine.gpu.placement), 1, 0, "HOW",
     "computed by the GPU: auto, device (everything), layers[:N] (the last N), "
     "attention-cpu[:N] (without attention), experts[:N] (without the experts of all but the last N layers)"},
    {"check-cpu", 0, INTEGER, WORK | RUN | ANNOTATE | BENCH, AT(engine.check_cpu), 1, 1 << 30, "N",
     "compute every Nth step again on the CPU and log the difference of the logits"},
    {"cached-tokens", 0, FLAG, WORK | RUN | ANNOTATE, AT(worker.cached_tokens), 0, 0, NULL,
     "report usage.prompt_tokens_details.cached_tokens in results, the only "
     "figure that differs from run to run"},
    {"no-graphs", 0, FLAG, ENGINE, AT(engine.gpu.no_graphs), 0, 0, NULL,
     "on a GPU, run all steps eagerly, without CUDA graphs: for comparisons"},
    {"no-overlap", 0, FLAG, ENGINE, AT(engine.gpu.no_overlap), 0, 0, NULL,
     "on a GPU, begin each kernel when the one before has ended: for comparisons"},
    {"no-carveout", 0, FLAG, ENGINE, AT(engine.gpu.no_carveout), 0, 0, NULL,
     "on a GPU, let each kernel choose its division of shared memory and cache: for comparisons"},
    {"no-wgmma", 0, FLAG, ENGINE, AT(engine.gpu.no_wgmma), 0, 0, NULL,
     "on a GPU of compute capability 9.0, multiply as older ones do, to the same bytes: for comparisons"},
    {"tiles", 0, TEXT_VALUE, ENGINE, AT(engine.gpu.tiles), 1, 0, "HOW",
     "on a GPU of compute capability 9.0, how tiles of matrix products are chosen, with the same bytes: measured when the "
     "model is loaded, FILE, which keeps the measurements, or by-rows, for comparisons (measured)"},
    {"gpu-sync", 0, FLAG, ENGINE, AT(engine.gpu.sync), 0, 0, NULL,
     "wait for the GPU after every launch, so that an error names its kernel: to find a fault, slow"},
    {"no-ahead", 0, FLAG, WORK | RUN | ANNOTATE | VERIFY, AT(engine.no_ahead), 0, 0, NULL,
     "on a GPU, schedule a step after the one before has ended: for comparisons"},
    {"speculate", 0, TEXT_VALUE, WORK | RUN | ANNOTATE | VERIFY, AT(engine.speculate), 1, 0, "HOW",
     "on a CPU, draft tokens from the prompt and from finished answers, to the same answers: auto (as many as "
     "pay), off, or their number in each step of a sequence; a step has room for --max-rows less --max-batch (auto)"},
    {"trace-steps", 0, TEXT_VALUE, WORK | RUN | ANNOTATE | BENCH, AT(engine.trace_steps), 1, 0, "FILE",
     "write each step's tokens and times by phase, as JSON lines"},
    {"kv-memory", 0, SIZE, WORK | RUN | ANNOTATE | BENCH | EMBED | CLASSIFY | RERANK | VERIFY,
     AT(engine.kv_memory_bytes), 0, 0, "SIZE",
     "memory for KV pages, e.g. 512M or 4G (derived from the machine)"},
    {"kv-type", 0, TEXT_VALUE,
     WORK | RUN | ANNOTATE | BENCH | LOGITS | PERPLEXITY | EMBED | CLASSIFY | RERANK | VERIFY,
     AT(engine.kv_type), 1, 0, "TYPE",
     "KV cache type: f16, 16 bits per item, or q8_0, 8 bits (f16; on a CPU f32 for a model in f32)"},
    {"activation-bits", 0, INTEGER,
     WORK | RUN | ANNOTATE | BENCH | LOGITS | PERPLEXITY | EMBED | CLASSIFY | RERANK | VERIFY,
     AT(engine.activation_bits), 8, 16, "N",
     "on a CPU, bits of the activations that are multiplied with quantized weights: 8, or 16, which answers what "
     "the weights say, for up to twice the products (8)"},
    {"max-batch", 0, INTEGER, WORK | RUN | ANNOTATE | VERIFY, AT(engine.n_sequences_max), 1, 4096, "N",
     "sequences in one step (derived)"},
    {"max-rows", 0, INTEGER, WORK | RUN | ANNOTATE | BENCH | EMBED | CLASSIFY | RERANK | VERIFY,
     AT(engine.n_tokens_max), 1, 16384, "N",
     "tokens in one step, prefill and decode together; at least --max-batch (derived)"},
    {"window", 0, INTEGER, WORK | RUN | ANNOTATE | VERIFY, AT(engine.window), 1, 16384, "N",
     "jobs read ahead, of 256 MiB at most (derived; embedded queue: two batches, more for short jobs)"},
    {"max-tokens", 0, INTEGER, WORK | RUN | ANNOTATE, AT(sampling.max_tokens_default), 1, 1 << 20, "N",
     "default of jobs (up to the end of the context)"},
    {"sampling-defaults", 0, TEXT_VALUE, WORK | RUN | ANNOTATE, AT(sampling.defaults), 1, 0, "SOURCE",
     "source of sampling defaults: model (generation_config.json or general.sampling.*) or none (model)"},
    {"temperature", 0, TEXT_VALUE, WORK | RUN | ANNOTATE, AT(sampling.temperature), 0, 0, "X",
     "sampling temperature of jobs that give none"},
    {"top-p", 0, TEXT_VALUE, WORK | RUN | ANNOTATE, AT(sampling.top_p), 0, 0, "X",
     "nucleus sampling, of jobs that give none"},
    {"top-k", 0, TEXT_VALUE, WORK | RUN | ANNOTATE, AT(sampling.top_k), 0, 0, "N",
     "most probable tokens to draw from, of jobs that give none"},
    {"min-p", 0, TEXT_VALUE, WORK | RUN | ANNOTATE, AT(sampling.min_p), 0, 0, "X",
     "least probability, as a share of the largest, of jobs that give none"},
    {"presence-penalty", 0, TEXT_VALUE, WORK | RUN | ANNOTATE, AT(sampling.presence_penalty), 0, 0, "X",
     "of jobs that give none"},
    {"frequency-penalty", 0, TEXT_VALUE, WORK | RUN | ANNOTATE, AT(sampling.frequency_penalty), 0, 0, "X",
     "of jobs that give none"},
    {"repetition-penalty", 0, TEXT_VALUE, WORK | RUN | ANNOTATE, AT(sampling.repetition_penalty), 0, 0, "X",
     "of jobs that give none"},
    {"thinking-token-budget", 0, TEXT_VALUE, WORK | RUN | ANNOTATE, AT(sampling.thinking_token_budget), 0, 0,
     "N",
     "tokens of thoughts after which they are closed and the answer begins (0: no thoughts), of jobs that give "
     "none"},
    {"reasoning-effort", 0, TEXT_VALUE, WORK | RUN | ANNOTATE, AT(sampling.reasoning_effort), 1, 0, "HOW",
     "none, minimal, low, medium, high, xhigh or max, for the chat template; none switches thoughts off where the "
     "template can; of jobs that give none"},
    {"chat-template", 0, TEXT_VALUE, WORK | RUN | ANNOTATE | INSPECT | VERIFY, AT(model.chat_template), 1,
     ONCE, "FILE", "chat template instead of the model's"},
    {"tool-format", 0, TEXT_VALUE, WORK | RUN | ANNOTATE | INSPECT | VERIFY, AT(model.tool_format), 1, 0,
     "NAME", "how the model writes calls of tools, instead of the format that its chat template implies"},
    {"special-in-content", 0, FLAG, WORK | RUN | ANNOTATE | VERIFY, AT(model.special_in_content), 0, 0, NULL,
     "encode control tokens in the text of messages, as transformers and vLLM do"},
    {"pre", 0, TEXT_VALUE, WORK | RUN | ANNOTATE | TOKENIZE | EMBED | CLASSIFY | RERANK | INSPECT | VERIFY,
     AT(model.pre), 0, 0, "NAME", "the tokenizer's split pattern instead of the model's"},
    {"lora", 0, TEXT_LIST, ENGINE, AT(model.adapters), 0, 0, "PATH[=SCALE]",
     "a LoRA adapter of the model, on a CPU: PEFT's folder or a GGUF file, its scale multiplied by SCALE (1); may be "
     "repeated: their sum"},
    {"lora-modules", 0, TEXT_LIST, WORK | RUN, AT(model.modules), 0, 0, "NAME=PATH[=SCALE]",
     "a LoRA adapter for the jobs whose model is NAME (\"model\"), beside those of --lora; may be repeated"},
    {"model-name", 0, TEXT_LIST, WORK | RUN | ANNOTATE, AT(model.names), 0, 0, "NAME",
     "the model's name in results; may be repeated: all are names in requests that are the model's"},
    {"require-model", 0, FLAG, WORK | RUN, AT(model.is_required), 0, 0, NULL,
     "refuse a job that names another model (\"model\"); default: a warning in its result"},
    {"engine-test", 0, TEXT_VALUE, WORK | RUN | ANNOTATE | VERIFY, AT(engine.test), 0, 0, "SPEC",
     "mock engine for tests, with random words; time per step: instant, fixed:MS or random:MS"},
    {"exit-when-idle", 0, INTEGER, WORK_ALONE, AT(worker.exit_when_idle_s), 0, 1 << 30, "SECONDS",
     "exit after this time without a job; on Kafka: in the worker's own "
     "partitions, when each partition has an owner"},
    {"listen", 0, TEXT_VALUE, SERVE, AT(serve.address), 1, 0, "HOST:PORT",
     "where to answer; a port alone: on the loopback (127.0.0.1:8000)"},
    {"token", 0, TEXT_VALUE, SERVE, AT(serve.token), 1, 0, "FILE",
     "tokens of clients, one a line, each an owner of files and batches; needed where other machines reach the server"},
    {"no-work", 0, FLAG, SERVE, AT(serve.no_work), 0, 0, NULL,
     "compute nothing: workers of the same store do (sheaf work --store FILE)"},
    {"file-size", 0, SIZE, SERVE, AT(serve.file_bytes_max), 0, 0, "SIZE",
     "largest file that is accepted (512M)"},
    {"metrics", 0, TEXT_VALUE, WORK | RUN | ANNOTATE | LAG, AT(worker.metrics), 1, 0, "HOST:PORT",
     "serve Prometheus metrics and a status page; a port alone: on the loopback"},
    {"metrics-token", 0, TEXT_VALUE, WORK | RUN | ANNOTATE | LAG, AT(worker.metrics_token), 1, 0, "FILE",
     "secret of the page and the metrics, as Bearer token or password; needed "
     "where other machines reach them"},
    {"metrics-content", 0, FLAG, WORK | RUN | ANNOTATE, AT(worker.metrics_content), 0, 0, NULL,
     "show the last prompts, answers and messages of errors on the page of --metrics"},
    {"dataset-weight", 0, TEXT_LIST, WORK, AT(worker.dataset_weights), 0, 0, "NAME=WEIGHT",
     "part of this dataset where several wait with equal priority and deadline, e.g. 2 or 0.5 (1); repeatable"},
    {"dataset-limit", 0, TEXT_LIST, WORK, AT(worker.dataset_limits), 0, 0, "[NAME=]N",
     "at most N jobs of this dataset, or of each dataset, are in flight in a worker (0: no limit, the default); "
     "repeatable"},
    {"crash-limit", 0, INTEGER, WORK | RUN | ANNOTATE, AT(worker.crash_limit), 0, 60, "N",
     "fail a job that was running in this many crashes, instead of computing it again (5; 0: never)"},
    {"dead-share", 0, INTEGER, WORK, AT(worker.dead_share), 1, 100, "PERCENT",
     "where more of a producer's last records on Kafka are not jobs (counted by dataset, else key, else "
     "partition), leave the rest of those unanswered instead of making them dead letters; the worker is not "
     "ready then and answers all others (50; 100: never)"},
    {"retain", 0, DURATION, WORK | RUN | ANNOTATE | MIRROR, AT(worker.retain_s), 0, 0, "TIME",
     "compact rows of the store older than this to sums, e.g. 12h or 30d (30d; 0: never); answers of the embedded "
     "queue, after they were collected, only where this is given"},
    {"progress", 0, DURATION, WORK | RUN | ANNOTATE | VERIFY, AT(worker.progress_s), 0, 0, "TIME",
     "interval of progress lines if standard error is not a terminal (60; 0: never)"},
    {"rebuild", 0, FLAG, STATUS, AT(follow.rebuild), 0, 0, NULL,
     "first rebuild the store's rows of Kafka jobs from the topics"},
    {"watch", 'w', FLAG, STATUS, AT(follow.watch), 0, 0, NULL, "refresh every second"},
    {"json", 0, FLAG, STATUS | INSPECT | BENCH | DATASET | GRAMMAR | LAG | PERPLEXITY, AT(output.json), 0, 0,
     NULL, "write JSON"},
    {"json-schema", 0, TEXT_VALUE, GRAMMAR, AT(grammar.json_schema), 1, ONCE, "FILE",
     "a JSON Schema, drafts 4 to 2020-12"},
    {"regex", 0, TEXT_VALUE, GRAMMAR, AT(grammar.regex), 0, ONCE, "R",
     "a regular expression that the whole text matches"},
    {"choice", 0, TEXT_LIST, GRAMMAR, AT(grammar.choices), 0, 0, "A,B",
     "texts, separated by commas; one with a comma or blanks at its ends in double quotes, as in CSV; may be "
     "repeated"},
    {"choice", 0, TEXT_LIST, ANNOTATE, AT(grammar.choices), 0, 0, "A,B",
     "the answers' labels, separated by commas; blanks around them are no part of them; one with a comma in "
     "double quotes, as in CSV: '\"x,y\",z' are two; may be repeated"},
    {"grammar", 0, TEXT_VALUE, GRAMMAR, AT(grammar.grammar), 1, ONCE, "FILE",
     "a grammar in GBNF or in Lark's notation"},
    {"cases", 0, TEXT_VALUE, GRAMMAR, AT(grammar.cases), 1, ONCE, "FILE",
     "lines {\"name\", \"schema\", \"tests\": [{\"data\"}]}: verdicts and times of each, as JSON lines"},
    {"spaces", 0, FLAG, GRAMMAR, AT(grammar.spaces), 0, 0, NULL,
     "JSON with a blank behind each comma and colon (compact)"},
    {"add-special-tokens", 0, FLAG, TOKENIZE, AT(tool.add_special), 0, 0, NULL,
     "also the tokens that the model puts around a text, or around a text and its \"pair\"; writes ids and token "
     "types"},
    {"special", 0, FLAG, TOKENIZE, AT(tool.special), 0, 0, NULL,
     "encode control tokens in the text as control tokens"},
    {"type", 0, TEXT_VALUE, QUANTIZE, AT(tool.type), 1, 0, "TYPE",
     "tensor type of the matrices (as in the model)"},
    {"quantize", 0, TEXT_VALUE, ENGINE, AT(model.quantize), 1, 0, "TYPE",
     "quantize the weights while loading: q8_0, q4_k, ..."},
    {"bos", 0, TEXT_VALUE, TEMPLATE, AT(template.bos), 0, 0, "TEXT", "bos_token (the model's)"},
    {"eos", 0, TEXT_VALUE, TEMPLATE, AT(template.eos), 0, 0, "TEXT", "eos_token (the model's)"},
    {"now", 0, TEXT_VALUE, TEMPLATE, AT(template.now), 0, 0, "YYYY-MM-DD", "date for strftime_now (today)"},
    {"tokens", 0, TEXT_VALUE, LOGITS, AT(tool.tokens), 0, ONCE, "IDS",
     "token ids, separated by spaces or commas"},
    {"against", 0, TEXT_VALUE, PERPLEXITY, AT(tool.against), 1, ONCE, "MODEL2",
     "the reference, of the same vocabulary: the model before its quantization, say"},
    {"context", 0, INTEGER, PERPLEXITY, AT(tool.context), 2, 1 << 24, "N",
     "tokens of a window (512, or the model's context)"},
    {"task", 0, TEXT_VALUE, WORK | RUN, AT(worker.task), 1, 0, "TASK",
     "the jobs that the worker computes: generate, embed (/v1/embeddings), classify (/v1/classify), rerank "
     "(/v1/rerank, /v1/score), or auto: by the model's head, else embed with a model that has a pooling or no output "
     "matrix (auto)"},
    {"pooling", 0, TEXT_VALUE, EMBED | WORK | RUN, AT(embed.pooling), 1, 0, "HOW",
     "model, or of the final hidden states: last (the last token's), mean, cls (the first token's), max, "
     "mean_sqrt_len or weightedmean (model: its own, else an encoder's mean, a decoder's last)"},
    {"dimensions", 0, INTEGER, EMBED, AT(embed.dimensions), 1, 1 << 20, "N",
     "the vector's first N items (the model's width)"},
    {"prefix", 0, TEXT_VALUE, EMBED, AT(embed.prefix), 0, 0, "TEXT",
     "text before each one, empty for none (the model's default prompt, else none)"},
    {"prompt-name", 0, TEXT_VALUE, EMBED, AT(embed.prompt_name), 1, 0, "NAME",
     "the model's prompt of that name before each text (sheaf inspect lists them)"},
    {"max-length", 0, INTEGER, EMBED | WORK | RUN | ANNOTATE | VERIFY, AT(embed.max_length), 2, INT32_MAX,
     "N",
     "tokens of the longest text or pair of an embedding or a score (the model's max_seq_length, else its context)"},
    {"max-length", 0, INTEGER, CLASSIFY | RERANK, AT(score.max_length), 2, INT32_MAX, "N",
     "cut texts and pairs after N tokens (one that is longer than the model's context is refused)"},
    {"activation", 0, TEXT_VALUE, CLASSIFY | RERANK | WORK | RUN | ANNOTATE | VERIFY, AT(score.activation), 1,
     0, "HOW",
     "of the head's outputs: model, none (logits), sigmoid or softmax (model: as its files say, else sigmoid for one "
     "label, softmax for several)"},
    {"answers", 0, TEXT_VALUE, CLASSIFY | RERANK | WORK | RUN | ANNOTATE | VERIFY, AT(score.answers), 1, 0,
     "YES,NO", "a language model's two answers, the relevant one first (yes,no of a Qwen3-Reranker)"},
    {"instruct", 0, TEXT_VALUE, RERANK | WORK | RUN | ANNOTATE | VERIFY, AT(score.instruct), 1, 0, "TEXT",
     "the instruction in a Qwen3-Reranker's template (web search)"},
    {"top-n", 0, INTEGER, RERANK, AT(score.top_n), 1, 1 << 20, "N", "the N most relevant documents (all)"},
    {"column", 0, TEXT_VALUE, EMBED | ANNOTATE, AT(embed.column), 1, ONCE, "NAME",
     "the table's column of texts (or --prompt)"},
    {"vector-type", 0, TEXT_VALUE, EMBED, AT(embed.vector_type), 1, 0, "TYPE",
     "of a table's vectors: f32, f16, int8 (127 times the item) or binary (a bit an item: above 0) (f32)"},
    {"truncate-prompt", 0, INTEGER, ANNOTATE, AT(annotate.prompt.truncate), 1, 1 << 24, "N",
     "cut the rendered row (--prompt) to N tokens, before the chat template; a warning counts the rows"},
    {"truncate", 0, TEXT_VALUE, ANNOTATE, AT(embed.truncate), 1, 0, "SIDE",
     "the end that --truncate-prompt cuts: left or right (right)"},
    {"partial", 0, FLAG, ANNOTATE, AT(annotate.output.partial), 0, 0, NULL,
     "a run that is stopped (Ctrl-C) writes the table as it is; a row without an answer says so"},
    {"partial", 0, FLAG, COLLECT, AT(annotate.output.partial), 0, 0, NULL,
     "write what there is, with a line and a reason for each job without a result (embedded queue)"},
    {"truncate", 0, TEXT_VALUE, EMBED, AT(embed.truncate), 1, 0, "SIDE",
     "cut a text that is longer, at its left or right end; special tokens stay (it is refused)"},
    {"normalize", 0, FLAG, EMBED | WORK | RUN, AT(embed.normalize), 0, 0, NULL,
     "vectors of Euclidean length 1 (as modules.json says, else of length 1)"},
    {"no-normalize", 0, FLAG, EMBED | WORK | RUN, AT(embed.no_normalize), 0, 0, NULL, "vectors as they are"},
    {"plain-text", 0, FLAG, EMBED | CLASSIFY, AT(tool.plain_text), 0, 0, NULL,
     "each line is a text; default: the lines are JSON if the first is an object or all are strings"},
    {"prompt", 'p', INTEGER, BENCH, AT(bench.prompt), 1, 1 << 20, "N",
     "prompt tokens of each sequence (128)"},
    {"generate", 'n', INTEGER, BENCH, AT(bench.generate), 1, 1 << 20, "N", "tokens generated by each (32)"},
    {"embed", 0, FLAG, BENCH, AT(bench.embed), 0, 0, NULL,
     "embeddings instead: texts and tokens per second by the length of the texts"},
    {"products", 0, FLAG, BENCH, AT(bench.products), 0, 0, NULL,
     "matrix products instead, without a model: their share of this machine's peaks, by weight type and rows"},
    {"batch", 0, TEXT_VALUE, BENCH, AT(bench.batch), 0, 0, "LIST", "batch sizes (1,8,32)"},
    {"settings", 0, TEXT_VALUE, BENCH, AT(bench.settings), 1, 0, "LIST",
     "prompts, answers and batches of several kinds in place of the three: PROMPT+GENERATE@BATCH/BATCH,..."},
    {"alone", 0, FLAG, BENCH, AT(bench.alone), 0, 0, NULL,
     "afterwards compute three sequences of each batch alone: fails unless tokens and logprobs are the same"},
    {"repeat", 'r', INTEGER, BENCH, AT(bench.repeat), 1, 1000, "N",
     "runs per size; the median is reported (3)"},
    {"prompt", 'p', TEXT_VALUE, ANNOTATE | EMBED, AT(annotate.prompt.file), 1, ONCE, "FILE.jinja",
     "template of the prompt, or of a row's text: the columns are its variables, row has all of them"},
    {"system", 0, TEXT_VALUE, ANNOTATE, AT(annotate.prompt.system), 1, ONCE, "FILE.jinja",
     "template of a system message before it"},
    {"messages", 0, TEXT_VALUE, ANNOTATE, AT(annotate.prompt.messages), 1, ONCE, "FILE.jsonl.jinja",
     "instead of --prompt: template of whole conversations, a JSON message per line; text of the table is"
     " escaped inside JSON strings and refused outside them: \"content\": \"{{ text }}\" or"
     " {{ text | tojson }}"},
    {"parameters", 0, TEXT_VALUE, ANNOTATE, AT(annotate.prompt.parameters), 1, ONCE, "FILE.json",
     "an object of parameters in OpenAI's names, for all rows; without a temperature: 0"},
    {"rerank", 0, TEXT_VALUE, ANNOTATE, AT(annotate.scores.rerank), 1, ONCE, "QUERY,DOCUMENT",
     "instead of a prompt: a column score, how relevant the text of the column DOCUMENT is to the text of QUERY, by a "
     "reranker or with --answers"},
    {"classify", 0, FLAG, ANNOTATE, AT(annotate.scores.classify), 0, 0, NULL,
     "instead of an answer: the label of a classifier for the text of --column or --prompt, and a column with the "
     "probability of each label"},
    {"schema", 0, TEXT_VALUE, ANNOTATE, AT(annotate.schema), 1, ONCE, "FILE.json",
     "JSON Schema of the answers, or a response_format of OpenAI's with it: each property is a column; where "
     "there may be others, or none are named, the column answer has the whole"},
    {"questions", 0, TEXT_VALUE, ANNOTATE, AT(annotate.questions), 1, ONCE, "FILE.yaml",
     "several questions about each row, each after its prompt and an empty line: a list in YAML or JSON of"
     " {name, prompt, choice or schema or regex, max_tokens, ...}; an answer is the column NAME, an object's"
     " properties NAME_PROPERTY"},
    {"prefix", 0, TEXT_VALUE, ANNOTATE, AT(annotate.output.prefix), 0, 0, "TEXT",
     "before the names of all columns that are added: the answers' (answer; with --choice label; the"
     " schema's properties), sheaf_finish_reason, sheaf_error, and those of other options"},
    {"figures", 0, FLAG, ANNOTATE, AT(annotate.output.figures), 0, 0, NULL,
     "columns with the numbers of tokens"},
    {"thoughts", 0, TEXT_VALUE, ANNOTATE, AT(annotate.output.thoughts), 1, 0, "COLUMN",
     "a column of this name, after the prefix, with the model's thoughts"},
    {"encoding", 0, TEXT_VALUE, ANNOTATE | EMBED, AT(annotate.input.encoding), 1, ONCE, "NAME",
     "encoding of the input: utf-8, utf-16, cp1252 (Windows) or latin1; default: UTF-8, or UTF-16 by its byte order mark; the output is UTF-8"},
    {"skip-lines", 0, INTEGER, ANNOTATE | EMBED, AT(annotate.input.skip_lines), 0, 1 << 30, "N",
     "lines above the header that are left out"},
    {"delimiter", 0, TEXT_VALUE, ANNOTATE | EMBED | VERIFY, AT(annotate.input.delimiter), 0, 0, "C",
     "between the fields of a CSV file (a comma; of TSV a tab)"},
    {"no-header", 0, FLAG, ANNOTATE | EMBED | VERIFY, AT(annotate.input.no_header), 0, 0, NULL,
     "the first line is a row: columns are column1, column2, ..."},
    {"no-quotes", 0, FLAG, ANNOTATE | EMBED | VERIFY, AT(annotate.input.no_quotes), 0, 0, NULL,
     "TSV without quoting: a quote is an ordinary character;"
     " in answers tabs and line feeds are written \\t and \\n"},
    {"skip-bad-rows", 0, FLAG, ANNOTATE, AT(annotate.input.skip_bad_rows), 0, 0, NULL,
     "leave out rows that can't be read or rendered, and go on; default: an error"},
    {"skip-empty", 0, FLAG, ANNOTATE, AT(annotate.input.skip_empty), 0, 0, NULL,
     "leave out rows with an empty cell, or NULL, in a column that the prompt names; default: they are asked, with a "
     "warning"},
    {"input-format", 0, TEXT_VALUE, ANNOTATE | EMBED | VERIFY, AT(annotate.input.format), 1, 0, "NAME",
     "csv, tsv, jsonl, parquet or sqlite (by the file's name; of standard input csv)"},
    {"output-format", 0, TEXT_VALUE, ANNOTATE | EMBED, AT(annotate.output.format), 1, 0, "NAME",
     "csv, tsv, jsonl, parquet or sqlite (by the file's name, else the input's)"},
    {"table", 0, TEXT_VALUE, ANNOTATE | EMBED | VERIFY, AT(annotate.input.table), 1, ONCE, "NAME",
     "table of a SQLite database to read"},
    {"sql", 0, TEXT_VALUE, ANNOTATE | EMBED, AT(annotate.input.sql), 1, ONCE, "QUERY",
     "query of a SQLite database to read"},
    {"into", 0, TEXT_VALUE, ANNOTATE | EMBED, AT(annotate.output.into), 1, 0, "NAME",
     "table of a SQLite database to write, in place of one of that name"},
    {"split", 0, FLAG, ANNOTATE, AT(annotate.output.is_split), 0, 0, NULL,
     "an output for each input file, by its name, in the folder that -o names"},
    {"same-draws", 0, FLAG, WORK | RUN, AT(worker.same_draws), 0, 0, NULL,
     "jobs without a seed draw by their prompt alone: equal requests get one answer, computed once"},
    {"same-draws", 0, FLAG, ANNOTATE, AT(annotate.prompt.same_draws), 0, 0, NULL,
     "equal rows get one answer also where answers are drawn at random"},
    {"reorder", 0, FLAG, ANNOTATE, AT(annotate.reorder), 0, 0, NULL,
     "compute rows in an order in which prompts share beginnings; where a template lists row's fields, order "
     "those too"},
    {"probabilities", 0, FLAG, ANNOTATE, AT(annotate.output.probabilities), 0, 0, NULL,
     "add a column with the probability of each label of --choice, or of each value of a schema's enums and booleans, and "
     "their margin, first less second; with one vote the most probable label is the answer, and nothing is generated; if "
     "a label is a prefix of another, scores include the end of the answer"},
    {"votes", 0, INTEGER, ANNOTATE, AT(annotate.votes), 1, 64, "N",
     "ask N times with N seeds, at the model's own temperature without --temperature; the answer is the majority's, "
     "the column agreement has its share; with --schema each property of few values is voted on, and has a column "
     "agreement_NAME (1)"},
    {"evaluate", 0, TEXT_LIST, ANNOTATE, AT(annotate.evaluation.columns), 0, 0, "COLUMN[=PROPERTY]",
     "compare with the gold labels of a column, of some rows or all: accuracy, precision, recall, F1, kappa, confusion "
     "matrix, errors of numbers, and shares or means of all rows, with 95 % intervals; of a schema the property "
     "named, else the one of the column's name, else the first; may be repeated"},
    {"gold", 0, TEXT_LIST, ANNOTATE, AT(annotate.evaluation.gold), 0, 0, "FILE",
     "gold labels of some rows for --evaluate, by row number, in place of the table's: a corrected file of "
     "--differences, or a table with a column row and columns of --evaluate's names; of several files the last counts"},
    {"gold-column", 0, TEXT_VALUE, ANNOTATE, AT(annotate.cascade.gold), 1, ONCE, "COLUMN",
     "with --cascade: the column with gold labels of a random sample of the rows, for --guarantee"},
    {"by", 0, TEXT_VALUE, ANNOTATE, AT(annotate.evaluation.group), 1, ONCE, "COLUMN[=VALUE]",
     "with --evaluate: shares or means of the groups of rows with equal values in a column, and their differences "
     "from the group VALUE (the largest)"},
    {"differences", 0, TEXT_VALUE, ANNOTATE, AT(annotate.evaluation.differences), 1, ONCE, "FILE",
     "with --evaluate: write the rows whose answer is not the gold label, as CSV, TSV, JSON lines or Parquet by the "
     "name; corrected in the column sheaf_gold it is a file for --gold"},
    {"statistics", 0, TEXT_VALUE, ANNOTATE | REPORT, AT(annotate.evaluation.statistics), 1, ONCE, "FILE",
     "all figures of --evaluate and --cascade with their intervals, a line each: written as CSV or JSON lines by annotate, shown on "
     "the page by report"},
    {"cascade", 0, TEXT_VALUE, ANNOTATE, AT(annotate.cascade.models), 1, ONCE, "SMALL,LARGE",
     "with --choice: two models, instead of MODEL; the small one labels all rows, and the large one those where its "
     "label would break --guarantee; column label_model has the model. SMALL alone, with --gold-column: those stay open"},
    {"guarantee", 0, TEXT_VALUE, ANNOTATE, AT(annotate.cascade.guarantee), 1, ONCE, "accuracy=X",
     "of --cascade: at least the share X of the table's labels equal the large model's, or the gold ones"},
    {"confidence", 0, TEXT_VALUE, ANNOTATE, AT(annotate.cascade.confidence), 1, ONCE, "X",
     "the probability with which --guarantee holds (0.95)"},
    {"estimate", 0, FLAG, ANNOTATE | EMBED, AT(annotate.estimate.wanted), 0, 0, NULL,
     "print the number of tokens of all prompts, without computing a step, and end"},
    {"price-in", 0, TEXT_VALUE, ANNOTATE | EMBED, AT(annotate.estimate.price_in), 0, 0, "X",
     "of a million prompt tokens, for the estimate"},
    {"price-out", 0, TEXT_VALUE, ANNOTATE, AT(annotate.estimate.price_out), 0, 0, "X",
     "of a million tokens of answers, for the estimate"},
    {"seed", 0, INTEGER, ANNOTATE | EMBED, AT(annotate.estimate.seed), 0, INT64_MAX, "N",
     "seed of the rows of --sample, and of those that --cascade draws (0)"},
    {"certificate", 0, TEXT_VALUE, ANNOTATE, AT(annotate.output.certificate), 1, ONCE, "FILE",
     "also write a certificate of the table, by which `sheaf verify` checks it and computes rows of it again"},
    {"certificate", 0, TEXT_VALUE, VERIFY, AT(annotate.output.certificate), 1, ONCE, "FILE",
     "the table's certificate"},
    {"sample", 0, INTEGER, VERIFY, AT(verify.n_rows), 1, INT64_MAX, "N",
     "compute N random rows again; of a table with fewer all (300)"},
    {"seed", 0, INTEGER, VERIFY, AT(verify.seed), 0, INT64_MAX, "N",
     "seed of the choice of rows, to repeat one (random)"},
    {"sample", 0, INTEGER, ANNOTATE | EMBED, AT(annotate.estimate.n_rows), 1, 1 << 20, "N",
     "answer N rows drawn evenly over the table (embed: their vectors), print them and an estimate for all, and end"},
    {"config", 0, TEXT_VALUE, ALL, AT(line.config), 1, ONCE, "FILE", "options as \"name = value\" lines"},
    {"log", 0, TEXT_VALUE, WORK | RUN | ANNOTATE | VERIFY, AT(log.file), 1, 0, "FILE",
     "append messages to a file; standard error gets only the reason of a failure; SIGHUP reopens the file"},
    {"quiet", 'q', FLAG, ALL, AT(log.quiet), 0, 0, NULL, "errors only"},
    {"verbose", 'v', FLAG, ALL, AT(log.verbose), 0, 0, NULL, "more messages"},
    {"log-json", 0, FLAG, ALL, AT(log.json), 0, 0, NULL, "messages as JSON lines"},
    {"parent-fd", 0, INTEGER, ALL, AT(line.parent_fd), 3, 1 << 20, "FD",
     "the read end of a pipe: end when its write end is closed by the end of the process that started this one, "
     "and take standard input as complete only after a byte from it (the Python module sets it)"},
    {"help", 'h', FLAG, ALL, AT(line.help), 0, 0, NULL, "print the usual options"},
    {"help-all", 0, FLAG, ALL, AT(line.help_all), 0, 0, NULL, "print the rare ones too"},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0], N_OPTIONS = sizeof options / sizeof options[0] };
_Static_assert((int)N_OPTIONS <= (int)OPTIONS_MAX, "a bit for each in a parser's array");

const struct command *option_table_commands(int *n)
{
    *n = N_COMMANDS;
    return commands;
}

const struct option *option_table_options(int *n)
{
    if (n)
        *n = N_OPTIONS;
    return options;
}

const struct command *option_table_find_command(const char *name)
{
    for (int i = 0; name && i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

const struct option *option_table_find(const struct command *command, const char *name, size_t length)
{
    const struct option *found = NULL;
    for (int i = 0; i < N_OPTIONS; i++) {
        if (strlen(options[i].name) != length || memcmp(options[i].name, name, length) != 0)
            continue;
        if (options[i].commands & command->mask)
            return &options[i];
        found = &options[i];
    }
    return found;
}

static void drop_list(char ***list)
{
    for (char **text = *list; text && *text; text++)
        free(*text);
    free(*list);
    *list = NULL;
}

void option_drop(struct settings *settings, const struct option *option)
{
    void *target = (char *)settings + option->offset;
    switch (option->kind) {
    case FLAG:
        *(bool *)target = false;
        break;
    case TEXT_VALUE:
        free(*(char **)target);
        *(char **)target = NULL;
        break;
    case TEXT_LIST:
        drop_list(target);
        break;
    case INTEGER:
    case SIZE:
    case DURATION:
        *(int64_t *)target = 0;
        break;
    case PROPERTY: // no rule drops it
        break;
    }
}
