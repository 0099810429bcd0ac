"""Writes the schema's versions as an array of C strings: embed_sql.py OUT VERSION.sql ..."""
import sys

with open(sys.argv[1], 'w', encoding='utf-8') as out:
    out.write('#pragma once\nstatic const char *const store_sql[] = {\n')
    for name in sys.argv[2:]:
        with open(name, encoding='utf-8') as file:
            for line in file.read().splitlines():
                escaped = line.replace('\\', '\\\\').replace('"', '\\"')
                out.write(f'    "{escaped}\\n"\n')
        out.write('    ,\n')
    out.write('};\n')
