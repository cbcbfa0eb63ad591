"""Run a command inside a network namespace that has nothing but loopback up.

Usage: python scripts/loopback_only.py COMMAND [ARG...]

Third-party harnesses try to phone home; here every such attempt fails at once. Works as root and, where the kernel
allows unprivileged user namespaces, as any user. Where neither is possible the command is refused, unless
``--best-effort`` comes first: then it runs without isolation after one line of warning.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000  # linux/sched.h
CLONE_NEWNET = 0x40000000  # linux/sched.h
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1  # linux/sockios.h, linux/if.h


def isolate() -> None:
    """Move this process into a fresh network namespace and bring its loopback up."""
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNET if uid == 0 else CLONE_NEWNET | CLONE_NEWUSER
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"no network namespace to be had: {os.strerror(number)}")
    if flags & CLONE_NEWUSER:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh", b"lo", 0)
        current = struct.unpack("16sh", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", b"lo", current | IFF_UP))


def main(arguments: list[str]) -> None:
    """Isolate, then become the command."""
    best_effort = arguments[:1] == ["--best-effort"]
    command = arguments[1:] if best_effort else arguments
    if not command:
        raise SystemExit(__doc__)
    try:
        isolate()
    except OSError as error:
        if not best_effort:
            raise SystemExit(f"loopback_only: {error}") from error
        print(f"loopback_only: {error}; running without isolation", file=sys.stderr)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
