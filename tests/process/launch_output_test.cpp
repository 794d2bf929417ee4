#include "troupe/launcher/run/launch_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

std::vector<std::string> split(const std::vector<std::string>& pieces) {
  std::vector<std::string> lines;
  troupe::LineSplitter splitter([&](std::string_view line) { lines.emplace_back(line); });
  for (const std::string& piece : pieces) splitter.feed(piece);
  splitter.finish();
  return lines;
}

std::vector<std::string> lines_of(const std::string& output) { return split({output}); }

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_SUITE("process") {
  using Lines = std::vector<std::string>;

  TEST_CASE("line splitter: lines come whole, however the bytes arrive") {
    CHECK(split({"one\ntwo\n"}) == Lines{"one", "two"});
    CHECK(split({"o", "ne\nt", "wo", "\n"}) == Lines{"one", "two"});
    CHECK(split({"", "\n\n", "x"}) == Lines{"", "", "x"});
    CHECK(split({"no line end"}) == Lines{"no line end"});
    CHECK(split({}).empty());
  }

  TEST_CASE("line splitter: a carriage return ends a line, alone or with its line feed") {
    CHECK(split({"10%\r20%\r\n"}) == Lines{"10%", "20%"});
    CHECK(split({"dos\r", "\nnext\n"}) == Lines{"dos", "next"});
    CHECK(split({"\r10%\r20%"}) == Lines{"10%", "20%"});
    CHECK(split({"dos\r\n", "\r\n", "x\n"}) == Lines{"dos", "", "x"});
  }

  TEST_CASE("line splitter: a line without end goes out in pieces, nothing lost") {
    const std::size_t most = troupe::LineSplitter::kMaxLineBytes;
    const Lines lines = split({std::string(most - 1, 'a'), std::string(most + 1, 'b'), "\nc\n"});
    REQUIRE(lines.size() == 3);
    CHECK(lines[0] == std::string(most - 1, 'a') + "b");
    CHECK(lines[1] == std::string(most, 'b'));
    CHECK(lines[2] == "c");
  }

  TEST_CASE("output sink: writes what the reader takes and keeps the rest") {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    troupe::OutputSink sink(ends[1]);
    const std::string line(9999, 'x');
    for (int i = 0; i < 50; ++i) sink.append(line + "\n");
    CHECK(!sink.flush());  // a pipe holds 64 KiB: it returned, and did not wait
    std::string got;
    std::vector<char> buffer(1 << 16);
    while (got.size() < 500'000) {
      const ssize_t count = read(ends[0], buffer.data(), buffer.size());
      REQUIRE(count > 0);
      got.append(buffer.data(), static_cast<std::size_t>(count));
      sink.flush();
    }
    CHECK(sink.pending_bytes() == 0);
    CHECK(!sink.mid_line());
    CHECK(count_of(got, line + "\n") == 50);
    close(ends[0]);
    close(ends[1]);
  }

  TEST_CASE("troupe run: every line of every worker is prefixed and whole") {
    // Lines beyond PIPE_BUF, on both streams at once, which end in one pipe (2>&1): what would mix
    // if anything could. Every line is one digit, the worker's rank, 6000 times.
    const std::string script =
        "line=$(head -c 6000 /dev/zero | tr '\\0' $TROUPE_RANK); i=0; "
        "while [ $i -lt 500 ]; do echo $line; echo $line >&2; i=$((i+1)); done";
    const ProcessResult result = run_process(
        {"/bin/sh", "-c", "exec \"$0\" run --workers 2 -- /bin/sh -c \"$1\" 2>&1", kTool, script});
    CHECK(result.exit_code == 0);
    const Lines lines = lines_of(result.out);
    int seen[2] = {0, 0};
    int broken = 0;
    for (const std::string& line : lines) {
      const bool first = line == "[worker/0] " + std::string(6000, '0');
      const bool second = line == "[worker/1] " + std::string(6000, '1');
      if (first || second)
        ++seen[second ? 1 : 0];
      else if (line.rfind("troupe: ", 0) != 0)
        ++broken;
    }
    CHECK(seen[0] == 1000);
    CHECK(seen[1] == 1000);
    CHECK(broken == 0);
  }

  TEST_CASE("troupe run: stdout stays stdout, stderr stays stderr, a last line may lack its end") {
    const ProcessResult result =
        run_process(run_command({"--workers", "1"}, "echo out; echo err >&2; printf 'no end'"));
    CHECK(result.exit_code == 0);
    CHECK(result.out == "[worker/0] out\n[worker/0] no end\n");
    CHECK(has(result.err, "[worker/0] err\n"));
    CHECK(!has(result.err, "out\n"));
  }

  TEST_CASE("troupe run: --no-prefix leaves lines as the workers wrote them") {
    const ProcessResult result =
        run_process(run_command({"--workers", "2", "--no-prefix"}, "echo '{\"a\": 1}'"));
    CHECK(result.out == "{\"a\": 1}\n{\"a\": 1}\n");
  }

  TEST_CASE("troupe run: --log-dir keeps each worker's lines in a file of its own") {
    const TempDir folder;
    const std::filesystem::path logs = folder.path() / "new" / "logs";
    const ProcessResult result = run_process(run_command(
        {"--workers", "2", "--log-dir", logs.string()},
        "echo out $TROUPE_RANK; echo err $TROUPE_RANK >&2; [ $TROUPE_RANK = 0 ] && exit; "
        // Its end stops worker/0, whose lines are wanted, too.
        "until [ \"$(wc -l < " +
            (logs / "worker-0.log").string() + ")\" = 2 ]; do sleep 0.01; done; false"));
    CHECK(result.exit_code == 1);
    for (const std::string rank : {"0", "1"}) {
      const std::string log = content(logs / ("worker-" + rank + ".log"));
      CHECK(has(log, "out " + rank + "\n"));
      CHECK(has(log, "err " + rank + "\n"));
      CHECK(log.size() == 12);
    }
    CHECK(has(result.err, (logs / "worker-1.log").string()));
  }

  TEST_CASE("troupe run: --log-dir keeps the logs of former runs, under the run's number") {
    const TempDir folder;
    for (const std::string run : {"first", "second", "third"}) {
      CHECK(run_process(run_command({"--workers", run == "first" ? "2" : "1", "--log-dir",
                                     folder.path().string()},
                                    "echo " + run))
                .exit_code == 0);
    }
    CHECK(content(folder.path() / "worker-0.log.1") == "first\n");
    CHECK(content(folder.path() / "worker-1.log.1") == "first\n");
    CHECK(content(folder.path() / "worker-0.log.2") == "second\n");
    CHECK(content(folder.path() / "worker-0.log") == "third\n");
    CHECK(!std::filesystem::exists(folder.path() / "worker-1.log"));
  }

  TEST_CASE("troupe run: a worker's name stands once in a line of its log") {
    const TempDir folder;
    const std::string head = "2026-11-20T10:21:38.126Z I ";
    const auto run = [&](std::vector<std::string> options) {
      return run_process(run_command(
          options, "echo '" + head + "worker/0 loss = 1'; echo 'I worker/0 am'; echo '" + head +
                       "worker/01 x'; echo '" + head + "'"));
    };
    CHECK(run({"--workers", "1", "--log-dir", folder.path().string()}).out ==
          "[worker/0] " + head + "loss = 1\n[worker/0] I worker/0 am\n[worker/0] " + head +
              "worker/01 x\n[worker/0] " + head + "\n");
    CHECK(has(content(folder.path() / "worker-0.log"), head + "worker/0 loss = 1\n"));
    CHECK(has(run({"--workers", "1", "--no-prefix"}).out, head + "worker/0 loss = 1\n"));
  }

  TEST_CASE(
      "troupe run: a log directory that cannot be written is refused before anything starts") {
    const TempDir folder;
    std::ofstream(folder / "file") << "not a directory";
    check_runs(
        {{"a file",
          run_command({"--workers", "2", "--log-dir", (folder / "file").string()}, "echo started"),
          3,
          {"troupe: error[environment]: cannot", "Fix: "},
          {{"started", 0}}}});
  }

  TEST_CASE("troupe run: a reader that leaves early does not end the run") {
    const TempDir folder;
    const std::string pipeline =
        "set -o pipefail; \"$0\" run --workers 2 -- /bin/sh -c 'seq 1 100000; echo > \"$0\"' \"$1\""
        " | head -n 1";
    const ProcessResult result =
        run_process({"/bin/bash", "-c", pipeline, kTool, (folder / "done").string()});
    CHECK(!result.timed_out);
    CHECK(result.exit_code == 0);
    CHECK(std::filesystem::exists(folder / "done"));
  }

  // Its own sockets and pipes would have their numbers, and be written over.
  TEST_CASE("troupe run: ends with its workers where standard input and both outputs are closed") {
    for (const char* group : {"--workers 2", "--workers 2 --min-workers 1"}) {
      CAPTURE(group);
      const TempDir folder;
      const std::string line =
          troupe::text("exec \"$0\" run ", group,
                       " -- /bin/sh -c 'echo > \"$0.$TROUPE_RANK\"' \"$1\" <&- >&- 2>&-");
      const ProcessResult result =
          run_process({"/bin/sh", "-c", line, kTool, (folder / "done").string()});
      CHECK(!result.timed_out);
      CHECK(result.exit_code == 0);
      CHECK(std::filesystem::exists(folder / "done.0"));
      CHECK(std::filesystem::exists(folder / "done.1"));
    }
  }
}
