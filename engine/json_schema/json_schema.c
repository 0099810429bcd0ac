#include "engine/json_schema/json_schema.h"

#include "engine/json_schema/json_number.h"
#include "engine/grammar/rules_parts.h"
#include "engine/json_schema/schema_rules.h"

#include <stdlib.h>
#include <string.h>

static bool start_compiler(struct schema_compiler *compiler, struct text schema)
{
    struct json_document document;
    compiler->status =
        json_document_read(schema, &grammar_limits_default, compiler->arena, &document, compiler->error);
    if (compiler->status != STATUS_OK) {
        error_prefix(compiler->error, "schema");
        return false;
    }
    bool has_memory;
    if (!schema_source_open(&compiler->source, &document, compiler->arena, &has_memory)) {
        if (!has_memory)
            compiler_no_memory(compiler);
        const struct json_node *named = json_member_named(document.root, "$schema");
        compiler_refuse(compiler, named ? named : document.root, "no dialect that is known here");
        return false;
    }
    compiler->numbers.any = number_any(compiler->pool);
    compiler->numbers.family = number_family(compiler->pool);
    return formulas_init(compiler);
}

struct json_schema {
    struct arena arena;
    struct schema_compiler compiler;
    struct schema_rules symbols;
};

enum status json_schema_open(struct json_schema **opened, struct text text,
                             const struct json_schema_options *options, struct rules *rules,
                             struct schema_refusal *refusal, struct error *error)
{
    static const struct json_schema_options compact;
    struct json_schema *schema = *opened = calloc(1, sizeof *schema);
    if (!schema)
        return error_memory(error, STATUS_RETRY, "a schema");
    schema->compiler = (struct schema_compiler){.options = options ? options : &compact,
                                                .arena = &schema->arena,
                                                .rules = rules,
                                                .pool = rules_expressions(rules),
                                                .work = rules->schema_work,
                                                .refusal = refusal,
                                                .error = error};
    *refusal = (struct schema_refusal){0};
    if (start_compiler(&schema->compiler, text) && schema_rules_init(&schema->symbols, &schema->compiler))
        return STATUS_OK;
    enum status status = schema->compiler.status;
    json_schema_close(schema);
    *opened = NULL;
    return status;
}

static enum status find_status(struct json_schema *schema)
{
    struct schema_compiler *compiler = &schema->compiler;
    if (compiler->status == STATUS_OK)
        compiler->status = rules_status(compiler->rules, compiler->error);
    return compiler->status;
}

enum status json_schema_root(struct json_schema *schema, uint32_t *symbol)
{
    uint32_t root = formula_schema(&schema->compiler, schema->compiler.source.root);
    *symbol = schema_rules_add(&schema->symbols, root, (struct text){0});
    return find_status(schema);
}

enum status json_schema_property(struct json_schema *schema, struct text key, struct text bare_end,
                                 uint32_t *symbol)
{
    const struct json_node *properties = json_member_named(schema->compiler.source.root, "properties");
    uint32_t formula = formula_schema(&schema->compiler, json_member(properties, key));
    *symbol = schema_rules_add(&schema->symbols, formula, bare_end);
    return find_status(schema);
}

void json_schema_close(struct json_schema *schema)
{
    if (!schema)
        return;
    schema->compiler.rules->schema_work = schema->compiler.work;
    arena_finish(&schema->arena);
    free(schema);
}

enum status json_schema_compile(struct text text, const struct json_schema_options *options,
                                struct rules *rules, uint32_t *start_symbol, struct schema_refusal *refusal,
                                struct error *error)
{
    struct json_schema *schema;
    enum status status = json_schema_open(&schema, text, options, rules, refusal, error);
    if (status == STATUS_OK)
        status = json_schema_root(schema, start_symbol);
    json_schema_close(schema);
    return status;
}

enum status grammar_compile_json_schema(struct grammar **grammar, struct text schema,
                                        const struct json_schema_options *options,
                                        struct schema_refusal *refusal, struct error *error)
{
    *grammar = NULL;
    struct rules *rules = rules_create(NULL);
    uint32_t start = 0;
    if (!rules)
        return error_memory(error, STATUS_RETRY, "a schema");
    enum status status = json_schema_compile(schema, options, rules, &start, refusal, error);
    if (status != STATUS_OK) {
        rules_destroy(rules);
        return status;
    }
    status = grammar_create(grammar, rules, start, error);
    if (status == STATUS_REJECT && error->code == ERROR_INVALID_FIELD)
        (void)error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "schema: no value satisfies it");
    return status;
}
