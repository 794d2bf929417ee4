"""Two machines in one: network namespaces that a link of a given rate joins. As root; needs iproute2."""

import contextlib
import os
import shutil
import subprocess

import trainings

ADDRESSES = ("10.79.0.1", "10.79.0.2")
# What a rate may run ahead by: a few of the largest packets, and less than a socket's buffer holds.
BURST = "256kb"


def _run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise trainings.Failed(f"'{' '.join(words)}' failed: {done.stderr.strip()}")


@contextlib.contextmanager
def joined(rate):
    """Their names; `rate` as tc(8) spells it, "10gbit", each way."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        raise trainings.Failed("a link of its own rate needs root, ip and tc.")
    names = [f"troupe-bench-{os.getpid()}-{end}" for end in "ab"]
    try:
        for name in names:
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "link", "add", "wire", "netns", names[0], "type", "veth", "peer", "name", "wire", "netns", names[1])
        for name, address in zip(names, ADDRESSES):
            _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "wire")
            _run("ip", "-n", name, "link", "set", "wire", "up")
            _run("tc", "-n", name, "qdisc", "add", "dev", "wire", "root", "tbf", "rate", rate, "burst", BURST,
                 "latency", "5ms")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
