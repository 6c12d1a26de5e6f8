"""CycloneDX documents of what a release installs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from deploy.release.packages import Package
from deploy.release.source import ReleaseRefused, Source

_SCHEMA: Final = SchemaVersion.V1_6
_NAMESPACES: Final = {"pypi": None, "deb": "debian"}


def document(source: Source, subject: str, kind: ComponentType, packages: Iterable[Package]) -> str:
    """Return the JSON document of ``subject``, a file of the release; one source gives one document.

    Raises ReleaseRefused when it does not validate.
    """
    # Importing it builds grammars of URLs, which takes seconds that importing this module need not take.
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    root = Component(name=subject, version=source.version, type=kind, bom_ref=subject)
    components = [_component(package) for package in packages]
    bom = Bom(components=components, serial_number=uuid5(NAMESPACE_URL, f"{source.commit}/{subject}"))
    bom.metadata.component, bom.metadata.timestamp = root, source.time
    bom.register_dependency(root, components)
    text = make_outputter(bom, OutputFormat.JSON, _SCHEMA).output_as_string(indent=2)
    if error := JsonStrictValidator(_SCHEMA).validate_str(text):
        raise ReleaseRefused(f"{subject}: its software bill of materials is invalid: {error}")
    return text + "\n"


def _component(package: Package) -> Component:
    url = PackageURL(package.kind, _NAMESPACES[package.kind], package.name, package.version)
    # A lock allows several files of a package, and a component has one digest: only a single file's is the component's.
    digests = [HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in package.sha256]
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=url.to_string(),
        hashes=digests if len(digests) == 1 else [],
    )
