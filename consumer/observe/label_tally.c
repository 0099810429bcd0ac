#include "consumer/observe/label_tally.h"

#include "consumer/observe/recent.h"
#include "schemas/base/hash.h"
#include "schemas/json_answer.h"

#include <string.h>

static struct label_group *find_group(struct label_tally *tally, uint64_t key)
{
    for (int i = 0; i < tally->n_groups; i++)
        if (tally->groups[i].key == key)
            return &tally->groups[i];
    return NULL;
}

// NULL: there are TALLY_GROUPS_MAX.
static struct label_group *add_group(struct label_tally *tally, uint64_t key, struct text name)
{
    if (tally->n_groups == TALLY_GROUPS_MAX)
        return NULL;
    struct label_group *group = &tally->groups[tally->n_groups++];
    *group = (struct label_group){.key = key};
    recent_copy_text(group->name, sizeof group->name, name);
    return group;
}

static void count_label(struct label_group *group, struct text label)
{
    char text[TALLY_LABEL_BYTES];
    int i = 0;
    recent_copy_text(text, sizeof text, label);
    group->n++;
    while (i < group->n_labels && strcmp(group->labels[i].text, text) != 0)
        i++;
    if (i == TALLY_LABELS_MAX) {
        group->is_dropped = true;
        return;
    }
    if (i == group->n_labels) {
        memcpy(group->labels[i].text, text, sizeof text);
        group->labels[i].n = 0;
        group->n_labels++;
    }
    group->labels[i].n++;
}

// ---- choices ----

static void add_choice(struct label_tally *tally, const struct constraint *constraint, struct text answer)
{
    uint64_t key = 1;
    bool is_label = false;
    for (int32_t i = 0; i < constraint->n_choices; i++) {
        struct text choice = constraint->choices[i];
        key = hash_bytes(choice.data, choice.size, key);
        is_label |= text_equal(choice, answer);
    }
    struct label_group *group = find_group(tally, key);
    if (!group && is_label) {
        struct buffer name = {0};
        for (int32_t i = 0; i < constraint->n_choices && name.size < TALLY_NAME_BYTES; i++) {
            buffer_add_string(&name, i ? ", " : "");
            buffer_add_text(&name, constraint->choices[i]);
        }
        group = add_group(tally, key, (struct text){name.data, name.failed ? 0 : name.size});
        buffer_finish(&name);
    }
    if (group && is_label)
        count_label(group, answer);
}

// ---- properties of a schema ----

static bool is_enumerated(const struct value *schema)
{
    const struct value *type = value_get(schema, "type");
    return value_get(schema, "enum") ||
           (type && type->kind == VALUE_STRING && text_equals_string(type->text, "boolean"));
}

// Adds a group for each property of a schema that is new. Its key follows from the schema's hash and its name.
static void learn_schema(struct label_tally *tally, uint64_t hash, struct text source, struct arena *arena)
{
    struct value schema;
    struct error error;
    for (int i = 0; i < tally->n_schemas; i++)
        if (tally->schemas[i] == hash)
            return;
    if (tally->n_schemas == TALLY_SCHEMAS_MAX)
        return;
    tally->schemas[tally->n_schemas++] = hash;
    if (json_decode(source, arena, &schema, &error) != STATUS_OK)
        return;
    const struct value *properties = value_get(&schema, "properties");
    for (size_t i = 0; properties && properties->kind == VALUE_OBJECT && i < properties->object.n_members;
         i++) {
        const struct value_member *property = &properties->object.members[i];
        if (!is_enumerated(&property->value))
            continue;
        uint64_t key = hash_bytes(property->key.data, property->key.size, hash);
        struct label_group *group = add_group(tally, key, property->key);
        if (group)
            group->is_property = true;
    }
}

static void add_member(struct label_tally *tally, uint64_t hash, const struct value_member *member)
{
    struct label_group *group = find_group(tally, hash_bytes(member->key.data, member->key.size, hash));
    struct buffer json = {0};
    if (!group)
        return;
    if (member->value.kind != VALUE_STRING)
        json_encode(&member->value, &json);
    if (!json.failed)
        count_label(group, member->value.kind == VALUE_STRING ? member->value.text
                                                              : (struct text){json.data, json.size});
    buffer_finish(&json);
}

static void add_object(struct label_tally *tally, struct text source, struct text answer)
{
    struct arena arena = {0};
    struct value object;
    struct error error;
    uint64_t hash = hash_bytes(source.data, source.size, 2);
    learn_schema(tally, hash, source, &arena);
    if (json_decode_answer(answer, &arena, &object, &error) == STATUS_OK && object.kind == VALUE_OBJECT)
        for (size_t i = 0; i < object.object.n_members; i++)
            add_member(tally, hash, &object.object.members[i]);
    arena_finish(&arena);
}

void label_tally_add(struct label_tally *tally, const struct job *job)
{
    const struct constraint *constraint = &job->request.constraint;
    if (!tally->is_counted || job->result.status != RESULT_DONE || job->result.n_choices < 1)
        return;
    if (constraint->kind == CONSTRAINT_CHOICE)
        add_choice(tally, constraint, job->result.choices[0].text);
    else if (constraint->kind == CONSTRAINT_JSON_SCHEMA)
        add_object(tally, constraint->source, job->result.choices[0].text);
}
