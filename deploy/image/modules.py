"""Print the source file of every module that the daemon and the command line import, one a line, for compileall.

Left out are rooms that few relays use and whose libraries are large (the console, OpenTelemetry) or not in the image
(AWS), and those that the image does not run (an application's client, what tests import, Spark, the demonstration).
Python compiles these when they are imported, as it does modules of a library that nothing here imports.
"""

import importlib
import pkgutil
import sys
from types import ModuleType

import relay
import relay_cli

LEFT_OUT = (
    "relay.brokers.aws",
    "relay.client",
    "relay.conformance",
    "relay.console",
    "relay.demo",
    "relay.localservers",
    "relay.spark",
    "relay.telemetry.otel",
)


def import_all(package: ModuleType) -> None:
    """Import what is in a package; not by pkgutil.walk_packages, which imports packages that are left out."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not module.name.startswith(LEFT_OUT) and not module.name.endswith("__main__"):
            imported = importlib.import_module(module.name)
            if module.ispkg:
                import_all(imported)


import_all(relay)
import_all(relay_cli)
files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
sys.stdout.writelines(f"{file}\n" for file in sorted(file for file in files if file and file.endswith(".py")))
