"""Writes the schema's versions as an array of C strings, in their order, and what they make of an empty store:
embed_sql.py OUT VERSION-1.sql VERSION-2.sql ...

A new store is made at once by the statements that SQLite keeps after the last version, in their order: running the
versions one after another takes fifteen times as long, because each ALTER TABLE reads the whole schema again.
"""
import sqlite3
import sys


def quoted(text):
    for line in text.splitlines():
        escaped = line.replace('\\', '\\\\').replace('"', '\\"')
        yield f'    "{escaped}\\n"\n'


def schema_of(database):
    return database.execute('SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid').fetchall()


def schema_after(versions):
    """The statements that make the schema that the versions end with."""
    database = sqlite3.connect(':memory:')
    for sql in versions:
        database.executescript(sql)
    schema = schema_of(database)
    for kind, name, *_ in schema:
        if kind == 'table' and database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]:
            sys.exit(f'embed_sql.py: table {name} of a new store has rows, which no statement of its schema makes')
    statements = ''.join(f'{sql};\n' for *_, sql in schema if sql)
    again = sqlite3.connect(':memory:')
    again.executescript(statements)
    if schema_of(again) != schema:
        sys.exit('embed_sql.py: the statements that SQLite keeps do not make the same schema')
    return statements


def main():
    versions = []
    for path in sys.argv[2:]:
        with open(path, encoding='utf-8') as file:
            versions.append(file.read())
    with open(sys.argv[1], 'w', encoding='utf-8') as out:
        out.write('#pragma once\nstatic const char *const store_versions[] = {\n')
        for sql in versions:
            out.writelines(quoted(sql))
            out.write('    ,\n')
        out.write('};\nstatic const char store_new[] =\n')
        out.writelines(quoted(schema_after(versions)))
        out.write('    ;\n')


main()
