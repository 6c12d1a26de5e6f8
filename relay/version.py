"""The one place that names the version, and what it needs: the client in the very same one."""

NUMBER = "0.2.0.dev0"
"""As the packages have it, and so as the client must have it."""
__version__ = NUMBER  # what is built of a commit between two releases says which: hatch_build.py writes it here


def client_problem() -> str:
    """What is wrong with the installed client, and what to do; empty when the relay can start."""
    try:
        from openoutbox.version import __version__ as installed  # noqa: PLC0415 - it may be missing
    except ModuleNotFoundError:
        found = "the Python package openoutbox-client is not installed"
    else:
        if installed == NUMBER:
            return ""
        found = f"the Python package openoutbox-client is installed in version {installed}"
    wheel = f"openoutbox_client-{NUMBER}-py3-none-any.whl"
    return (
        f"{found}, and this relay needs version {NUMBER}. "
        f"Install it from a checkout: pip install ./client, or with the wheel: pip install {wheel}"
    )
