"""The one place that names the version, and what it needs: the client in the very same one."""

__version__ = "0.1.0"


def client_problem() -> str:
    """What is wrong with the installed client, and what to do; empty when the relay can start."""
    try:
        from openoutbox.version import __version__ as installed  # noqa: PLC0415 - it may be missing
    except ModuleNotFoundError:
        found = "the Python package openoutbox-client is not installed"
    else:
        if installed == __version__:
            return ""
        found = f"the Python package openoutbox-client is installed in version {installed}"
    wheel = f"openoutbox_client-{__version__}-py3-none-any.whl"
    return (
        f"{found}, and this relay needs version {__version__}. "
        f"Install it from a checkout: pip install ./client, or with the wheel: pip install {wheel}"
    )
