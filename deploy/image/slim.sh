#!/bin/bash
# Take from a virtual environment what the image does not run: slim.sh FOLDER. The Dockerfile calls it.
set -euo pipefail
packages=$(echo "$1"/lib/python3*/site-packages)

# Symbols for debuggers: two fifths of the libraries' bytes.
find "$packages" -name '*.so*' -type f -exec strip --strip-unneeded {} +

# What only compilers and type checkers read.
find "$packages" -regextype egrep -regex '.*\.(pyi|pyx|pxd|h|proto)' -type f -delete

# The lexers of Pygments but for Python's, which rich colours tracebacks with.
find "$packages/pygments/lexers" -name '*.py' \
  ! -name __init__.py ! -name _mapping.py ! -name python.py ! -name special.py -delete

# Its formatters, which rich does not use, and its styles but for the two that rich asks for by name.
find "$packages/pygments/formatters" "$packages/pygments/styles" -name '*.py' \
  ! -name __init__.py ! -name _mapping.py ! -name default.py ! -name monokai.py -delete

# Clients of Confluent's schema registry, and SQLAlchemy's dialect of ClickHouse: nothing here imports them.
rm -r "$packages"/confluent_kafka/{schema_registry,avro} "$packages/clickhouse_connect/cc_sqlalchemy"

# What compiles bindings of C libraries: those here are compiled. Definitions of Google's services, which no exporter uses.
# Pydantic's first version, which FastAPI looks for and does without.
rm -r "$packages"/{cffi,pycparser,pydantic/v1} "$packages"/google/{api,cloud,gapic,logging,longrunning,type}

# psycopg brings an OpenSSL of its own. Its libpq works with every OpenSSL 3, so it takes that of the base's Python,
# which the base's distribution also updates.
for library in crypto ssl; do
  shared=$(ldconfig -p | awk -v name="lib$library.so.3" '$1 == name && !seen++ { print $NF }')
  ln -sf "${shared:?the base has no lib$library.so.3}" "$packages"/psycopg_binary.libs/lib$library-*.so.3
done
