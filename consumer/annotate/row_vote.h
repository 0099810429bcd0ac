// The vote of a row's draws on one property of a schema. A property with few possible values is voted on by
// value: an enum, a const, a boolean, null, an integer of at most VOTE_INTEGERS_MAX values, and unions of
// these. An array of such values is voted on member by member. Other properties (texts, numbers, objects)
// rarely agree and are not voted on.
// Thread: main.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/value.h"

enum { VOTE_INTEGERS_MAX = 16 };

enum vote_kind { VOTE_NONE, VOTE_BY_VALUE, VOTE_BY_MEMBER };

struct vote_rule {
    enum vote_kind kind;
    size_t n_items_min, n_items_max; // of an array
};

// `root` has the definitions that the schema's $ref name.
struct vote_rule vote_rule_of(const struct value *root, const struct value *schema);

struct vote_outcome {
    const struct value *winner; // NULL: most draws lack the property
    size_t n_agreeing;          // draws with the winner; by member: the least over all members
};
// values: [n], in the order of the draws; NULL: the draw lacks the property. A tie goes to the value drawn
// first. A winning array is made in the arena: it has the members that most of the drawn arrays have, within
// n_items_min and n_items_max, in the order in which they were first drawn. False: out of memory.
bool vote_count(const struct vote_rule *rule, const struct value *const *values, size_t n,
                struct arena *arena, struct vote_outcome *outcome);
// Whether a draw with `value` agrees with the winner. Either may be NULL. In a vote by member, arrays agree
// if they have the same members.
bool vote_agrees(const struct vote_rule *rule, const struct value *value, const struct value *winner);
