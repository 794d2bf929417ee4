#!/usr/bin/env python3
"""Does what docs/tutorial.md says, as its reader would, and compares what the commands print with the page.

follow.py PAGE FOLDER BIN: works in FOLDER, which it makes anew, with BIN, the installed tool's folder, first in PATH.

```sh            commands, run in order in one shell; any that fails ends the test
```bash          what the caller has done already (building and installing Troupe)
```console       needs what a test machine lacks; named, not run
```text          lines that the block before prints, in this order, numbers aside, others between them; a line that ends
                 in ` ...` goes on, and a line `...` says to the reader that lines are left out
```cpp, ```json  the content of the file that the line before names in backticks
"""

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import time

BLOCK_SECONDS = 400
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def fail(message):
    sys.exit(f"follow.py: {message}")


def blocks(page):
    """(language, text, the line before) of each fenced block."""
    found = []
    for match in FENCE.finditer(page):
        before = page[: match.start()].rstrip().rsplit("\n", 1)[-1]
        found.append((match[1], match[2], before))
    return found


def plain(line):
    """A line without its time, numbers and hashes; exit codes stay."""
    line = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z ", "", line.strip())
    if "exit code" not in line:
        line = re.sub(r"\b(?=\d*[a-f])[0-9a-f]{8,}\b", "#", line)
        line = re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", line)
    return re.sub(r"\s+", " ", line)


def compare(shown, printed):
    """Every shown line, in order, among the printed ones."""
    lines = iter([plain(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        wanted = plain(line)
        if wanted == "...":
            continue
        begins = wanted[: -len(" ...")] if wanted.endswith(" ...") else None
        if not any(found.startswith(begins) if begins else found == wanted for found in lines):
            fail(f"the page shows\n  {line}\nat its place the commands printed\n{printed}")


class Shell:
    """One bash for the whole page: its folder, variables and background jobs live on."""

    def __init__(self, folder, tool_folder):
        environment = dict(os.environ, PATH=tool_folder + ":" + os.environ["PATH"])
        for name in list(environment):
            if name.startswith("TROUPE_") or name == "TF_CONFIG":
                del environment[name]
        self.record = folder + ".record"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(self.record, ignore_errors=True)
        os.makedirs(folder)
        os.makedirs(self.record)
        self.bash = subprocess.Popen(["bash"], cwd=folder, env=environment, text=True, bufsize=1,
                                     stdin=subprocess.PIPE, start_new_session=True)
        atexit.register(self.end)  # whatever the page left in the background ends with it
        self.bash.stdin.write("trap 'echo \"failed, $?: $BASH_COMMAND\"; exit 1' ERR\n")
        self.blocks = 0
        self.folder = folder

    def run(self, commands):
        """What the commands print on both streams."""
        self.blocks += 1
        base = os.path.join(self.record, str(self.blocks))
        with open(base + ".sh", "w") as script:
            script.write(commands)
        self.bash.stdin.write(f". {base}.sh > {base}.out 2>&1; pwd > {base}.pwd; mv {base}.pwd {base}.done\n")
        end = time.monotonic() + BLOCK_SECONDS
        while not os.path.exists(base + ".done"):
            if self.bash.poll() is not None or time.monotonic() > end:
                fail(f"these commands failed or took over {BLOCK_SECONDS} s:\n{commands}they printed:\n{self.text(base)}")
            time.sleep(0.02)
        with open(base + ".done") as now:
            self.folder = now.read().strip()
        return self.text(base)

    def end(self):
        try:
            os.killpg(self.bash.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.bash.wait()

    @staticmethod
    def text(base):
        with open(base + ".out", errors="replace") as output:
            return output.read()


def main():
    page, folder, tool_folder = sys.argv[1:]
    with open(page) as file:
        content = file.read()
    shell = Shell(os.path.abspath(folder), os.path.abspath(tool_folder))
    done = {"sh": 0, "text": 0, "file": 0, "elsewhere": 0}
    printed = None
    for language, text, before in blocks(content):
        if language == "bash":
            print(f"-- done by the caller:\n{text}", end="")
        elif language == "console":
            done["elsewhere"] += 1
            print(f"-- NOT RUN, it needs other machines:\n{text}", end="")
        elif language == "sh":
            begin = time.monotonic()
            printed = shell.run(text)
            done["sh"] += 1
            print(f"-- {time.monotonic() - begin:.1f} s:\n{text}", end="", flush=True)
        elif language == "text":
            compare(text, printed)
            done["text"] += 1
        elif language in ("cpp", "json"):
            name = re.findall(r"`([\w.]+)`:$", before)
            if not name:
                fail(f"no file is named in the line before a block of {language}: {before}")
            with open(os.path.join(shell.folder, name[0]), "w") as file:
                file.write(text)
            done["file"] += 1
        else:
            fail(f"a block of kind {language} means nothing to this script")
    print("followed:", ", ".join(f"{count} {kind}" for kind, count in done.items()))
    if done["sh"] < 8 or done["text"] < 6 or done["file"] < 2 or done["elsewhere"] > 1:
        fail("the page has fewer blocks than it must have: was its form changed?")


if __name__ == "__main__":
    main()
