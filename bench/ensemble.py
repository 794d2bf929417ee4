"""Ensembles: processes that measure one thing each and wait, asleep, until it is their turn. A benchmark
starts all of them first and then asks one after the other, round by round, so that whatever else the
machine does meets them all. The processes connect to a Unix socket that the variable BENCH_CONTROL names, say who
they are in a line of JSON, read a line for each request, and answer each with a line of JSON."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import trainings

START_SECONDS = 120  # until the processes of one ensemble are ready
ANSWER_SECONDS = 120
END_SECONDS = 30


class Stage:
    """A scratch folder, and every ensemble that was started in it: none is left behind."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-bench-"))
        self._ensembles = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for ensemble in self._ensembles:
            ensemble.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name, commands, count=None, **variables):
        """Starts `commands`; together they are `count` processes (one each) that connect, see ready()."""
        ensemble = Ensemble(self.folder / f"{len(self._ensembles)}", name, commands, count or len(commands),
                            variables)
        self._ensembles.append(ensemble)
        return ensemble

    def ready(self):
        """Returns when every process of every ensemble is."""
        for ensemble in self._ensembles:
            ensemble.meet()


class Ensemble:
    def __init__(self, folder, name, commands, count, variables):
        folder.mkdir()
        self.name = name
        self.hello = []  # by rank
        self._folder = folder
        self._count = count
        self._processes = []
        self._streams = []  # by rank
        control = str(folder / "control")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(control)
        self._listener.listen(count)
        self._listener.settimeout(0.2)
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("TROUPE_", "MALLOC_", "GLIBC_TUNABLES"))}
        environment.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", BENCH_CONTROL=control, **variables)
        for number, command in enumerate(commands):
            with open(folder / f"{number}.log", "wb") as log:
                self._processes.append(subprocess.Popen(
                    list(map(str, command.words)), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env=environment, pass_fds=command.descriptors, start_new_session=True))

    def meet(self):
        """Returns when all processes have said who they are."""
        greeted = []
        deadline = time.monotonic() + START_SECONDS
        while not self.hello and len(greeted) < self._count:
            try:
                connection, _ = self._listener.accept()
            except socket.timeout:
                if any(process.poll() is not None for process in self._processes):
                    self._fail("ended before it was ready")
                if time.monotonic() > deadline:
                    self._fail(f"was not ready within {START_SECONDS} s")
                continue
            connection.settimeout(ANSWER_SECONDS)
            stream = connection.makefile("rw")
            connection.close()  # the stream keeps it
            greeted.append((self._read(stream), stream))
        if greeted:
            greeted.sort(key=lambda pair: pair[0]["rank"])
            self.hello = [hello for hello, _ in greeted]
            self._streams = [stream for _, stream in greeted]
            self._listener.close()

    def ask(self, *words):
        """The same request to all at once; their answers by rank."""
        for stream in self._streams:
            try:
                stream.write(" ".join(map(str, words)) + "\n")
                stream.flush()
            except OSError:
                self._fail(f"left before '{words[0]}'")
        return [self._read(stream) for stream in self._streams]

    def slowest(self, *words):
        """Seconds of the one that took longest."""
        return max(answer["seconds"] for answer in self.ask(*words))

    def end(self):
        """Their farewells by rank, when all have left."""
        farewells = self.ask("end")
        for process in self._processes:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._fail(f"did not end within {END_SECONDS} s")
            if process.returncode != 0:
                self._fail(f"ended with {process.returncode}")
        return farewells

    def kill(self):
        self._listener.close()
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.close()
        for process in self._processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _read(self, stream):
        try:
            line = stream.readline()
            return json.loads(line)
        except (OSError, ValueError):
            return self._fail("did not answer")

    def _fail(self, what):
        time.sleep(0.5)  # for the last words of those that are ending
        logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(self._folder.glob("*.log")))
        raise trainings.Failed(f"'{self.name}' {what}. It wrote:\n{logs}")


class Command:
    """Words of a command line, and the descriptors that its process inherits."""

    def __init__(self, words, descriptors=()):
        self.words = words
        self.descriptors = descriptors


def listening_socket():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    return listener


def one_round(ways, number):
    return {name: way() for name, way in trainings.shuffled(ways, number)}


def measure(ways, rounds, retakes=trainings.RETAKES):
    """ways: (name, function that gives seconds). By name the seconds of every round; every round does all ways.
    And what trainings.quietest() says of the rounds."""
    kept, stolen = trainings.quietest(rounds, retakes, lambda number: one_round(ways, number))
    return {name: [result[name] for result in kept] for name, _ in ways}, stolen


def stolen_line(reports):
    """About all rounds of some calls of trainings.quietest()."""
    kept = [percent for report in reports for percent in report["kept"]]
    taken = [percent for report in reports for percent in report["taken"]]
    return (f"Others, the machine's host among them, took {range_text(kept, ' %')} of the processors' time in the {len(kept)} rounds shown; "
            f"of {len(taken)} that were measured ({range_text(taken, ' %')}) they took least in these.")


def number_text(value):
    size = abs(value)
    return f"{value:.2f}" if size < 10 else f"{value:.1f}" if size < 100 else f"{value:.0f}"


def range_text(values, unit=""):
    """"3.98x [3.61-4.10]": median, smallest, largest."""
    whole = trainings.summary_of(values)
    between = " to " if whole["min"] < 0 else "-"
    return (f"{number_text(whole['median'])}{unit} [{number_text(whole['min'])}{between}"
            f"{number_text(whole['max'])}]")


def time_text(seconds):
    long_ones = trainings.summary_of(seconds)["median"] >= 1e-3
    return range_text([value * (1e3 if long_ones else 1e6) for value in seconds], " ms" if long_ones else " us")


def ratios(numerators, denominators):
    """Round by round: both were measured in the same rounds."""
    return [above / below for above, below in zip(numerators, denominators)]


def bytes_text(count):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"
