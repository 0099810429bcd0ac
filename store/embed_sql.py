"""Writes a text file as a C string: embed_sql.py IN OUT NAME"""
import sys
lines = open(sys.argv[1], encoding='utf-8').read().splitlines()
with open(sys.argv[2], 'w', encoding='utf-8') as out:
    out.write(f'#pragma once\nstatic const char {sys.argv[3]}[] =\n')
    for line in lines:
        escaped = line.replace('\\', '\\\\').replace('"', '\\"')
        out.write(f'    "{escaped}\\n"\n')
    out.write('    ;\n')
