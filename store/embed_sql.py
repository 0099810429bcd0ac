"""Writes SQL files as C strings, each named like its file: embed_sql.py OUT NAME.sql ..."""
import os
import sys

with open(sys.argv[1], 'w', encoding='utf-8') as out:
    out.write('#pragma once\n')
    for path in sys.argv[2:]:
        with open(path, encoding='utf-8') as file:
            lines = file.read().splitlines()
        out.write(f'static const char {os.path.basename(path)[:-4]}_sql[] =\n')
        for line in lines:
            escaped = line.replace('\\', '\\\\').replace('"', '\\"')
            out.write(f'    "{escaped}\\n"\n')
        out.write('    ;\n')
