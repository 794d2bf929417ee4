#!/usr/bin/env python3
"""Reading a CSV file of a million rows of 12 real numbers into float32: Troupe's read_csv against pandas.read_csv, one process
each in every round, in changing order. PYTHON is one that has pandas.

    bench/csv_files.py [--build build/release] [--python PYTHON] [--rounds 9] [--json FILE]"""

import dataclasses
import pathlib
import tempfile

import trainings

COLUMNS = [f"c{number}" for number in range(12)]
WRITE = """
import sys, numpy
rows = numpy.random.default_rng(1).standard_normal((int(sys.argv[2]), int(sys.argv[3])))
with open(sys.argv[1], "w") as file:
    file.write(",".join(f"c{i}" for i in range(rows.shape[1])) + "\\n")
    for row in rows:
        file.write(",".join(map(repr, row.tolist())) + "\\n")
"""
READ = """
import sys, time, numpy, pandas
start = time.perf_counter()
table = pandas.read_csv(sys.argv[1], dtype=numpy.float32)
print(len(table), time.perf_counter() - start)
"""


@dataclasses.dataclass(frozen=True)
class Row:
    label: str
    command: list


def measure(row, rows):
    read, seconds = trainings.output_of(row.command).split()
    if int(read) != rows:
        raise trainings.Failed(f"{row.label} has read {read} of {rows} rows")
    return float(seconds)


def main():
    parser = trainings.parser_for(__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default="python3", help="one that has pandas")
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.rows = 1, 1000
    program = trainings.need(options.build / "bench/bench_csv")
    with tempfile.TemporaryDirectory(prefix="troupe-bench-") as folder:
        file = str(pathlib.Path(folder) / "numbers.csv")
        trainings.output_of([options.python, "-c", WRITE, file, str(options.rows), str(len(COLUMNS))])
        rows = [Row("pandas.read_csv", [options.python, "-c", READ, file]), Row("Troupe", [program, file, *COLUMNS])]
        results, stolen = trainings.interleaved(rows, options.rounds, lambda row: measure(row, options.rows))
    ratios = [[ours / theirs for theirs, ours in zip(results[0], those)] for those in results]
    trainings.print_table(["read by", "seconds", "/ pandas"],
                          [[row.label, trainings.range_text(those, ".3f"), trainings.range_text(ratio, ".2f")]
                           for row, those, ratio in zip(rows, results, ratios)])
    trainings.write_json(options.json, {"benchmark": "csv", "rows": options.rows, "seconds": results, "stolen": stolen})


trainings.run_main(main)
