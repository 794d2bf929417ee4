#!/usr/bin/env python3
"""All-reduce of float32 on one machine: Troupe's group over every transport, c10d over Gloo in the same
processes, an MPI library where one is installed, and the limits of the machine, in the same rounds.

    bench/all_reduce.py [--ranks 2 3 4] [--build build/release] [--json build/release/bench/all_reduce.json]
    bench/all_reduce.py --rate 10gbit    two ranks over a link of this rate, as root: TCP and TLS alone

Sums are checked first: every engine's, value by value, and Troupe's are the same bits on every transport."""

import contextlib
import json
import os
import shutil
import sys

import ensemble
import namespaces
import trainings

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4, KIB, 16 * KIB, 128 * KIB, MIB, 8 * MIB, 64 * MIB, 256 * MIB)
OURS = ("tcp", "tcp_unsummed", "tls", "unix_socket", "shared_memory", "in_place", "automatic")
MPI = {"mpi_tcp": ["--mca", "btl", "tcp,self"], "mpi_default": []}
LABELS = {"tcp": "Troupe, TCP", "unix_socket": "Troupe, Unix socket", "shared_memory": "Troupe, shared memory",
          "in_place": "Troupe, in place", "automatic": "Troupe, automatic", "tcp_unsummed": "Troupe, TCP, no checksums",
          "tls": "Troupe, TLS", "gloo": "Gloo", "mpi_tcp": "MPI, TCP",
          "mpi_default": "MPI, default", "memcpy": "memcpy", "one_way_tcp": "one way, TCP",
          "duplex_tcp": "both ways, TCP", "duplex_unix": "both ways, Unix",
          "aes_gcm": "AES-128-GCM"}
COMPARED = (("gloo", "tcp"), ("gloo", "unix_socket"), ("gloo", "shared_memory"), ("gloo", "in_place"),
            ("gloo", "automatic"), ("mpi_tcp", "tcp"), ("mpi_default", "automatic"), ("duplex_tcp", "tcp"),
            ("tcp", "tcp_unsummed"), ("tls", "tcp"), ("aes_gcm", "tls"))
MOST_REPETITIONS = 5000


def rounds_of(size, ranks, options):
    """Fewer for large sizes and many ranks, whose calls are long enough to tell apart."""
    if options.smoke:
        return 2
    rounds = 15 if size <= MIB else 9 if size <= 64 * MIB else 5
    return options.rounds or (rounds if ranks == 2 else rounds // 2 + 1)


def start_ranks(stage, program, ranks, most_bytes, machines):
    """machines: the namespace of each rank, or nothing where they meet over loopback."""
    folder = stage.folder / f"ranks{ranks}"
    folder.mkdir()
    count = 5  # of groups: one listening socket each
    listeners = [] if machines else [ensemble.listening_socket() for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners] or [20000 + number for number in range(count)]
    commands = []
    for rank in range(ranks):
        fds = [listener.fileno() for listener in listeners] if rank == 0 and listeners else [-1] * count
        place = {"rank": rank, "ranks": ranks, "ports": ports, "listen_fds": fds,
                 "address": namespaces.ADDRESSES[0] if machines else "", "folder": str(folder), "most_bytes": most_bytes}
        inside = ["ip", "netns", "exec", machines[rank]] if machines else []
        commands.append(ensemble.Command([*inside, program, json.dumps(place)], fds if rank == 0 and listeners else ()))
    started = stage.start(f"{ranks} ranks", commands)
    for listener in listeners:
        listener.close()
    return started


def start_mpi(stage, build, ranks):
    """By engine; none where this build found no MPI library."""
    program = build / "bench/mpi_all_reduce"
    if not os.access(program, os.X_OK) or shutil.which("mpirun") is None:
        return {}
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return {name: stage.start(name, [ensemble.Command(
                ["mpirun", *as_root, "--oversubscribe", "--bind-to", "none", *flags, "-n", ranks, program])], ranks)
            for name, flags in MPI.items()}


class Contest:
    """All engines of one number of ranks."""

    def __init__(self, stage, options, ranks, sizes):
        self.ranks = ranks
        here = start_ranks(stage, trainings.need(options.build / "bench/bench_all_reduce"), ranks, max(sizes),
                           options.machines)
        self.mpi = {} if options.engines or options.machines else start_mpi(stage, options.build, ranks)
        stage.ready()
        self.gloo = here.hello[0]["gloo"]
        self.engines = {name: here for name in here.hello[0]["engines"]}
        self.engines.update(self.mpi)
        if options.engines:
            self.engines = {name: where for name, where in self.engines.items() if name in options.engines}

    def check(self, size):
        digests = {}
        for name, where in self.engines.items():
            if LABELS[name].startswith(("Troupe", "Gloo", "MPI")):
                digests[name] = [answer["digest"] for answer in where.ask("check", name, size)]
        ours = {digest for name in OURS for digest in digests.get(name, ())}
        if len(ours) != 1:
            raise trainings.Failed(f"sums of {size} bytes differ in bits between transports or ranks: {digests}")

    def measure(self, size, options):
        self.check(size)
        block = 0.002 if options.smoke else 0.02
        ways, repetitions = [], {}
        for name, where in self.engines.items():
            once = where.slowest("time", name, size, 20 if size <= 16 * KIB else 1)
            repetitions[name] = max(1, min(MOST_REPETITIONS, int(block / once)))
            ways.append((name, lambda name=name, where=where: where.slowest("time", name, size, repetitions[name])))
        seconds, stolen = ensemble.measure(ways, rounds_of(size, self.ranks, options),
                                           0 if options.smoke else trainings.RETAKES)
        return {"bytes": size, "repetitions": repetitions, "seconds": seconds, "stolen_percent": stolen}

    def end(self):
        for where in {id(where): where for where in self.engines.values()}.values():
            where.end()


def contest_of(ranks, options, introduce):
    """The results of all sizes; `introduce` is told the contest once it stands."""
    with ensemble.Stage() as stage:
        contest = Contest(stage, options, ranks, options.sizes)
        introduce(contest)
        results = []
        for size in options.sizes:
            print(f"{ranks} ranks, {ensemble.bytes_text(size)}", file=sys.stderr)
            results.append(contest.measure(size, options))
        contest.end()
        return results


def results_of(ranks, options, introduce):
    """contest_of(), once more from the start where an MPI library failed: Open MPI over TCP has stopped answering
    here, with four ranks at 64 MiB. Our own failures end the benchmark."""
    try:
        return contest_of(ranks, options, introduce)
    except trainings.Failed as failure:
        if not str(failure).startswith(tuple(f"'{name}'" for name in MPI)):
            raise
        print(f"\n{ranks} ranks, measured again from the start: {str(failure).splitlines()[0]}")
        return contest_of(ranks, options, lambda contest: None)


def rate(size, seconds):
    return f"{size / trainings.summary_of(seconds)['median'] * 1e-9:.2f}"


def print_tables(ranks, results):
    names = [name for name in LABELS if name in results[0]["seconds"]]
    halves = [[name for name in names if name in OURS], [name for name in names if name not in OURS]]
    print(f"\nTime of a call, {ranks} ranks: median [min-max] of the rounds. "
          f"{ensemble.stolen_line([result['stolen_percent'] for result in results])}")
    for half in filter(None, halves):
        print()
        trainings.print_table(["size", *(LABELS[name] for name in half)], [
            [ensemble.bytes_text(result["bytes"]), *(ensemble.time_text(result["seconds"][name]) for name in half)]
            for result in results])
    large = [result for result in results if result["bytes"] >= MIB]
    if large:
        print("\nGB/s: size / median time\n")
        trainings.print_table(["size", *(LABELS[name] for name in names)], [
            [ensemble.bytes_text(result["bytes"]), *(rate(result["bytes"], result["seconds"][name])
                                                     for name in names)] for result in large])
    pairs = [pair for pair in COMPARED if set(pair) <= set(names)]
    print("\nTime of the first / time of Troupe: median [min-max] of the rounds' ratios\n")
    trainings.print_table(["size", *(f"{LABELS[other]} / {LABELS[ours]}" for other, ours in pairs)], [
        [ensemble.bytes_text(result["bytes"]),
         *(ensemble.range_text(ensemble.ratios(result["seconds"][other], result["seconds"][ours]), "x")
           for other, ours in pairs)] for result in results])


def main():
    parser = trainings.parser_for(__doc__.split("\n", maxsplit=1)[0])
    parser.set_defaults(rounds=0)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4], help="processes")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes, multiples of 4")
    parser.add_argument("--engines", nargs="+", choices=tuple(LABELS), help="measure these alone; without MPI")
    parser.add_argument("--rate", help="of a link between two network namespaces, \"10gbit\"; two ranks, as root")
    options = parser.parse_args()
    if options.rate:
        options.ranks = [2]
    if options.smoke:
        options.ranks = options.ranks[:2]
        options.sizes = [4, KIB, 128 * KIB, MIB]
    if any(size < 4 or size % 4 for size in options.sizes) or min(options.ranks) < 2:
        print("bench: error: --sizes are multiples of 4, --ranks are 2 or more.", file=sys.stderr)
        sys.exit(2)
    program = trainings.need(options.build / "bench/bench_all_reduce")
    facts = json.loads(trainings.output_of([program, "--facts"]))
    report = {"benchmark": "all_reduce", "machine": facts, "ranks": []}

    def introduce(contest):
        if report["ranks"]:
            return
        print(f"## All-reduce, float32\n\n{trainings.machine_line(facts)}\n\nGloo: {contest.gloo}")
        if options.rate:
            print(f"a link of {options.rate} each way between two network namespaces of this machine")
        for name, where in contest.mpi.items():
            print(f"{LABELS[name]}: {where.hello[0]['library']}, mpirun {' '.join(MPI[name])}")
        if not contest.mpi:
            print("MPI: not in this build")

    with namespaces.joined(options.rate) if options.rate else contextlib.nullcontext(()) as options.machines:
        for ranks in options.ranks:
            results = results_of(ranks, options, introduce)
            print_tables(ranks, results)
            sys.stdout.flush()
            report["ranks"].append({"ranks": ranks, "results": results})
    trainings.write_json(options.json, report)


trainings.run_main(main)
