# SPDX-License-Identifier: Apache-2.0
"""Runs inside the machine, as a service: does what it is told by the second serial port, a line of JSON each.

{"argv": [...], "timeout_s": 60} is answered by {"status": <exit status>, "output": <both streams>}. It has nothing but
Debian's own Python.
"""

import json
import os
import subprocess
import tty
from typing import Any, Dict

PORT = "/dev/ttyS1"


def obey(order: Dict[str, Any]) -> Dict[str, Any]:
    """Run a command to its end and return what came of it; one that takes too long has status 124."""
    try:
        done = subprocess.run(order["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=order["timeout_s"])
    except subprocess.TimeoutExpired as error:
        return {"status": 124, "output": (error.stdout or b"").decode(errors="replace")}
    except OSError as error:
        return {"status": 127, "output": str(error)}
    return {"status": done.returncode, "output": done.stdout.decode(errors="replace")}


def main() -> None:
    """Answer for ever."""
    port = os.open(PORT, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(port)
    with os.fdopen(port, "r+b", buffering=0) as wire:
        wire.write(b"ready\n")
        line = b""
        while True:
            line += wire.read(1)
            if line.endswith(b"\n"):
                answer = json.dumps(obey(json.loads(line))).encode() + b"\n"
                while answer:
                    answer = answer[wire.write(answer):]
                line = b""


if __name__ == "__main__":
    main()
