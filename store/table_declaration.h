// Declaration of a column of a SQLite table, for a copy of the table (table_query.h, table_insert.h).
#pragma once

#include <stdbool.h>

struct table_declaration {
    const char *type; // declared type; NULL: none, or a type that a copied table cannot declare
    bool is_not_null;
    int key_place; // in the primary key, from 1; 0: not part of it
};
