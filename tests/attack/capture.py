#!/usr/bin/env python3
"""Records what two machines send each other during a training, and searches it for what nobody should read.

    tests/attack/capture.py BUILD_FOLDER       (as root; needs iproute2 and tcpdump)

Two network namespaces, two workers each, by `troupe run --nodes`; a second start resumes, so that parameters travel, too.
The same with --insecure shows that the search finds what is there. Ends with 1 if a search does not come out so.
"""
import base64, glob, os, subprocess, sys, tempfile, time

build = os.path.abspath(sys.argv[1])
folder = tempfile.mkdtemp(prefix="troupe-capture-")


def sh(line):
    subprocess.run(line, shell=True, check=True)


def inside(machine, command, **more):
    return subprocess.Popen(["ip", "netns", "exec", f"troupe-{machine}", *command], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, **more)


def train(name, steps, flags):
    nodes = [inside(machine, [f"{build}/troupe", "run", "--nodes", "2", "--node", str(node), "--rendezvous", "10.78.0.1:29500",
                              "--secret-file", secret, "--workers", "2", "--threads", "1", "--", f"{build}/examples/mnist",
                              "--train-examples", "2000", "--batch-size", "100", "--max-steps", str(steps),
                              "--model-dir", f"{folder}/{name}", *flags])
             for node, machine in enumerate("ab")]
    for node in nodes:
        _, err = node.communicate(timeout=300)
        if node.returncode != 0:
            sys.exit(err[-2000:])


def needles(name):
    """What must not be readable: words of the protocol, the secret, and pieces of the parameters."""
    key = open(secret, "rb").read().strip()
    found = {"a task's name": [b"worker/0", b"worker/1", b"node/1"], "a flag's name": [b"--batch-size", b"batch-size", b"--seed"],
             "the program's name": [b"mnist"], "the secret": [key, bytes.fromhex(key.decode()), base64.b64encode(key)]}
    newest = max(glob.glob(f"{folder}/{name}/model.ckpt-*/model*.safetensors"), key=os.path.getmtime)
    weights = open(newest, "rb").read()[-100_000:]
    found["parameters"] = [weights[at:at + 16] for at in range(0, len(weights) - 16, 1000) if len(set(weights[at:at + 16])) > 8]
    return found


def run(name, flags):
    pcap = f"{folder}/{name}.pcap"
    dump = inside("a", ["tcpdump", "-i", "veth-a", "-s", "0", "-B", "65536", "-U", "-w", pcap])
    time.sleep(1)
    train(name, 10, flags)
    wanted = needles(name)
    train(name, 12, flags)
    time.sleep(0.5)
    dump.terminate()
    dump.communicate()
    bytes_ = open(pcap, "rb").read()
    hits = {what: sum(piece in bytes_ for piece in pieces) for what, pieces in wanted.items()}
    print(f"{name}: {len(bytes_)} bytes recorded; found: " +
          ", ".join(f"{what} {hits[what]} of {len(wanted[what])}" for what in wanted), flush=True)
    return hits


secret = f"{folder}/secret"
sh(f"{build}/troupe secret {secret}")
for machine in "ab":
    subprocess.run(["ip", "netns", "del", f"troupe-{machine}"], stderr=subprocess.DEVNULL)
    sh(f"ip netns add troupe-{machine} && ip -n troupe-{machine} link set lo up")
try:
    sh("ip link add veth-a netns troupe-a type veth peer name veth-b netns troupe-b")
    for machine, address in (("a", "10.78.0.1/24"), ("b", "10.78.0.2/24")):
        sh(f"ip -n troupe-{machine} addr add {address} dev veth-{machine} && ip -n troupe-{machine} link set veth-{machine} up")
    encrypted = run("encrypted", [])
    control = run("insecure", ["--insecure"])
finally:
    for machine in "ab":
        sh(f"ip netns del troupe-{machine}")
readable = ("a task's name", "a flag's name", "parameters")
sys.exit(any(encrypted.values()) or not all(control[what] for what in readable) or control["the secret"] > 0)
