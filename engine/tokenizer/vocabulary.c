// What is known of tokens by their text alone. Files often leave out which tokens end a turn, or give such
// tokens the type of ordinary text. The lists are those of github.com/ggml-org/llama.cpp,
// src/llama-vocab.cpp.
#include "engine/tokenizer/vocabulary.h"

void vocabulary_finish(struct vocabulary *vocabulary)
{
    splitter_close(vocabulary->splitter);
    arena_finish(&vocabulary->arena);
    *vocabulary = (struct vocabulary){0};
}

struct known_token {
    const char *text;
    uint16_t flags; // added
};

enum { ENDS = TOKEN_CONTROL | TOKEN_ENDS_GENERATION };

static const struct known_token known[] = {
    {"<|eot_id|>", ENDS},         // Llama 3
    {"<|eom_id|>", ENDS},         //
    {"<|im_end|>", ENDS},         // ChatML
    {"<|end|>", ENDS},            // Phi-3
    {"<|return|>", ENDS},         // gpt-oss
    {"<|call|>", ENDS},           //
    {"<|flush|>", ENDS},          // Solar Open
    {"<|calls|>", ENDS},          //
    {"<end_of_turn>", ENDS},      // Gemma
    {"<|endoftext|>", ENDS},      // GPT-2
    {"<|end_of_text|>", ENDS},    // Llama 3, Granite
    {"</s>", ENDS},               // SentencePiece
    {"<EOT>", ENDS},              // CodeLlama
    {"_<EOT>", ENDS},             //
    {"[EOT]", ENDS},              // Kimi K2
    {"[EOS]", ENDS},              //
    {"<end_of_utterance>", ENDS}, // SmolVLM
    {"<eos>", ENDS},              // Gemma 4
    {"<turn|>", ENDS},            //
    {"<|tool_response>", ENDS},   //
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     ENDS},                // DeepSeek
    {"[e~[", ENDS},        // MiniMax
    {"<|fim_pad|>", ENDS}, // fill in the middle: padding, repository and file marks end it
    {"<fim-pad>", ENDS},
    {"<fim_pad>", ENDS},
    {"<PAD>", ENDS},
    {"[PAD]", ENDS},
    {"<|fim_repo|>", ENDS},
    {"<|repo_name|>", ENDS},
    {"<fim-repo>", ENDS},
    {"<REPO>", ENDS},
    {"<reponame>", ENDS},
    {"<|file_sep|>", ENDS},
    {"<|fim_prefix|>", TOKEN_CONTROL},
    {"<fim-prefix>", TOKEN_CONTROL},
    {"<fim_prefix>", TOKEN_CONTROL},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "begin\xEF\xBD\x9C>",
     TOKEN_CONTROL},
    {"<PRE>", TOKEN_CONTROL},
    {"\xE2\x96\x81<PRE>", TOKEN_CONTROL},
    {"<|code_prefix|>", TOKEN_CONTROL},
    {"<|prefix|>", TOKEN_CONTROL},
    {"<|fim_suffix|>", TOKEN_CONTROL},
    {"<fim-suffix>", TOKEN_CONTROL},
    {"<fim_suffix>", TOKEN_CONTROL},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81hole\xEF\xBD\x9C>",
     TOKEN_CONTROL},
    {"<SUF>", TOKEN_CONTROL},
    {"\xE2\x96\x81<SUF>", TOKEN_CONTROL},
    {"<|code_suffix|>", TOKEN_CONTROL},
    {"<|suffix|>", TOKEN_CONTROL},
    {"<|fim_middle|>", TOKEN_CONTROL},
    {"<fim-middle>", TOKEN_CONTROL},
    {"<fim_middle>", TOKEN_CONTROL},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "end\xEF\xBD\x9C>",
     TOKEN_CONTROL},
    {"<MID>", TOKEN_CONTROL},
    {"\xE2\x96\x81<MID>", TOKEN_CONTROL},
    {"<|code_middle|>", TOKEN_CONTROL},
    {"<|middle|>", TOKEN_CONTROL},
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

// Where a model has tokens that end only part of an answer.
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

void vocabulary_flag_known(struct vocabulary *vocabulary)
{
    for (size_t i = 0; i < vocabulary->n_tokens; i++) {
        struct text text = vocabulary->texts[i];
        // All known texts start with one of these.
        if (text.size == 0 || !(text.data[0] == '<' || text.data[0] == '[' || text.data[0] == '_' ||
                                (unsigned char)text.data[0] == 0xE2))
            continue;
        for (size_t j = 0; j < KNOWN_COUNT; j++)
            if (text_equals_string(text, known[j].text))
                vocabulary->flags[i] |= known[j].flags;
    }
    // The parts of gpt-oss's messages are wanted in its output.
    set_flags(vocabulary, "<|channel|>", TOKEN_USER_DEFINED);
    set_flags(vocabulary, "<|message|>", TOKEN_USER_DEFINED);
    set_flags(vocabulary, "<|start|>", TOKEN_USER_DEFINED);
    set_flags(vocabulary, "<|constrain|>", TOKEN_USER_DEFINED);
    correct_ends(vocabulary);
}
