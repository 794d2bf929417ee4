#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/core/machine.h"
#include "troupe/launcher/run/launch_child.h"
#include "troupe/launcher/run/launch_environment.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject
using troupe::Environment;

Environment variables_of(const std::string& lines) {
  Environment variables;
  std::string line;
  for (std::istringstream stream(lines); std::getline(stream, line);)
    if (const std::size_t equals = line.find('='); equals != std::string::npos)
      variables[line.substr(0, equals)] = line.substr(equals + 1);
  return variables;
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("launch environment: cores are shared out, and what the user set stays") {
    Environment variables =
        troupe::launch_environment({{"HOME", "/h"}}, {{7, 0, 2, 0, "127.0.0.1", 4000}, 2, 9, 0})
            .variables;
    CHECK(variables["OMP_NUM_THREADS"] == "4");
    CHECK(variables["OPENBLAS_NUM_THREADS"] == "1");
    CHECK(variables["OMP_WAIT_POLICY"] == "passive");
    CHECK(variables["HOME"] == "/h");
    CHECK(variables["TROUPE_WORLD_SIZE"] == "2");
    CHECK(variables["TROUPE_CHIEF_ADDRESS"] == "127.0.0.1:4000");
    CHECK(variables["TROUPE_GENERATION"] == "7");

    const Environment own = {{"OMP_NUM_THREADS", "7"}, {"OMP_WAIT_POLICY", "active"}};
    variables =
        troupe::launch_environment(own, {{1, 0, 16, 0, "127.0.0.1", 1}, 16, 2, 0}).variables;
    CHECK(variables["OMP_NUM_THREADS"] == "7");
    CHECK(variables["OMP_WAIT_POLICY"] == "active");
    CHECK(troupe::launch_environment({}, {{1, 0, 16, 0, "127.0.0.1", 1}, 16, 2, 0})
              .variables["OMP_NUM_THREADS"] == "1");
    CHECK(troupe::launch_environment(own, {{1, 0, 16, 0, "127.0.0.1", 1}, 16, 2, 3})
              .variables["OMP_NUM_THREADS"] == "3");
  }

  TEST_CASE("launch environment: no other launcher's variables reach the workers") {
    const std::vector<std::string> foreign = {"TF_CONFIG",   "RANK",
                                              "WORLD_SIZE",  "LOCAL_RANK",
                                              "MASTER_ADDR", "MASTER_PORT",
                                              "PMI_RANK",    "OMPI_COMM_WORLD_RANK",
                                              "PMIX_RANK",   "SLURM_PROCID",
                                              "PET_NNODES",  "TORCHELASTIC_RUN_ID",
                                              "TROUPE_RANK", "TROUPE_LISTEN_FD",
                                              "TROUPE_TASK", "TROUPE_CLUSTER"};
    Environment own = {{"RANKING", "stays"}, {"TROUPE_EPOCHS", "3"}};
    for (const std::string& name : foreign) own[name] = "x";
    const troupe::LaunchEnvironment result =
        troupe::launch_environment(own, {{1, 0, 2, 0, "127.0.0.1", 1}, 2, 1, 0});
    CHECK(result.removed.size() == foreign.size());
    for (const std::string& name : foreign) {
      CAPTURE(name);
      CHECK(result.variables.count(name) == 0);
    }
    CHECK(result.variables.count("RANKING") == 1);
    CHECK(result.variables.count("TROUPE_EPOCHS") == 1);
  }

  TEST_CASE("find program: by path, by PATH, and what it says when there is none") {
    const TempDir folder;
    std::ofstream(folder / "tool") << "#!/bin/sh\n";
    const std::string tool = (folder / "tool").string();
    CHECK_THROWS_WITH_AS((void)troupe::find_program(tool, ""),
                         doctest::Contains("is not executable. Fix: run `chmod +x"),
                         troupe::ConfigError);
    std::filesystem::permissions(tool, std::filesystem::perms::owner_all);
    CHECK(troupe::find_program(tool, "") == tool);
    CHECK(troupe::find_program("tool", "/nowhere:" + folder.path().string()) == tool);
    CHECK_THROWS_WITH_AS((void)troupe::find_program("tool", "/nowhere"),
                         doctest::Contains("no such program in PATH"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)troupe::find_program(folder.path().string(), ""),
                         doctest::Contains("it is not a file"), troupe::ConfigError);
    CHECK_THROWS_AS((void)troupe::find_program("", "/bin"), troupe::ConfigError);
  }

  TEST_CASE("troupe run: what a worker sees") {
    ProcessOptions options;
    options.set = {{"TF_CONFIG", "{}"}, {"SLURM_PROCID", "3"}, {"KEPT", "yes"}};
    options.unset = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY"};
    const ProcessResult result =
        run_process(run_command({"--workers", "1", "--no-prefix"},
                                "env; echo STDIN=$(readlink /proc/self/fd/0);"
                                "echo SOCKET=$(readlink /proc/$$/fd/$TROUPE_LISTEN_FD)"),
                    options);
    REQUIRE(result.exit_code == 0);
    Environment seen = variables_of(result.out);
    CHECK(seen["TROUPE_RANK"] == "0");
    CHECK(seen["TROUPE_WORLD_SIZE"] == "1");
    CHECK(has(seen["TROUPE_CHIEF_ADDRESS"], "127.0.0.1:"));
    CHECK(std::stoll(seen["TROUPE_GENERATION"]) > 0);
    CHECK(seen["OMP_NUM_THREADS"] == std::to_string(troupe::inspect_cores().usable));
    CHECK(seen["KEPT"] == "yes");
    CHECK(seen.count("TF_CONFIG") == 0);
    CHECK(seen.count("SLURM_PROCID") == 0);
    CHECK(has(seen["STDIN"], "/dev/null"));
    CHECK(has(seen["SOCKET"], "socket:"));
    CHECK(has(result.err,
              "hidden from the workers, whose group is this launcher's: "
              "SLURM_PROCID TF_CONFIG."));
    CHECK(count_of(result.err, "OMP_NUM_THREADS=") == 1);
  }

  TEST_CASE("troupe run: a worker starts with the usual handling of signals") {
    // The launcher ignores SIGPIPE for itself; a worker that inherited that would not notice
    // `head`.
    check_runs({{"SIGPIPE",
                 run_command({"--workers", "1"}, "kill -PIPE $$; echo survived"),
                 128 + SIGPIPE,
                 {},
                 {{"survived", 0}}}});
  }

  TEST_CASE("troupe run: the chief inherits a socket that others can connect to at once") {
    const TempDir folder;
    const std::string pipe = (folder / "pipe").string();
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    // Worker 1 connects while worker 0, which has not touched the socket, waits to be told.
    const std::string script =
        "if [ $TROUPE_RANK = 0 ]; then read word < " + pipe +
        "; echo told $word; exit 0; fi; "
        "test -z \"$TROUPE_LISTEN_FD\" || exit 8; "
        "exec 3<> /dev/tcp/127.0.0.1/${TROUPE_CHIEF_ADDRESS#*:} || exit 9; echo yes > " +
        pipe;
    const ProcessResult result =
        run_process({kTool, "run", "--workers", "2", "--", "/bin/bash", "-c", script});
    CHECK(result.exit_code == 0);
    CHECK(has(result.out, "[worker/0] told yes\n"));
  }

  TEST_CASE("troupe run: a forgotten -- before the program is what the message says") {
    for (const char* stray : {"--config", "--epochs"}) {
      check_runs({{stray,
                   {kTool, "run", "--workers", "2", "build/fruit", stray, "5"},
                   2,
                   {std::string("unknown flag ") + stray,
                    "Fix: a program's own flags follow --, as in troupe run "}}});
    }
  }

  TEST_CASE("troupe run: a program that cannot run is refused with code 2, in one line") {
    const TempDir folder;
    std::ofstream(folder / "garbage") << "neither ELF nor script";
    std::ofstream(folder / "orphaned") << "#!/no/such/interpreter\n";
    for (const char* name : {"garbage", "orphaned"})
      std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
    for (const std::string& program :
         std::vector<std::string>{"no-such-program", "/no/such/program", folder.path().string(),
                                  (folder / "garbage").string(), (folder / "orphaned").string()}) {
      check_runs({{program.c_str(),
                   {kTool, "run", "--workers", "2", "--", program},
                   2,
                   {"troupe: error[config]: cannot run ", " Fix: "},
                   {{"\n", 0}}}});
    }
  }

  TEST_CASE("troupe run: a wrong command line ends with 2 and says what is wrong") {
    struct Row {
      std::vector<std::string> arguments;
      const char* words;
    };
    for (const Row& row : std::vector<Row>{
             {{"--workers", "2"}, "needs `--` before the program"},
             {{"--workers", "2", "--"}, "given no program after `--`"},
             {{"--", "true"}, "not told how many workers"},
             {{"--workers", "0", "--", "true"}, "--workers is \"0\". Fix: give a whole number"},
             {{"--workers", "-1", "--", "true"}, "--workers is \"-1\""},
             {{"--workers", "1025", "--", "true"}, "from 1 to 1024"},
             {{"--workers", "two", "--", "true"}, "--workers is \"two\""},
             {{"--worker", "2", "--", "true"}, "did you mean --workers?"},
             {{"--workers", "2", "true"}, "unexpected argument \"true\""},
             {{"--workers", "2", "--threads", "0", "--", "true"}, "--threads is \"0\""},
             {{"--workers", "2", "--grace", "-1", "--", "true"}, "--grace is \"-1\""},
             {{"--workers", "2", "--log-dir", "", "--", "true"}, "--log-dir"},
         }) {
      std::vector<std::string> command = {kTool, "run"};
      command.insert(command.end(), row.arguments.begin(), row.arguments.end());
      check_runs({{row.words, command, 2, {"troupe: error[config]: ", row.words, {"\n", 1}}}});
    }
  }
}
