#include "troupe/launcher/doctor.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "troupe/cli/cluster/secret_file.h"
#include "troupe/cli/cluster/secret_source.h"
#include "troupe/cli/flags_builtin.h"
#include "troupe/cli/flags_reading.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/core/version.h"

// The build's own facts, if it has LibTorch: the version in its headers, the package that they
// belong to, the file it links; what each engine lacks, if anything.
#ifndef TROUPE_LIBTORCH_VERSION
#define TROUPE_LIBTORCH_VERSION ""
#define TROUPE_LIBTORCH_PACKAGE ""
#define TROUPE_LIBTORCH_FILE ""
#define TROUPE_GLOO_LACKS ""
#define TROUPE_NCCL_LACKS ""
#define TROUPE_MPI_LACKS ""
#endif

namespace troupe {
namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

constexpr std::uint64_t kFewOpenFiles = 1024;

/// Where the loader would find libtorch_cpu.so, to the extent that can be said without loading it:
/// LD_LIBRARY_PATH, the build's own file, the usual directories.
std::string find_libtorch(const Environment& environment) {
  std::vector<fs::path> folders;
  for (const std::string& part : split(variable_in(environment, "LD_LIBRARY_PATH"), ':'))
    if (!part.empty()) folders.emplace_back(part);
  if (*TROUPE_LIBTORCH_FILE != '\0')
    folders.push_back(fs::path(TROUPE_LIBTORCH_FILE).parent_path());
  for (const char* usual : {"/usr/local/lib", "/usr/lib/x86_64-linux-gnu",
                            "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
    folders.emplace_back(usual);
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().filename().string().rfind("libtorch_cpu.so", 0) == 0)
        return entry.path().string();
  }
  return "";
}

Finding libtorch_finding(const Diagnosis& diagnosis) {
  if (diagnosis.libtorch_version.empty())
    return {Level::good, "LibTorch", "this tool was built without it", ""};
  if (diagnosis.libtorch_path.empty())
    return {Level::problem, "LibTorch",
            text("libtorch_cpu.so was not found; this build's was ", TROUPE_LIBTORCH_FILE),
            diagnosis.libtorch_package.empty()
                ? "add the folder that has it to LD_LIBRARY_PATH, or build Troupe with a LibTorch "
                  "that stays."
                : "run `apt-get install libtorch-dev`, or add its directory to LD_LIBRARY_PATH."};
  if (!diagnosis.libtorch_error.empty())
    return {Level::problem, "LibTorch", "cannot be loaded: " + diagnosis.libtorch_error,
            "install what it names, or add the folder that has it to LD_LIBRARY_PATH."};
  return {Level::good, "LibTorch",
          text("built with headers of ", diagnosis.libtorch_version,
               diagnosis.libtorch_package.empty() ? "" : ", package ", diagnosis.libtorch_package,
               "; ", diagnosis.libtorch_path),
          ""};
}

Finding engines_finding(const Diagnosis& diagnosis) {
  if (diagnosis.libtorch_version.empty())
    return {Level::good, "engines", "none: this tool was built without LibTorch", ""};
  std::vector<std::string> has;
  std::string lacks;
  for (const EngineFact& engine : diagnosis.engines) {
    if (engine.lacks.empty()) has.push_back(engine.name);
    if (!engine.lacks.empty()) lacks += text("; no ", engine.name, ": ", engine.lacks);
  }
  return {Level::good, "engines", join(has) + lacks, ""};
}

/// OpenBLAS takes a processor that is newer than itself for one of 2004: 32 GFLOP/s on one core,
/// 152 with the kernels for AVX-512 (a 512x784x512 product, OpenBLAS 0.3.21).
bool is_taken_for_prescott(const Machine& machine) {
  return machine.blas.version.find(" Prescott ") != std::string::npos &&
         machine.cpu_capability != "default";
}

Finding blas_finding(const Machine& machine) {
  const Blas& blas = machine.blas;
  if (blas.kind == Blas::Kind::missing)
    return {Level::advice, "BLAS", "neither LibTorch has one nor was libblas.so.3 found",
            "run `apt-get install libopenblas0-pthread`."};
  std::string fact = text(name_of(blas.kind), ", ", blas.path);
  if (is_taken_for_prescott(machine))
    return {Level::advice, "BLAS",
            fact +
                ": does not know this processor and computes as on one of 2004, which takes up to "
                "4.7 times as long",
            text("set OPENBLAS_CORETYPE=",
                 machine.cpu_capability == "AVX512" ? "SkylakeX" : "Haswell", ".")};
  if (!blas.slow()) return {Level::good, "BLAS", fact, ""};
  return {Level::advice, "BLAS",
          fact + ": matrix products take 7 to 14 times longer than they need",
          "run `apt-get install libopenblas0-pthread`; nothing has to be rebuilt."};
}

Finding openmp_finding(const Diagnosis& diagnosis) {
  const std::vector<std::string>& files = diagnosis.machine.openmp;
  if (files.size() > 1)
    return {Level::advice, "OpenMP",
            join(files) +
                ": two runtimes in one process, so that a number of threads that is set in "
                "one does not hold in the other",
            "leave one of them out: of LD_PRELOAD, or of the libraries that the program links."};
  if (!files.empty()) return {Level::good, "OpenMP", files.front(), ""};
  return {Level::good, "OpenMP",
          diagnosis.libtorch_path.empty() ? "no LibTorch was loaded"
                                          : "none: this LibTorch was built without it",
          ""};
}

Finding cores_finding(const Cores& cores) {
  std::string fact = text(cores.usable, " usable of ", cores.online);
  if (cores.affinity < cores.online) fact += text(", affinity ", cores.affinity);
  if (cores.cgroup_limit) fact += text(", container limit ", *cores.cgroup_limit);
  return {Level::good, "cores", fact, ""};
}

Finding threads_finding(const Diagnosis& diagnosis, const Environment& environment) {
  const Cores& cores = diagnosis.machine.cores;
  const std::string crowd = crowded_threads(cores.usable, cores, diagnosis.cores_taken);
  if (!crowd.empty())
    return {Level::advice, "threads", crowd,
            "start with --threads 1, or when the others are done. A program alone takes a thread "
            "for each core, however busy they are: another number rounds differently."};
  constexpr const char* kNames[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY"};
  const std::string fact = join(kNames, ", ", [&](const char* name) {
    const std::string value = variable_in(environment, name);
    return name + (value.empty() ? " not set" : "=" + value);
  });
  if (!variable_in(environment, "OPENBLAS_NUM_THREADS").empty())
    return {Level::good, "threads", fact, ""};
  return {Level::good, "threads",
          fact + "; `troupe run` sets what is not, a program started by hand uses its --threads",
          ""};
}

Finding loopback_finding(const Machine& machine) {
  if (machine.loopback_error.empty())
    return {Level::good, "loopback", "a port of 127.0.0.1 can be listened on", ""};
  return {Level::problem, "loopback",
          "no port of 127.0.0.1 can be listened on: " + machine.loopback_error,
          "bring the loopback interface up: `ip link set lo up`."};
}

Finding addresses_finding(const Machine& machine) {
  std::vector<std::string> all;
  for (const InterfaceAddress& each : machine.addresses)
    if (!each.loopback) all.push_back(each.interface + " " + each.address);
  return {Level::good, "addresses", all.empty() ? "loopback only" : join(all), ""};
}

Finding name_finding(const Machine& machine) {
  if (!machine.name_is_loopback) return {Level::good, "name", machine.name, ""};
  return {Level::advice, "name",
          text(machine.name, ", which /etc/hosts sends to an address of loopback"),
          "in a cluster of several machines, name this one by its address, not by its name."};
}

Finding files_finding(const Machine& machine) {
  if (machine.open_file_limit >= kFewOpenFiles)
    return {Level::good, "open files", text("at most ", machine.open_file_limit), ""};
  return {Level::advice, "open files", text("at most ", machine.open_file_limit),
          "raise it for groups of many workers: `ulimit -n 4096`."};
}

/// `file`: what TROUPE_SECRET_FILE says; null: nothing.
Finding secret_finding(const SecretSource& source, const detail::GivenText* file) {
  using Kind = SecretSource::Kind;
  if (source.kind == Kind::missing)
    return {Level::advice, "secret", "none in TROUPE_SECRET_FILE, and the cluster needs one",
            "`troupe secret FILE` makes one; name it in that variable or in --secret-file."};
  if (source.kind == Kind::user_key)
    return {Level::good, "secret", text("this user's key, ", source.path), ""};
  if (file == nullptr) return {Level::good, "secret", "one process needs none", ""};
  try {
    (void)read_secret_file(file->value, file->origin);
    return {Level::good, "secret", text(file->origin, " ", file->value), ""};
  } catch (const Error& error) {
    return {Level::problem, "secret", error.cause(), error.fix()};
  }
}

/// What the environment says of cluster and secret, read as a training program reads it.
std::vector<Finding> settings_findings(const Environment& environment) {
  Cluster cluster;
  detail::GivenTexts given;
  Finding place{Level::good, "cluster", "", ""};
  try {
    detail::Settings settings;
    const detail::FlagTable table(detail::builtin_flags(settings));
    std::vector<std::string> ignored;
    given = read_environment(environment, table, ignored);
    assign(given, table);
    cluster = resolve_cluster(given, environment).cluster;
    const bool alone =
        cluster.world_size() == 1 && cluster.servers.empty() && !cluster.is_evaluator();
    place.fact = alone ? text("one worker (", cluster.origin, ")")
                       : text("from ", cluster.origin, ": ", place_text(cluster));
  } catch (const Error& error) {
    place = {Level::problem, "cluster", error.cause(), error.fix()};
    given.erase("secret-fd");  // its value may be what is wrong
  }
  return {place, secret_finding(choose_secret(given, cluster, true, environment),
                                detail::given_for(given, "secret-file"))};
}

/// By level: in JSON, and before a line for people.
constexpr const char* kLevelNames[] = {"good", "advice", "problem"};
constexpr const char* kLevelMarks[] = {"  ok  ", "  !   ", "  NO  "};

nlohmann::json machine_json(const Machine& machine) {
  nlohmann::json json;
  json["cores"] = {{"online", machine.cores.online},
                   {"affinity", machine.cores.affinity},
                   {"usable", machine.cores.usable},
                   {"cgroup_limit", nullptr}};
  if (machine.cores.cgroup_limit) json["cores"]["cgroup_limit"] = *machine.cores.cgroup_limit;
  json["blas"] = {{"name", name_of(machine.blas.kind)},
                  {"path", machine.blas.path},
                  {"version", machine.blas.version},
                  {"slow", machine.blas.slow()}};
  json["openmp"] = machine.openmp;
  json["cpu_capability"] = machine.cpu_capability;
  json["memory_bytes"] = machine.memory_bytes;
  json["name"] = machine.name;
  json["addresses"] = nlohmann::json::array();
  for (const InterfaceAddress& each : machine.addresses)
    json["addresses"].push_back(
        {{"interface", each.interface}, {"address", each.address}, {"loopback", each.loopback}});
  json["open_file_limit"] = machine.open_file_limit;
  json["locale"] = machine.locale;
  return json;
}

}  // namespace

bool Diagnosis::ready() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.level == Level::problem; });
}

Diagnosis diagnose() {
  const Environment environment = process_environment();  // before BLAS starts its threads
  Diagnosis diagnosis;
  diagnosis.libtorch_version = TROUPE_LIBTORCH_VERSION;
  diagnosis.libtorch_package = TROUPE_LIBTORCH_PACKAGE;
  diagnosis.libtorch_path = find_libtorch(environment);
  if (!diagnosis.libtorch_version.empty())
    diagnosis.engines = {{"native", ""},
                         {"gloo", TROUPE_GLOO_LACKS},
                         {"nccl", TROUPE_NCCL_LACKS},
                         {"mpi", TROUPE_MPI_LACKS}};
  if (!diagnosis.libtorch_path.empty() &&
      dlopen(diagnosis.libtorch_path.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    diagnosis.libtorch_error = dlerror();
  }
  diagnosis.cores_taken = cores_taken(std::chrono::milliseconds(100));
  diagnosis.machine = inspect_machine(diagnosis.libtorch_path);
  diagnosis.findings = find_all(diagnosis, environment);
  return diagnosis;
}

std::vector<Finding> find_all(const Diagnosis& diagnosis, const Environment& environment) {
  const Machine& machine = diagnosis.machine;
  std::vector<Finding> findings = {
      libtorch_finding(diagnosis),
      engines_finding(diagnosis),
      blas_finding(machine),
      openmp_finding(diagnosis),
      cores_finding(machine.cores),
      {Level::good, "CPU", "kernels for " + machine.cpu_capability, ""},
      threads_finding(diagnosis, environment),
      loopback_finding(machine),
      addresses_finding(machine),
      name_finding(machine),
      files_finding(machine),
  };
  for (Finding& each : settings_findings(environment)) findings.push_back(std::move(each));
  return findings;
}

std::string to_text(const Diagnosis& diagnosis) {
  constexpr std::size_t kTopicColumns = 12;
  std::string lines = text("troupe ", kVersion, " on ", diagnosis.machine.name, "\n");
  for (const Finding& finding : diagnosis.findings) {
    std::string topic = finding.topic;
    topic.resize(kTopicColumns, ' ');
    lines += text(kLevelMarks[static_cast<int>(finding.level)], topic, finding.fact, "\n");
    if (!finding.fix.empty()) lines += text("                  Fix: ", finding.fix, "\n");
  }
  return lines + (diagnosis.ready() ? "ready to train\n" : "not ready to train\n");
}

std::string to_json(const Diagnosis& diagnosis) {
  nlohmann::json json = machine_json(diagnosis.machine);
  json["ready"] = diagnosis.ready();
  json["version"] = kVersion;
  json["libtorch"] = {{"version", diagnosis.libtorch_version},
                      {"package", diagnosis.libtorch_package},
                      {"path", diagnosis.libtorch_path}};
  json["engines"] = nlohmann::json::array();
  for (const EngineFact& engine : diagnosis.engines)
    if (engine.lacks.empty()) json["engines"].push_back(engine.name);
  json["findings"] = nlohmann::json::array();
  for (const Finding& finding : diagnosis.findings)
    json["findings"].push_back({{"level", kLevelNames[static_cast<int>(finding.level)]},
                                {"topic", finding.topic},
                                {"fact", finding.fact},
                                {"fix", finding.fix}});
  // An environment may hold bytes that are not UTF-8; they must not cost the rest.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace troupe
