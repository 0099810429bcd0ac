#include "consumer/worker/embedding_prompts.h"

#include "consumer/observe/log.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// Whether the word is in the name, in either case, between ends, blanks and punctuation: "e5" in "intfloat/E5-small-v2".
static bool has_word(const char *name, const char *word)
{
    size_t n = strlen(word), size = strlen(name);
    for (size_t at = 0; at + n <= size; at++) {
        size_t i = 0;
        while (i < n && (tolower((unsigned char)name[at + i]) == word[i] ||
                         (word[i] == '-' && (name[at + i] == '_' || name[at + i] == ' '))))
            i++;
        bool begins = at == 0 || !isalnum((unsigned char)name[at - 1]);
        if (i == n && begins && !isalnum((unsigned char)name[at + n]))
            return true;
    }
    return false;
}

bool embedding_prompts_known(const char *model_name, const char *family, const char **query,
                             const char **document)
{
    static const struct {
        const char *word, *family; // either is enough; NULL: none
        const char *query, *document;
    } known[] = {
        {"e5", NULL, "query: ", "passage: "},
        {"nomic-embed-text", "nomic-bert", "search_query: ", "search_document: "},
        {"modernbert-embed", NULL, "search_query: ", "search_document: "},
        {"embeddinggemma", "gemma-embedding", "task: search result | query: ", "title: none | text: "},
    };
    // an instruction that the user writes takes the prefix's place
    for (size_t i = 0; !has_word(model_name, "instruct") && i < sizeof known / sizeof *known; i++) {
        bool is_family = known[i].family && strcmp(family, known[i].family) == 0;
        if (!is_family && !has_word(model_name, known[i].word))
            continue;
        *query = known[i].query;
        *document = known[i].document;
        return true;
    }
    return false;
}

// The names of the model's prompts, if one of them is a text.
static bool list_prompts(const struct value *prompts, char *names, size_t names_bytes)
{
    enum { SHOWN_BYTES_MAX = 64 };
    bool has_text = false;
    for (size_t i = 0; prompts->kind == VALUE_OBJECT && i < prompts->object.n_members; i++) {
        const struct value_member *member = &prompts->object.members[i];
        size_t size = member->key.size < SHOWN_BYTES_MAX ? member->key.size : SHOWN_BYTES_MAX,
               length = strlen(names);
        has_text |= member->value.kind == VALUE_STRING && member->value.text.size > 0;
        snprintf(names + length, names_bytes - length, "%s%.*s", i ? ", " : "", (int)size, member->key.data);
    }
    return has_text;
}

void embedding_prompts_warn(const struct embedding_rules *rules, const struct model *model, bool of_jobs)
{
    char names[512] = "";
    const char *query, *document;
    if (rules->prompt.size || rules->is_prompt_given)
        return;
    bool has_own = rules->prompts.kind == VALUE_OBJECT && rules->prompts.object.n_members > 0;
    if (has_own && !of_jobs && list_prompts(&rules->prompts, names, sizeof names))
        log_write(
            LOG_WARNING,
            "the model has the prompts %s, and the texts get none: --prompt-name NAME, or --prefix '' if "
            "this is meant",
            names);
    else if (!has_own && embedding_prompts_known(model->name, model_family_name(model), &query, &document))
        log_write(LOG_WARNING,
                  "%s was trained with \"%s\" before queries and \"%s\" before documents, and the texts get "
                  "neither: %s",
                  model->name, query, document,
                  of_jobs ? "jobs need it in their inputs" : "--prefix TEXT ('' if they have it)");
}
