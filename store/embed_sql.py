"""Writes the schema as a C string: embed_sql.py OUT SCHEMA.sql"""
import sys

with open(sys.argv[2], encoding='utf-8') as file:
    lines = file.read().splitlines()
with open(sys.argv[1], 'w', encoding='utf-8') as out:
    out.write('#pragma once\nstatic const char store_sql[] =\n')
    for line in lines:
        escaped = line.replace('\\', '\\\\').replace('"', '\\"')
        out.write(f'    "{escaped}\\n"\n')
    out.write('    ;\n')
