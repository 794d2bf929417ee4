#!/usr/bin/env python3
"""What `run` does where programs fail, hang, are missing or print nonsense: a line says so, and the next part is run."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parent / "run"


class Run(unittest.TestCase):
    def run_with(self, programs, *arguments):
        """`programs`: their shell scripts, by name. Returns the exit code and the lines."""
        with tempfile.TemporaryDirectory() as folder:
            for name, script in programs.items():
                path = pathlib.Path(folder) / name
                path.write_text("#!/bin/sh\n" + script)
                path.chmod(0o755)
            ended = subprocess.run([sys.executable, "-B", RUN, "--cpu", "--programs", folder, *arguments],
                                   capture_output=True, text=True, timeout=50)
        return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()], ended.stderr

    def test_missing_programs(self):
        code, lines, _ = self.run_with({})
        self.assertEqual(code, 1)
        self.assertEqual({line["part"] for line in lines}, {1, 2, 3, 5, 7, 9, "summary"})
        for line in lines:
            self.assertTrue(line["ok"] or line["reason"], line)
        self.assertIn("has no mnist. Fix: ", lines[2]["reason"])
        self.assertEqual(set(lines[-1]["not_written_yet"]), {"4", "6", "8"})

    def test_a_hung_program_is_killed_and_the_next_one_is_started(self):
        programs = {"faulty_training": "sleep 100 & sleep 100", "troupe": "exit 3", "mnist": "sleep 100"}
        code, lines, _ = self.run_with(programs, "--parts", "7,5", "--limit", "1")
        self.assertEqual(code, 1)
        hung = next(line for line in lines if line["what"] == "fault")
        self.assertEqual((hung["hung"], hung["reason"]), (True, "it did not end"))
        late = [line for line in lines if "not started: the limit of part 5, 1 s, is used up." == line.get("reason")]
        self.assertTrue(late)
        self.assertIn("troupe ended with 3", lines[0]["reason"])

    def test_the_budget_of_all_parts(self):
        _, lines, _ = self.run_with({"mnist": "sleep 100", "troupe": "sleep 100"}, "--parts", "7,3", "--budget", "1")
        self.assertIn("not started: the limit of all parts together, 1 s, is used up.", [line.get("reason") for line in lines])

    def test_faults_are_judged(self):
        said = 'echo "troupe: error: step 5: a gradient is not finite" >&2; exit 1'
        _, lines, _ = self.run_with({"faulty_training": said}, "--parts", "5")
        by_fault = {line["fault"]: line for line in lines if line["what"] == "fault"}
        self.assertTrue(by_fault["nan-gradient"]["ok"])
        self.assertFalse(by_fault["label"]["ok"])
        self.assertEqual(by_fault["label"]["message"], "troupe: error: step 5: a gradient is not finite")
        _, lines, _ = self.run_with({"faulty_training": "kill -ABRT $$"}, "--parts", "5")
        self.assertEqual(lines[0]["exit_code"], -6)
        self.assertFalse(lines[0]["ok"])

    def test_nonsense_is_a_reason(self):
        _, lines, _ = self.run_with({"troupe": "echo nonsense", "mnist": "true"}, "--parts", "1")
        self.assertIn("JSONDecodeError", next(line["reason"] for line in lines if line["what"] == "doctor"))
        self.assertFalse(next(line["ok"] for line in lines if line["what"] == "first_losses"))

    def test_arguments(self):
        self.assertEqual(self.run_with({}, "--parts", "10")[0], 2)
        self.assertIn("Fix: ", self.run_with({}, "--parts", "one")[2])
        # Parts that are not written are no error.
        code, lines, _ = self.run_with({}, "--parts", "4,6,8")
        self.assertEqual((code, len(lines)), (0, 1))


if __name__ == "__main__":
    unittest.main()
