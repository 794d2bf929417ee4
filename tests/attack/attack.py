#!/usr/bin/env python3
"""Attacks a group from outside, before and during its training, and says what it cost.

    tests/attack/attack.py BUILD_FOLDER [--address 127.0.0.1] [--as-nobody] [--servers] [--rounds 5] [--part crowd|rate]

Prints a line for each promise of docs/security.md and ends with 1 if one does not hold. With an
address outside loopback the group is encrypted. --as-nobody: the attacker is another Unix user.

The attacker takes its share of the same cores. What the group loses beyond that shows beside a third run: the
same flood against a program that only accepts and closes.
"""
import argparse, json, os, random, re, signal, socket, statistics, subprocess, sys, tempfile, threading, time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build")
parser.add_argument("--address", default="127.0.0.1")
parser.add_argument("--as-nobody", action="store_true")
parser.add_argument("--servers", action="store_true", help="parameter servers, not an all-reduce group")
parser.add_argument("--rounds", type=int, default=5, help="interleaved runs with and without a flood")
parser.add_argument("--part", choices=("crowd", "rate"), help="the promises about crowds and joins, or about floods; else both")
args = parser.parse_args()
encrypted = not args.address.startswith("127.")
folder = tempfile.mkdtemp(prefix="troupe-attack-")
os.chmod(folder, 0o755)
random.seed(1)


def secret_file(name):
    path = os.path.join(folder, name)
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(os.urandom(32))
    return path


RIGHT, WRONG = secret_file("right"), secret_file("wrong")
held = True


def say(promise, holds, figures):
    global held
    held = held and holds
    print(f"{'holds' if holds else 'FAILS':6} {promise}: {figures}", flush=True)


def free_ports(count):
    sockets = [socket.create_server((args.address, 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Task:
    """One process of the job."""

    def __init__(self, flags, program="examples/mnist", user=None):
        wrap = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        self.log = tempfile.TemporaryFile("w+")
        self.run = subprocess.Popen(wrap + [f"{args.build}/{program}", *flags], stdout=subprocess.PIPE,
                                    stderr=self.log, text=True, start_new_session=True)

    def end(self, limit=120):
        try:
            out, _ = self.run.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(self.run.pid, signal.SIGKILL)
            out, _ = self.run.communicate()
        self.log.seek(0)
        self.lines = self.log.read()
        return self.run.returncode, out

    def rss_kb(self):
        with open(f"/proc/{self.run.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])

    def sockets(self):
        """Inodes of its open sockets."""
        found = set()
        for fd in os.listdir(f"/proc/{self.run.pid}/fd"):
            try:
                name = os.readlink(f"/proc/{self.run.pid}/fd/{fd}")
            except OSError:
                continue
            if name.startswith("socket:["):
                found.add(name[8:-1])
        return found

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.run.pid}/fd"))

    def doors(self):
        """Where it listens: (host, port), and abstract Unix names."""
        mine, doors = self.sockets(), []
        with open("/proc/net/tcp") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in mine:
                    doors.append((args.address, int(fields[1].split(":")[1], 16)))
        with open("/proc/net/unix") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if len(fields) == 8 and fields[6] in mine and fields[7].startswith("@"):
                    doors.append("\0" + fields[7][1:])
        return doors


def flags_of(rank, ports, more=(), secret=RIGHT, world=2, patience=300):
    flags = ["--secret-file", secret, "--start-timeout", str(patience), "--heartbeat-timeout", "5", "--json-summary",
             "--train-examples", "2000", "--batch-size", "100", "--seed", "1", *more]
    if args.servers:
        servers = ",".join(f"{args.address}:{port}" for port in ports)
        flags += ["--strategy", "parameter-server", "--staleness-bound", "0", "--servers", servers,
                  "--world-size", str(world)]
        return flags + (["--rank", str(rank)] if rank >= 0 else ["--task", f"ps:{-1 - rank}"])
    return flags + ["--transport", "tcp", "--rank", str(rank), "--world-size", str(world),
                    "--chief-address", f"{args.address}:{ports[0]}"]


class Job:
    """Two workers, and two servers where --servers says so; started apart."""

    def __init__(self, more=()):
        self.ports, self.more = free_ports(2 if args.servers else 1), more
        ranks = [-1, -2, 0] if args.servers else [0]
        self.tasks = [Task(flags_of(rank, self.ports, more)) for rank in ranks]
        for port in self.ports:
            wait_for_port(port)

    def add_worker(self):
        self.tasks.append(Task(flags_of(1, self.ports, self.more)))

    def end(self, limit=300):
        return [task.end(limit) for task in self.tasks]

    def doors(self):
        return [door for task in self.tasks for door in task.doors()]


def connect(door, limit=5.0):
    s = socket.socket(socket.AF_UNIX if isinstance(door, str) else socket.AF_INET)
    s.settimeout(limit)
    s.connect(door)
    return s


def wait_for_port(port):
    for _ in range(600):
        try:
            return connect((args.address, port)).close()
        except OSError:
            time.sleep(0.05)
    sys.exit("the group does not listen")


def garbage():
    noise = random.randbytes(random.choice([1, 7, 64, 112, 128, 300, 4096]))
    return random.choice([
        noise, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"SSH-2.0-x\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise,
        b"TRUP" + noise, b"TRUP\x03\x00" + noise, b"TRUP\x02\x00\x01" + b"\0" * 37 + b"\xff" * 20, b"{" * 100, b""])


def send_garbage(door):
    try:
        with connect(door) as s:
            s.sendall(garbage())
            s.shutdown(socket.SHUT_WR)
            while s.recv(4096):
                pass
    except OSError:
        pass


def measure(job):
    """Memory of those that listen, once none grows by itself any more: a process that has just started does."""
    before = None
    for _ in range(40):
        now = [task.rss_kb() for task in job.tasks if task.doors()]
        if now == before:
            break
        before = now
        time.sleep(0.5)
    return now


def in_attacker(work):
    """Runs `work` as whoever attacks, and waits."""
    pid = os.fork()
    if pid == 0:
        if args.as_nobody:
            os.setgroups([]), os.setgid(65534), os.setuid(65534)
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def crowd(job, doors):
    """1,000 idle connections and 10,000 of garbage; what they cost."""
    before, most = measure(job), [task.descriptors() for task in job.tasks]
    stop = threading.Event()

    def watch():
        while not stop.wait(0.02):
            for i, task in enumerate(job.tasks):
                most[i] = max(most[i], task.descriptors())
    start = [task.descriptors() for task in job.tasks]
    watcher = threading.Thread(target=watch)
    watcher.start()

    def idle():
        waiting = []
        for i in range(1000):
            try:
                waiting.append(connect(doors[i % len(doors)]))
            except OSError:
                pass
        time.sleep(0.5)
    in_attacker(idle)
    in_attacker(lambda: [send_garbage(doors[i % len(doors)]) for i in range(1000)])
    first = measure(job)
    in_attacker(lambda: [send_garbage(doors[i % len(doors)]) for i in range(9000)])
    last = measure(job)
    stop.set()
    watcher.join()
    return ([b - a for a, b in zip(before, first)], [b - a for a, b in zip(first, last)],
            [m - s for m, s in zip(most, start)])


def wrong_joins(job, count=200):
    """Workers with another secret, ten at a time; how many of them got in."""
    user = 65534 if args.as_nobody else None
    wrong = WRONG
    if user:
        wrong = os.path.join(folder, "nobody")
        subprocess.run(["install", "-m", "600", "-o", "nobody", WRONG, wrong], check=True)
    # Whoever gets as far as its terms is told that they differ; most need no LibTorch for that.
    program, flags = "tests/process/transport_worker", [
        "--secret-file", wrong, "--start-timeout", "1", "--transport", "tcp", "--rank", "1", "--world-size", "2",
        "--chief-address", f"{args.address}:{job.ports[0]}"]
    if args.servers:
        program, flags = "examples/mnist", flags_of(1, job.ports, job.more, wrong, patience=1)
    told = 0
    for _ in range(count // 10):
        for task in [Task(flags, program, user) for _ in range(10)]:
            task.end(60)
            told += "did not prove" not in task.lines and "another secret" not in task.lines
    return told, count


def record_of_a_join():
    """The bytes that a worker sends when it joins, by a proxy that passes them on."""
    job = Job(["--max-steps", "3"])
    proxy = socket.create_server((args.address, 0))
    seen = bytearray()

    def pump(source, sink, keep):
        try:
            while data := source.recv(65536):
                if keep is not None:
                    keep += data
                sink.sendall(data)
        except OSError:
            pass
        sink.close()

    def serve():
        while True:
            try:
                inner, _ = proxy.accept()
            except OSError:
                return
            outer = connect((args.address, job.ports[0]), None)
            for a, b, keep in ((inner, outer, seen), (outer, inner, None)):
                threading.Thread(target=pump, args=(a, b, keep), daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
    worker = Task(flags_of(1, [proxy.getsockname()[1]], ["--max-steps", "3"]))
    time.sleep(3)
    os.killpg(worker.run.pid, signal.SIGKILL)
    worker.end()
    for task in job.tasks:
        os.killpg(task.run.pid, signal.SIGKILL)
        task.end()
    proxy.close()
    return bytes(seen)


def replay(doors, record):
    for door in doors:
        for length in (len(record), 112, 128, 176):
            try:
                with connect(door) as s:
                    s.sendall(record[:length])
                    s.settimeout(0.5)
                    while s.recv(4096):
                        pass
            except OSError:
                pass


def summary(ends):
    lines = [line for _, out in ends for line in out.splitlines() if line.startswith("{")]
    return json.loads(lines[0]) if lines else {}


STEPS = ["--max-steps", "400", "--epochs", "1000"]
limit_kb = 6 * 1024 if encrypted else 1024


def attack(when, job):
    doors = job.doors()
    say(f"{when}: doors", bool(doors), f"{len(doors)} listening sockets: " +
        ", ".join(d if isinstance(d, str) else str(d[1]) for d in doors).replace("\0", "@"))
    grown, flat, descriptors = crowd(job, doors)
    if when == "before":
        say(f"{when}: memory for the first 2,000 connections", max(grown) <= limit_kb, f"{grown} KB, limit {limit_kb}")
        say(f"{when}: memory from the 2,000th connection to the 11,000th", max(flat) <= 256, f"{flat} KB, limit 256")
    per_door = max(1, len(doors) // len(job.tasks))
    say(f"{when}: descriptors", max(descriptors) <= 64 * per_door + 2, f"{descriptors} more than at rest")
    told, count = wrong_joins(job)
    say(f"{when}: joins with a wrong secret", told == 0, f"{told} of {count} were told more than that it is wrong")


reference = Job(STEPS)
reference.add_worker()
ends = reference.end()
expected = summary(ends).get("parameter_hash")
say("undisturbed run", expected is not None and all(code == 0 for code, _ in ends), f"{expected}")

def crowd_part():
    record = record_of_a_join() if not args.servers else b""
    job = Job(STEPS)
    attack("before", job)
    in_attacker(lambda: replay(job.doors(), record))
    started = time.time()
    job.add_worker()
    # Servers say nothing of a worker that joins; but until there are two, the chief does not get past its first step.
    log, sign = (job.tasks[-2].log, "step = 1") if args.servers else (job.tasks[-1].log, "joined")
    while sign not in open(f"/proc/self/fd/{log.fileno()}").read() and time.time() - started < 30:
        if job.tasks[-1].run.poll() is not None or len(job.tasks[-1].doors()) > 0:
            break
        time.sleep(0.02)
    took = time.time() - started
    say("before: a real worker joins", took < 3 + 2, f"{took:.1f} s after its start, LibTorch's loading included" +
        (", and its first step" if args.servers else ""))
    ends = job.end()
    say("before: the group's end", all(code == 0 for code, _ in ends) and summary(ends).get("parameter_hash") == expected,
        f"codes {[code for code, _ in ends]}, hash {'equal' if summary(ends).get('parameter_hash') == expected else 'OTHER'}")

    LONG = ["--max-steps", "1000000000", "--epochs", "1000000000"]
    job = Job(LONG)
    job.add_worker()
    time.sleep(4)
    attack("during", job)
    in_attacker(lambda: replay(job.doors(), record))
    second = Task(flags_of(1, job.ports, LONG, patience=5))
    code, _ = second.end(60)
    say("during: a second worker/1 with the right secret", code in (2, 138) and "worker/1" in second.lines, f"exit code {code}")
    alive = all(task.run.poll() is None for task in job.tasks)
    say("during: the group goes on", alive, f"{[task.run.poll() for task in job.tasks]}")
    for task in job.tasks:
        os.killpg(task.run.pid, signal.SIGKILL)
        task.end()


def bystander():
    """A program that only accepts and closes: its process and port."""
    listener = socket.create_server((args.address, 0), backlog=1024)
    pid = os.fork()
    if pid == 0:
        while True:
            listener.accept()[0].close()
    port = listener.getsockname()[1]
    listener.close()
    return pid, port


def flooded(rate, ports=None):
    """The summary of a training under `rate` connections a second (None: as many as go) to `ports`, else the job's."""
    job = Job(STEPS)
    job.add_worker()
    attackers = []
    if rate != 0:
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            if args.as_nobody:
                os.setgroups([]), os.setgid(65534), os.setuid(65534)
            start, sent = time.time(), 0
            while time.time() - start < 300:
                if rate and sent > rate * (time.time() - start):
                    time.sleep(0.002)
                    continue
                sent += 1
                try:
                    with connect((args.address, (ports or job.ports)[sent % len(ports or job.ports)])) as s:
                        s.sendall(garbage())
                except OSError:
                    pass
            os._exit(0)
        attackers.append(pid)
    ends = job.end()
    for pid in attackers:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return summary(ends), [code for code, _ in ends]


def rate_part():
    of_group, of_bystander = [], []
    pid, port = bystander()
    same = True
    for _ in range(args.rounds):
        quiet, _ = flooded(0)
        loud, _ = flooded(200)
        beside, _ = flooded(200, [port])
        of_group.append(loud.get("examples_per_sec", 0) / quiet["examples_per_sec"])
        of_bystander.append(beside["examples_per_sec"] / quiet["examples_per_sec"])
        same = same and loud.get("parameter_hash") == expected
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    def text(ratios):
        return f"median {statistics.median(ratios):.3f} [{min(ratios):.3f} - {max(ratios):.3f}]"
    own = [group / beside for group, beside in zip(of_group, of_bystander)]
    # The attacker takes its share of the cores whatever it floods: beyond that, the group may lose 5 %.
    say("200 connections a second", same and statistics.median(own) >= 0.95,
        f"rate over the undisturbed one, {args.rounds} interleaved runs: {text(of_group)}; the same flood at a program "
        f"that only accepts and closes: {text(of_bystander)}; the first over the second: {text(own)}; hash "
        f"{'equal' if same else 'OTHER'}")
    loud, codes = flooded(None)
    say("an unbounded flood", loud.get("parameter_hash") == expected and not any(codes),
        f"codes {codes}, hash {'equal' if loud.get('parameter_hash') == expected else 'OTHER'}")


if args.part != "rate":
    crowd_part()
if args.part != "crowd":
    rate_part()
sys.exit(not held)
