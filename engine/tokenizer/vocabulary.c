// Tokens known by their text. Files often omit which tokens end a turn, or give such tokens the type of
// ordinary text. The lists are taken from github.com/ggml-org/llama.cpp, src/llama-vocab.cpp; but for a kind of
// end for which the model names a token, no token is searched by text.
#include "engine/tokenizer/vocabulary.h"

#include "engine/file/gguf.h"

#include <string.h>

void vocabulary_finish(struct vocabulary *vocabulary)
{
    splitter_close(vocabulary->splitter);
    splitter_close(vocabulary->splitter_after);
    normalizer_finish(&vocabulary->normalizer);
    arena_finish(&vocabulary->arena);
    *vocabulary = (struct vocabulary){0};
}

bool vocabulary_is_byte_token(struct text text)
{
    return text.size == 6 && memcmp(text.data, "<0x", 3) == 0 && text.data[5] == '>';
}

struct known_token {
    const char *text;
    unsigned end; // enum vocabulary_end; 0: a fill-in-the-middle mark, which becomes a control token
};

static const struct known_token known[] = {
    {"<|eot_id|>", END_OF_TURN},          // Llama 3
    {"<|eom_id|>", END_OF_MESSAGE},       //
    {"<|im_end|>", END_OF_TURN},          // ChatML
    {"<|end|>", END_OF_TURN},             // Phi-3
    {"<|return|>", END_OF_TURN},          // gpt-oss
    {"<|call|>", END_OF_MESSAGE},         //
    {"<|flush|>", END_OF_TURN},           // Solar Open
    {"<|calls|>", END_OF_MESSAGE},        //
    {"<end_of_turn>", END_OF_TURN},       // Gemma
    {"<|endoftext|>", END_OF_TEXT},       // GPT-2
    {"<|end_of_text|>", END_OF_TEXT},     // Llama 3, Granite
    {"</s>", END_OF_TEXT},                // SentencePiece
    {"<EOT>", END_OF_TURN},               // CodeLlama
    {"_<EOT>", END_OF_TURN},              //
    {"[EOT]", END_OF_TURN},               // Kimi K2
    {"[EOS]", END_OF_TEXT},               //
    {"<end_of_utterance>", END_OF_TURN},  // SmolVLM
    {"<eos>", END_OF_TEXT},               // Gemma 4
    {"<turn|>", END_OF_TURN},             //
    {"<|tool_response>", END_OF_MESSAGE}, //
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     END_OF_TEXT},                   // DeepSeek
    {"[e~[", END_OF_TURN},           // MiniMax
    {"<|fim_pad|>", END_OF_PADDING}, // fill in the middle: padding, repository and file marks end a text
    {"<fim-pad>", END_OF_PADDING},
    {"<fim_pad>", END_OF_PADDING},
    {"<PAD>", END_OF_PADDING},
    {"[PAD]", END_OF_PADDING},
    {"<|fim_repo|>", END_OF_PADDING},
    {"<|repo_name|>", END_OF_PADDING},
    {"<fim-repo>", END_OF_PADDING},
    {"<REPO>", END_OF_PADDING},
    {"<reponame>", END_OF_PADDING},
    {"<|file_sep|>", END_OF_PADDING},
    {"<|fim_prefix|>", 0},
    {"<fim-prefix>", 0},
    {"<fim_prefix>", 0},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "begin\xEF\xBD\x9C>",
     0},
    {"<PRE>", 0},
    {"\xE2\x96\x81<PRE>", 0},
    {"<|code_prefix|>", 0},
    {"<|prefix|>", 0},
    {"<|fim_suffix|>", 0},
    {"<fim-suffix>", 0},
    {"<fim_suffix>", 0},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81hole\xEF\xBD\x9C>",
     0},
    {"<SUF>", 0},
    {"\xE2\x96\x81<SUF>", 0},
    {"<|code_suffix|>", 0},
    {"<|suffix|>", 0},
    {"<|fim_middle|>", 0},
    {"<fim-middle>", 0},
    {"<fim_middle>", 0},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "end\xEF\xBD\x9C>",
     0},
    {"<MID>", 0},
    {"\xE2\x96\x81<MID>", 0},
    {"<|code_middle|>", 0},
    {"<|middle|>", 0},
};

enum { KNOWN_COUNT = sizeof known / sizeof *known };

static int32_t id_of(const struct vocabulary *vocabulary, const char *text)
{
    for (size_t i = 0; i < vocabulary->n_tokens; i++)
        if (text_equals_string(vocabulary->texts[i], text))
            return (int32_t)i;
    return -1;
}

static void set_flags(struct vocabulary *vocabulary, const char *text, uint16_t flags)
{
    int32_t id = id_of(vocabulary, text);
    if (id >= 0)
        vocabulary->flags[id] = flags;
}

// Corrects models in which some listed tokens end only a part of an answer, or are ordinary text.
static void correct_ends(struct vocabulary *vocabulary)
{
    bool has_call = id_of(vocabulary, "<|call|>") >= 0 || id_of(vocabulary, "<|calls|>") >= 0;
    bool harmony =
        id_of(vocabulary, "<|return|>") >= 0 && has_call; // gpt-oss: <|end|> ends a channel, not the turn
    bool solar = id_of(vocabulary, "<|flush|>") >= 0 && has_call;
    if (harmony || solar)
        set_flags(vocabulary, "<|end|>", TOKEN_USER_DEFINED);
    if (id_of(vocabulary, "<|tool_response>") >= 0) // Gemma 4: </s> is a tag
        set_flags(vocabulary, "</s>", TOKEN_NORMAL);
}

unsigned vocabulary_end_named(struct text text)
{
    for (size_t i = 0; i < KNOWN_COUNT; i++)
        if (text_equals_string(text, known[i].text))
            return known[i].end;
    return 0;
}

static void flag_known(uint16_t *flags, const struct known_token *token, unsigned ends)
{
    if (token->end == 0)
        *flags |= TOKEN_CONTROL;
    // user-defined: </s> is an HTML tag in Gemma's vocabulary
    else if (token->end & ends && !(*flags & TOKEN_USER_DEFINED))
        *flags |= TOKEN_CONTROL | TOKEN_ENDS_GENERATION;
}

void vocabulary_flag_known(struct vocabulary *vocabulary, unsigned ends)
{
    for (size_t i = 0; i < vocabulary->n_tokens; i++) {
        struct text text = vocabulary->texts[i];
        // All known texts start with one of these.
        if (text.size == 0 || !(text.data[0] == '<' || text.data[0] == '[' || text.data[0] == '_' ||
                                (unsigned char)text.data[0] == 0xE2))
            continue;
        for (size_t j = 0; j < KNOWN_COUNT; j++)
            if (text_equals_string(text, known[j].text))
                flag_known(&vocabulary->flags[i], &known[j], ends);
    }
    // The marks of gpt-oss's message parts must appear in its output.
    set_flags(vocabulary, "<|channel|>", TOKEN_USER_DEFINED);
    set_flags(vocabulary, "<|message|>", TOKEN_USER_DEFINED);
    set_flags(vocabulary, "<|start|>", TOKEN_USER_DEFINED);
    set_flags(vocabulary, "<|constrain|>", TOKEN_USER_DEFINED);
    correct_ends(vocabulary);
}

void vocabulary_flag_ends(struct vocabulary *vocabulary, const int32_t *ids, size_t n_ids, bool only_control)
{
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] >= 0 && (size_t)ids[i] < vocabulary->n_tokens &&
            (!only_control || vocabulary->flags[ids[i]] & TOKEN_CONTROL))
            vocabulary->flags[ids[i]] |= TOKEN_ENDS_GENERATION;
}

enum status vocabulary_read_ends(struct arena *arena, const struct gguf *gguf, const char *key,
                                 const int32_t **ids, size_t *n_ids, struct error *error)
{
    struct gguf_array array = {0};
    enum status status = gguf_array(gguf, key, &array, NULL, error);
    if (status != STATUS_OK || array.kind != GGUF_I32)
        return status;
    int32_t *read = arena_allocate_array(arena, array.n_items + 1, sizeof *read);
    if (!read)
        return error_memory(error, STATUS_REFUSE, "the vocabulary");
    for (size_t i = 0; i < array.n_items; i++)
        read[i] = (int32_t)gguf_array_integer(&array, i);
    *ids = read;
    *n_ids = array.n_items;
    return STATUS_OK;
}
