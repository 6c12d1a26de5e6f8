"""The documents' fenced blocks: found in the text, put into the reader's own terms, and run as a reader would."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from relay.localservers.process import free_port
from tests.cli.running import environment
from tests.support.paths import ROOT
from tests.support.waiting import patience

DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)

# The installed programs are tests/system/packaging's; here they are this checkout's. curl is not everywhere.
PROGRAMS = """
set -e -o pipefail
python() { "$PYTHON" "$@"; }
relay() { exec "$PYTHON" -m relay; }
relay-cli() { "$PYTHON" -c 'from relay_cli.main import main; main()' "$@"; }
curl() { "$PYTHON" -c 'import sys, urllib.request as u; print(u.urlopen("http://" + sys.argv[-1]).read())' "$@"; }
"""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    document: str
    line: int
    language: str
    number: int
    """Which of its document's blocks of that language it is, counted from 1."""
    text: str

    @property
    def key(self) -> str:
        """What tables of blocks know it by; a line number would change with every edit."""
        return f"{self.document} {self.language} {self.number}"

    def adapted(self, own: Mapping[str, str]) -> Block:
        """With the reader's own addresses and names in place of the document's; each must be there."""
        text = self.text
        for theirs, ours in own.items():
            assert theirs in text, f"{self.document}:{self.line} does not say {theirs}"
            text = text.replace(theirs, ours)
        return replace(self, text=text)


def blocks(document: str) -> Iterator[Block]:
    """Every fenced block of a document, in its order."""
    text = (ROOT / document).read_text(encoding="utf-8")
    seen: Counter[str] = Counter()
    for fence in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        language = fence.group(1)
        seen[language] += 1
        line = text.count("\n", 0, fence.start()) + 1
        yield Block(document, line, language, seen[language], fence.group(2))


def run_shell(commands: str, folder: Path, **variables: str) -> str:
    """Bash with these commands to their end; what it printed. Fails with the first command that fails."""
    done = subprocess.run(
        ["bash", "-c", f"{PROGRAMS}{commands}"],
        cwd=folder,
        env=environment(PYTHON=sys.executable, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def shell(commands: str, folder: Path, log: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Bash with these commands, which goes on as long as what they have started; ends with all of it."""
    own = {"SERVER_PORT": f"127.0.0.1:{free_port()}", "RELAY_ID": "reader", **variables}
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", f"{PROGRAMS}{commands}\nwait"],
            cwd=folder,
            env=environment(PYTHON=sys.executable, PYTHONUNBUFFERED="1", **own),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(patience())


def run_python(program: str, folder: Path) -> str:
    """A Python program to its end; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 0, f"{program}\n{done.stdout}{done.stderr}"
    return done.stdout
