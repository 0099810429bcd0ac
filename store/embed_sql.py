"""Writes the schema's versions as an array of C strings, in their order: embed_sql.py OUT VERSION-1.sql VERSION-2.sql ..."""
import sys

with open(sys.argv[1], 'w', encoding='utf-8') as out:
    out.write('#pragma once\nstatic const char *const store_versions[] = {\n')
    for path in sys.argv[2:]:
        for line in open(path, encoding='utf-8').read().splitlines():
            escaped = line.replace('\\', '\\\\').replace('"', '\\"')
            out.write(f'    "{escaped}\\n"\n')
        out.write('    ,\n')
    out.write('};\n')
