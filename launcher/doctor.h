// Doctor: what a training process finds on this machine, and what to do about what is wrong.
#pragma once

#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/core/machine.h"

namespace troupe {

/// One line of the diagnosis.
struct Finding {
  enum class Level { good, advice, problem };  // a problem: training cannot run

  Level level = Level::good;
  std::string topic;  // "BLAS"
  std::string fact;   // "OpenBLAS, /usr/lib/..."
  std::string fix;    // what to do; empty if nothing
};

/// What --communication can name, as of this build.
struct EngineFact {
  std::string name;   // "gloo"
  std::string lacks;  // empty: the build has it; else why not: "LibTorch was built without CUDA"
};

struct Diagnosis {
  Machine machine;
  std::string libtorch_version;  // by the headers of Troupe's build; empty: built without
  std::string
      libtorch_package;  // that those headers belong to, "libtorch-dev 1.13.1+dfsg-4"; empty: none
  std::string libtorch_path;   // libtorch_cpu.so on this machine; empty: not found
  std::string libtorch_error;  // why it could not be loaded; empty: it was
  double cores_taken = 0;      // by others, while it looked
  std::vector<EngineFact> engines;
  std::vector<Finding> findings;

  [[nodiscard]] bool ready() const;
};

/// Looks at this machine and at this process's environment. Loads LibTorch, to see what it computes
/// with; OpenBLAS starts its threads then.
[[nodiscard]] Diagnosis diagnose();

/// The findings that follow from the facts in `diagnosis` and from `environment`.
[[nodiscard]] std::vector<Finding> find_all(const Diagnosis& diagnosis,
                                            const Environment& environment);

/// Lines for people: a mark, the topic, the fact, and below it the fix.
[[nodiscard]] std::string to_text(const Diagnosis& diagnosis);

/// One JSON object and a newline. Keys: ready, version, libtorch, engines (built in), cores, blas,
/// openmp, cpu_capability, memory_bytes, name, addresses, open_file_limit, locale, findings.
[[nodiscard]] std::string to_json(const Diagnosis& diagnosis);

}  // namespace troupe
