"""Install other engines into this Python's environment.

    python -m benchmarks.install NAME,…

The names are those of `afterglow bench --vs`, or all. The versions are those of peers.txt, which
are the ones that docs/performance.md was measured with. An engine that cannot be installed is said,
and passed over: the benchmark lists it as missing.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from afterglow.report.bench import PEERS, pip_words

VERSIONS = Path(__file__).with_name("peers.txt")


def is_installed(peer: str) -> bool:
    """Whether all packages of an engine are there."""
    packages = [word for words in pip_words(peer) for word in words[1:] if word[0] != "-"]
    try:
        return all(version(package) for package in packages)
    except PackageNotFoundError:
        return False


def install(peer: str) -> bool:
    """Install an engine; whether that worked."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    return all(
        subprocess.run([*pip, *words, "--constraint", str(VERSIONS)], check=False).returncode == 0
        for words in pip_words(peer)
    )


@click.command()
@click.argument("names")
def main(names: str) -> None:
    """Install the engines NAMES, separated by commas."""
    peers = PEERS if names == "all" else names.split(",")
    for peer in peers:
        if peer not in PEERS:
            raise click.ClickException(f"no engine {peer!r}; there are {', '.join(PEERS)}")
    for peer in peers:
        if not is_installed(peer) and not install(peer):
            click.echo(f"{peer} cannot be installed, and will be missing", err=True)


if __name__ == "__main__":
    main()
