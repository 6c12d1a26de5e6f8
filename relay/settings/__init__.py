"""The environment, read once, as frozen settings: the only package that reads it.

``variables`` declares each variable with default and meaning, ``destinations`` those of each kind of destination, by
``fields``; ``value_kinds`` and ``readers`` say how a value is read, ``combinations`` what must hold between several
(``unverified``: a login). ``missing`` is about what is not set, ``unknown`` about misspelt names, ``former`` about
those of an earlier release, ``service_links`` about what Kubernetes sets. Values also come from ``dotenv`` and
``secret_files``; ``shown`` alone decides which ones users may see, ``describe`` writes ``--help`` and the reference.
``destinations_file``, ``routes_file`` and ``endpoints_file`` read the files that variables name. A program reads
``settings.Settings``; ``listening`` reads SERVER_PORT alone, ``locations`` the addresses of databases. Importing this
package imports none of them.
"""
