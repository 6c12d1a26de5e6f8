"""The environment, read once, as frozen settings: the only package that reads it.

``variables`` declares each variable with default and meaning, ``destinations`` those of each kind of destination;
``value_kinds`` says how a value is read, ``combinations`` what must hold between several; ``unknown`` finds misspelt
names, ``former`` those of an earlier release. Values also come from ``dotenv`` and ``secret_files``; ``shown`` alone
decides which ones users may see.
``destinations_file``, ``routes_file`` and ``endpoints_file`` read the files that variables name. A program reads
``settings.Settings``; ``listening`` reads SERVER_PORT alone, ``locations`` the addresses of databases. Importing this
package imports none of them.
"""
