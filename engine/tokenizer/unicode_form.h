// Unicode by utf8proc: normal forms, lower case, general categories, grapheme clusters. Any thread.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unicode_form { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD };

// Appends the normal form, with the tables of the tokenizers library; text that is not UTF-8 unchanged. False: no
// memory.
bool unicode_put_form(struct text text, enum unicode_form form, struct buffer *out);
// Appends the text in lower case, as Rust's char::to_lowercase: without the rule for a final sigma.
void unicode_put_lowercase(struct text text, struct buffer *out);

// General categories in utf8proc's order.
enum unicode_category {
    CATEGORY_CN,
    CATEGORY_LU,
    CATEGORY_LL,
    CATEGORY_LT,
    CATEGORY_LM,
    CATEGORY_LO,
    CATEGORY_MN,
    CATEGORY_MC,
    CATEGORY_ME,
    CATEGORY_ND,
    CATEGORY_NL,
    CATEGORY_NO,
    CATEGORY_PC,
    CATEGORY_PD,
    CATEGORY_PS,
    CATEGORY_PE,
    CATEGORY_PI,
    CATEGORY_PF,
    CATEGORY_PO,
    CATEGORY_SM,
    CATEGORY_SC,
    CATEGORY_SK,
    CATEGORY_SO,
    CATEGORY_ZS,
    CATEGORY_ZL,
    CATEGORY_ZP,
    CATEGORY_CC,
    CATEGORY_CF,
    CATEGORY_CS,
    CATEGORY_CO,
};

enum unicode_category unicode_category_of(uint32_t codepoint);
// Whether a grapheme cluster ends between two adjacent characters (UAX #29); *state is 0 at a cluster's start.
bool unicode_cluster_ends(uint32_t before, uint32_t after, int32_t *state);
