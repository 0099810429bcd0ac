// Whether the store's files are still found under their names: SQLite goes on writing to files that were
// deleted under it.
#pragma once

#include "store/database.h"

// Notes which files are open: after the first statement, which makes SQLite open its log.
void files_note(struct store *store);
