#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/version.h"
#include "troupe/launcher/doctor.h"

namespace {

using namespace troupe::testing;  // NOLINT: this file's subject
using Level = troupe::Finding::Level;

troupe::Finding finding(const troupe::Diagnosis& diagnosis, const std::string& topic,
                        const troupe::Environment& environment = {}) {
  for (const troupe::Finding& each : troupe::find_all(diagnosis, environment))
    if (each.topic == topic) return each;
  FAIL("no finding about " << topic);
  return {};
}

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("troupe: does not link LibTorch") {
    const ProcessResult result = run_process({"ldd", kTool});
    REQUIRE(result.exit_code == 0);
    CHECK(has(result.out, "libc.so"));
    CHECK(!has(result.out, "torch"));
    CHECK(!has(result.out, "libc10"));  // c10 alone may be in an address
  }

  TEST_CASE("troupe run: does not load LibTorch or a BLAS either") {
    const ProcessResult result =
        run_process(run_command({"--workers", "1"}, "cat /proc/$PPID/maps"));
    REQUIRE(result.exit_code == 0);
    CHECK(has(result.out, "/troupe\n"));
    CHECK(!has(result.out, "torch"));
    CHECK(!has(result.out, "blas"));
  }

  TEST_CASE("troupe: help and version go to stdout and end with 0") {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"help"},
                                               {"--help"},
                                               {"-h"},
                                               {"help", "run"},
                                               {"run", "--help"},
                                               {"doctor", "-h"},
                                               {"help", "digits"},
                                               {"help", "nothing"}}) {
      std::vector<std::string> command = {kTool};
      command.insert(command.end(), words.begin(), words.end());
      const ProcessResult result = run_process(command);
      CHECK(result.exit_code == 0);
      CHECK(result.err.empty());
      CHECK(has(result.out, "Usage: troupe "));
    }
    CHECK(has(run_process({kTool, "help", "run"}).out, "--grace"));
    for (const char* word : {"version", "--version"})
      CHECK(run_process({kTool, word}).out == std::string("troupe ") + troupe::kVersion + "\n");
  }

  TEST_CASE("troupe: an unknown verb ends with 2 and names the nearest one") {
    const ProcessResult result = run_process({kTool, "docter"});
    CHECK(result.exit_code == 2);
    CHECK(result.err ==
          "troupe: error[config]: troupe has no verb \"docter\". Fix: did you mean doctor?\n");
    CHECK(run_process({kTool}).exit_code == 2);
    CHECK(has(run_process({kTool, "zzzzz"}).err, "`troupe help` lists them."));
  }

  TEST_CASE("troupe digits: says where it has gone") {
    const ProcessResult result = run_process({kTool, "digits", "--out", "nowhere"});
    CHECK(result.exit_code == 2);
    CHECK(has(result.err, "troupe digits has moved to the program examples/digits"));
  }

  TEST_CASE("digits: writes four files, refuses what is there") {
    const std::string digits = std::string(TROUPE_BINARY_DIR) + "/examples/digits";
    const TempDir folder;
    const std::string out = (folder / "digits").string();
    const std::vector<std::string> command = {digits, "--out",  out, "--train",
                                              "20",   "--test", "10"};
    const ProcessResult result = run_process(command);
    CHECK(result.exit_code == 0);
    CHECK(has(result.out, "wrote 20 training and 10 test digits"));
    CHECK(std::distance(std::filesystem::directory_iterator(out), {}) == 4);
    CHECK(run_process(command).exit_code == 2);
    for (const auto& wrong :
         std::vector<std::vector<std::string>>{{digits},
                                               {digits, "--out"},
                                               {digits, "--to", out},
                                               {digits, "--out", out, "--train", "-1"}}) {
      CHECK(run_process(wrong).exit_code == 2);
    }
    CHECK(has(run_process({digits, "--help"}).out, "Usage: digits --out DIR"));
  }

  TEST_CASE("troupe doctor: this machine can train, in words and as JSON") {
    const ProcessResult words = run_process({kTool, "doctor"});
    CHECK(words.exit_code == 0);
    CHECK(has(words.out, "ready to train\n"));
    CHECK(!has(words.out, "not ready"));
    const ProcessResult result = run_process({kTool, "doctor", "--json"});
    CHECK(result.exit_code == 0);
    CHECK(count_of(result.out, "\n") == 1);
    const nlohmann::json json = nlohmann::json::parse(result.out);
    CHECK(json.at("ready") == true);
    CHECK(json.at("version") == troupe::kVersion);
    CHECK(json.at("cores").at("usable") == troupe::inspect_cores().usable);
    CHECK(json.at("findings").size() >= 10);
#ifdef TROUPE_HAS_GLOO  // a build with LibTorch: the engines that --communication can name
    std::vector<std::string> engines = {"native"};
    if (TROUPE_HAS_GLOO) engines.emplace_back("gloo");
    if (TROUPE_HAS_NCCL) engines.emplace_back("nccl");
    if (TROUPE_HAS_MPI) engines.emplace_back("mpi");
    CHECK(json.at("engines") == engines);
    CHECK(has(words.out, "engines     native"));
    // What LibTorch reaches, not what a name of the system leads to: MKL is inside pip's.
    const std::string blas = json.at("blas").at("path");
    CHECK((json.at("blas").at("name") == "MKL") == has(blas, "libtorch_cpu.so"));
    CHECK(json.at("openmp").size() == 1);
#endif
  }

  TEST_CASE("output that is lost is an error, of every verb and of a program's help") {
    const std::string mnist = TROUPE_BINARY_DIR "/examples/mnist";
    for (const std::string& command :
         {kTool + " help", kTool + " doctor --json", kTool + " version", mnist + " --help",
          mnist + " --version", mnist + " --print-config",
          mnist + " --data-dir synthetic --max-steps 1 --json-summary",
          mnist + " --data-dir synthetic --max-steps 1 --summary"}) {
      CAPTURE(command);
      const ProcessResult lost = run_process({"/bin/sh", "-c", command + " > /dev/full"});
      CHECK(lost.exit_code == 3);
      CHECK(has(lost.err, "standard output cannot be written: No space left on device"));
      const ProcessResult unread =  // by a reader that has seen enough
          run_process({"/bin/sh", "-c", "{ " + command + "; echo ends with $? >&2; } | :"});
      CHECK(has(unread.err, "ends with 0\n"));
    }
  }

  TEST_CASE("troupe doctor: says which cluster the environment names, and when it is wrong") {
    ProcessOptions options;
    options.set["TF_CONFIG"] =
        R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})";
    const ProcessResult good = run_process({kTool, "doctor"}, options);
    CHECK(good.exit_code == 0);
    CHECK(has(good.out, "TF_CONFIG: worker/1, rank 1 of 2"));
    options.set["TF_CONFIG"] = "{";
    const ProcessResult bad = run_process({kTool, "doctor"}, options);
    CHECK(bad.exit_code == 3);
    CHECK(has(bad.out, "  NO  cluster"));
    CHECK(has(bad.out, "Fix: "));
    CHECK(has(bad.out, "not ready to train\n"));
  }

  TEST_CASE("troupe doctor: says which secret there is, and why one would be refused") {
    const TempDir dir;
    const std::string path = (dir / "key").string();
    REQUIRE(run_process({kTool, "secret", path}).exit_code == 0);
    const troupe::Diagnosis diagnosis;
    CHECK(finding(diagnosis, "secret").fact == "one process needs none");
    troupe::Environment environment = {
        {"TF_CONFIG",
         R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})"},
        {"HOME", "/h"}};
    CHECK(finding(diagnosis, "secret", environment).level == Level::advice);
    CHECK(has(finding(diagnosis, "secret", environment).fix, "`troupe secret FILE`"));
    environment["TROUPE_SECRET_FILE"] = path;
    CHECK(finding(diagnosis, "secret", environment).level == Level::good);
    std::filesystem::permissions(path, std::filesystem::perms::others_read,
                                 std::filesystem::perm_options::add);
    CHECK(finding(diagnosis, "secret", environment).level == Level::problem);
    CHECK(has(finding(diagnosis, "secret", environment).fix, "chmod g-w,o="));
  }

  TEST_CASE("doctor: slow BLAS is advice with its remedy, what stops training is a problem") {
    troupe::Diagnosis diagnosis;
    diagnosis.machine.blas = {troupe::Blas::Kind::reference, "/usr/lib/blas/libblas.so.3", ""};
    CHECK(finding(diagnosis, "BLAS").level == Level::advice);
    CHECK(has(finding(diagnosis, "BLAS").fact, "7 to 14 times"));
    CHECK(has(finding(diagnosis, "BLAS").fix, "apt-get install libopenblas0-pthread"));
    diagnosis.machine.blas.kind = troupe::Blas::Kind::openblas;
    CHECK(finding(diagnosis, "BLAS").level == Level::good);
    diagnosis.machine.blas.version =
        "OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY Prescott MAX_THREADS=64";
    diagnosis.machine.cpu_capability = "default";  // it is one
    CHECK(finding(diagnosis, "BLAS").level == Level::good);
    diagnosis.machine.cpu_capability = "AVX2";
    CHECK(finding(diagnosis, "BLAS").level == Level::advice);
    CHECK(has(finding(diagnosis, "BLAS").fix, "OPENBLAS_CORETYPE=Haswell"));
    diagnosis.machine.cpu_capability = "AVX512";
    CHECK(has(finding(diagnosis, "BLAS").fix, "OPENBLAS_CORETYPE=SkylakeX"));

    diagnosis.machine.cores.affinity = diagnosis.machine.cores.usable = 2;
    CHECK(finding(diagnosis, "threads").level == Level::good);
    diagnosis.cores_taken = 1;
    CHECK(has(finding(diagnosis, "threads").fact, "keep about 1 of 2 cores busy"));
    CHECK(has(finding(diagnosis, "threads").fix, "--threads 1"));
    diagnosis.cores_taken = 0;

    CHECK(finding(diagnosis, "OpenMP").level == Level::good);
    diagnosis.machine.openmp = {"/usr/lib/libgomp.so.1.0.0"};
    CHECK(finding(diagnosis, "OpenMP").fact == "/usr/lib/libgomp.so.1.0.0");
    diagnosis.machine.openmp.emplace_back("/opt/torch/lib/libgomp-a34b3233.so.1");
    CHECK(finding(diagnosis, "OpenMP").level == Level::advice);
    CHECK(has(finding(diagnosis, "OpenMP").fact, "two runtimes in one process"));

    CHECK(finding(diagnosis, "loopback").level == Level::good);
    diagnosis.machine.loopback_error = "Network is unreachable";
    CHECK(finding(diagnosis, "loopback").level == Level::problem);
    CHECK(finding(diagnosis, "LibTorch").level == Level::good);
    diagnosis.libtorch_version = "1.13.0";
    CHECK(finding(diagnosis, "LibTorch").level == Level::problem);
    diagnosis.libtorch_path = "/usr/lib/libtorch_cpu.so";
    CHECK(finding(diagnosis, "LibTorch").level == Level::good);
    diagnosis.libtorch_package = "libtorch-dev 1.13.1+dfsg-4";
    CHECK(finding(diagnosis, "LibTorch").fact ==
          "built with headers of 1.13.0, package libtorch-dev 1.13.1+dfsg-4; "
          "/usr/lib/libtorch_cpu.so");
    diagnosis.libtorch_error = "libcudart.so.13: cannot open shared object file";
    CHECK(finding(diagnosis, "LibTorch").level == Level::problem);
    CHECK(has(finding(diagnosis, "LibTorch").fact, "cannot be loaded: libcudart.so.13"));
    diagnosis.libtorch_error.clear();
    diagnosis.engines = {{"native", ""}, {"gloo", ""}, {"mpi", "it was built without"}};
    CHECK(finding(diagnosis, "engines").fact == "native, gloo; no mpi: it was built without");

    diagnosis.findings = troupe::find_all(diagnosis, {});
    CHECK(!diagnosis.ready());
    diagnosis.machine.loopback_error.clear();
    diagnosis.findings = troupe::find_all(diagnosis, {});
    CHECK(diagnosis.ready());
  }
}
