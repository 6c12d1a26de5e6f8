"""``python -m relay_cli``: the same as ``relay-cli``."""

from relay_cli.main import main

if __name__ == "__main__":
    main()
