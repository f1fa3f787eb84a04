"""The GPU of this machine: prints what it is, or ends with the reason why there is none.

    python -m benchmarks.cuda.gpu

Whatever needs one asks this first.
"""

from __future__ import annotations

import sys

from afterglow.backends.cuda.driver.protocol import DeviceFacts
from afterglow.backends.cuda.session import devices
from afterglow.support.errors import AfterglowError


def gpu() -> DeviceFacts:
    """What the driver says of the first one; ends the process if there is none."""
    try:
        return devices()[0]
    except AfterglowError as error:
        sys.exit(f"no GPU: {error.what}\n{error.help}")


def main() -> None:
    """Print a line."""
    facts = gpu()
    print(f"{facts.name}, driver for CUDA {facts.driver}")


if __name__ == "__main__":
    main()
