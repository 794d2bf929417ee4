#!/usr/bin/env python3
"""What the records of a run and --status cost: examples per second of examples/mnist that writes them, without and
with a live page open and /metrics asked for every second, against one that writes nothing. Each round has one training
of each kind, in changing order. Throughput scatters more than the page can cost, so the processor time of the page's
thread is said, too.

    bench/live_page.py [--data-dir mnist] [--build build/release] [--rounds 10] [--json build/release/bench/live_page.json]

The page's reader takes the events as a browser does and draws nothing: the browser usually has another machine."""

import dataclasses
import os
import pathlib
import socket
import tempfile
import threading
import time
import urllib.request

import trainings

POLL_SECONDS = 1


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Watcher:
    """Reads the live page's events, and asks for the metrics every second, until the training is over."""

    def __init__(self, port):
        self.bytes = self.scrapes = 0
        self.busy = self.elapsed = 0.0  # seconds: the page's thread, and its process, when last looked at
        self._address = f"http://127.0.0.1:{port}/"
        self._port = str(port).encode()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=loop) for loop in (self._read, self._ask)]
        for thread in self._threads:
            thread.start()

    def _open(self, page):
        return urllib.request.urlopen(self._address + page, timeout=30)

    def _read(self):
        while not self._over.wait(0.05):
            try:
                with self._open("events") as events:
                    for line in events:
                        self.bytes += len(line)
                return
            except OSError:  # it does not listen yet
                continue

    def _ask(self):
        while not self._over.wait(POLL_SECONDS):
            try:
                with self._open("metrics") as metrics:
                    self.scrapes += metrics.read().startswith(b"# HELP troupe_")
                self._look()
            except OSError:
                continue

    def _look(self):
        """The times of the thread that is called so, in the process that was started with this port."""
        for comm in pathlib.Path("/proc").glob("[0-9]*/task/[0-9]*/comm"):
            try:
                process = comm.parents[2]
                if comm.read_text() != "live page\n" or self._port not in (process / "cmdline").read_bytes().split(b"\0"):
                    continue
                ticks = (comm.parent / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:  # it has ended
                continue
            tick = os.sysconf("SC_CLK_TCK")
            self.busy = (int(ticks[11]) + int(ticks[12])) / tick
            self.elapsed = time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks[19]) / tick

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join()


@dataclasses.dataclass(frozen=True)
class Row:
    label: str
    recorded: bool
    watched: bool


def measure(command, row):
    if not row.recorded:
        return trainings.train(command)
    with tempfile.TemporaryDirectory(prefix="troupe-live-") as folder:
        command = command + ["--model-dir", folder]
        if not row.watched:
            return trainings.train(command)
        port = free_port()
        watcher = Watcher(port)
        try:
            summary = trainings.train(command + ["--status", str(port)])
        finally:
            watcher.end()
        if watcher.scrapes == 0 or watcher.bytes == 0:
            raise trainings.Failed(f"nobody watched: {watcher.bytes} bytes of events, {watcher.scrapes} scrapes")
        return summary | {"event_bytes": watcher.bytes, "scrapes": watcher.scrapes, "share": watcher.busy / watcher.elapsed}


def main():
    parser = trainings.parser_for(__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data-dir", default="synthetic", help="MNIST's four files [generated digits]")
    parser.add_argument("--steps", type=int, default=1500, help="of every training")
    parser.add_argument("--batch-size", type=int, default=64, help="examples of a step")
    options = parser.parse_args()
    if options.smoke:
        options.rounds = 1
    mnist = trainings.need(options.build / "examples/mnist")
    facts = trainings.machine_facts(mnist)
    command = [mnist, "--batch-size", str(options.batch_size), "--max-steps", str(options.steps), "--data-dir",
               options.data_dir, "--log-every", "0", "--save-every", "0"]
    rows = [Row("nothing", False, False), Row("records, for troupe report", True, False),
            Row("records, a live page open, /metrics every second", True, True)]
    results, stolen = trainings.interleaved(rows, options.rounds, lambda row: measure(command, row))
    rates = [[summary["examples_per_sec"] for summary in summaries] for summaries in results]
    ratios = [[rate / without for without, rate in zip(rates[0], those)] for those in rates]
    scrapes = sum(summary["scrapes"] for summary in results[2])
    print(f"{options.steps} steps of {options.batch_size} examples, data {options.data_dir}, {options.rounds} rounds, "
          f"{scrapes} scrapes: median [min-max]; {facts['cpu']}, {facts['usable_cores']} cores\n")
    trainings.print_table(["written and shown", "examples/s", "ratio"],
                          [[row.label, trainings.range_text(rate, ".0f"), trainings.range_text(ratio, ".3f")]
                           for row, rate, ratio in zip(rows, rates, ratios)])
    shares = [100 * summary["share"] for summary in results[2]]
    print(f"\nprocessor time of the page's thread: {trainings.range_text(shares, '.2f')} % of the training's time")
    trainings.write_json(options.json, {"benchmark": "live_page", "machine": facts, "command": command,
                                        "stolen": stolen, "ratios": [trainings.summary_of(those) for those in ratios], "rates": rates,
                                        "shares": shares})


trainings.run_main(main)
