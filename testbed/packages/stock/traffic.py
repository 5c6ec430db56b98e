# SPDX-License-Identifier: Apache-2.0
"""Runs inside the machine: what virtual machines send, who takes it, and how much came of each.

    traffic.py sink                                     takes TCP and UDP
    traffic.py count DEVICE FILE                        a line of JSON ten times a second: time, bytes by source
    traffic.py tcp ADDRESS KBPS                         one connection, at a rate at most, again when it breaks
    traffic.py udp ADDRESS KBPS                         datagrams at a rate
    traffic.py tap DEVICE MAC SOURCE TO_MAC TO KBPS     the same, as the frames of a machine behind a tap device

It has nothing but Debian's own Python. Counters are those of the filters at a device's ingress.
"""

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Callable

PORT = 5001
PAYLOAD = 1400  # bytes
PAUSE_S = 0.01  # between two bursts of a sender
LATE_S = 0.3  # what a sender makes up for; emulated processors stand still that long beside other work

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 2, 0x1000
SO_MAX_PACING_RATE = 47


def take(connection: socket.socket) -> None:
    """Read a connection to its end."""
    with connection:
        while connection.recv(1 << 16):
            pass


def sink() -> None:
    """Take all connections; datagrams only reach a socket, so that nobody is told that there is none."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("", PORT))
    listening = socket.create_server(("", PORT))
    while True:
        threading.Thread(target=take, args=(listening.accept()[0],), daemon=True).start()


def count(device: str, file: str) -> None:
    """Write down what the filters of a device counted, by the source that each is for."""
    with open(file, "w", encoding="ascii") as out:
        while True:
            told = subprocess.run(["tc", "-s", "-j", "filter", "show", "dev", device, "ingress"], capture_output=True,
                                  check=True)
            counted = {}
            for filter_ in json.loads(told.stdout):
                options = filter_.get("options", {})
                if "actions" in options:
                    counted[options["keys"]["src_ip"]] = options["actions"][0]["stats"]["bytes"]
            out.write(json.dumps({"t": time.monotonic(), "bytes": counted}) + "\n")
            out.flush()
            time.sleep(0.1)


def tcp(address: str, kbps: float) -> None:
    """Send by one connection after the other."""
    block = bytes(1 << 16)
    while True:
        try:
            with socket.create_connection((address, PORT), timeout=5) as connection:
                connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, int(kbps * 1000 / 8))
                while True:
                    connection.sendall(block)
        except OSError:
            time.sleep(0.2)


def pace(send: Callable[[], object], kbps: float) -> None:
    """Send packets of PAYLOAD bytes at a rate for ever; what is more than LATE_S behind is not made up for."""
    each_s = PAYLOAD * 8 / (kbps * 1000)
    due = time.monotonic()
    while True:
        now = time.monotonic()
        due = max(due, now - LATE_S)
        while due <= now:
            try:
                send()
            except OSError:  # no buffer, no way yet
                pass
            due += each_s
        time.sleep(max(0.0, min(PAUSE_S, due - now)))


def udp(address: str, kbps: float) -> None:
    """Send datagrams."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    data = bytes(PAYLOAD)
    pace(lambda: sender.sendto(data, (address, PORT)), kbps)


def checksum(head: bytes) -> int:
    """Return the Internet checksum of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(head) // 2}H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def tap(device: str, mac: str, source: str, to_mac: str, to: str, kbps: float) -> None:
    """Send datagrams as frames through a tap device."""
    made = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(made, TUNSETIFF, struct.pack("16sH14x", device.encode(), IFF_TAP | IFF_NO_PI))
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + PAYLOAD, 0, 0, 64, 17, 0, socket.inet_aton(source),
                       socket.inet_aton(to))
    frame = (bytes.fromhex(to_mac.replace(":", "")) + bytes.fromhex(mac.replace(":", "")) + b"\x08\x00"
             + head[:10] + struct.pack("!H", checksum(head)) + head[12:]
             + struct.pack("!HHHH", PORT, PORT, 8 + PAYLOAD, 0) + bytes(PAYLOAD))
    pace(lambda: os.write(made, frame), kbps)


def main() -> None:
    """Run as a program."""
    kind, *words = sys.argv[1:]
    if kind == "sink":
        sink()
    elif kind == "count":
        count(*words)
    elif kind == "tcp":
        tcp(words[0], float(words[1]))
    elif kind == "udp":
        udp(words[0], float(words[1]))
    else:
        device, mac, source, to_mac, to, kbps = words
        tap(device, mac, source, to_mac, to, float(kbps))


if __name__ == "__main__":
    main()
