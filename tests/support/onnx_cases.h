// Inputs of an exported model.onnx and the outputs that are expected, and their check by ONNX's
// checker and a runtime, as far as they are here (tests/interop/check_onnx.py).
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/torch_prelude.h"
#include "troupe/hooks/tensors/tensor_file.h"

namespace troupe::testing {

inline constexpr int kNothingHere = 77;  // check_onnx.py's exit code

/// Each by "<case>/in/<input>" or "<case>/out/<output>".
inline void write_cases(const std::filesystem::path& folder,
                        const std::vector<NamedTensor>& cases) {
  const std::vector<std::byte> bytes = write_tensors(cases);
  std::ofstream out(folder / "cases.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

/// Exit code kNothingHere: nothing was checked.
[[nodiscard]] inline ProcessResult check_onnx(const std::vector<std::string>& folders) {
  ProcessResult result;
  for (const std::string python :
       {TROUPE_SOURCE_DIR "/build/venv/onnxruntime/bin/python3", "/usr/bin/python3", "python3"}) {
    std::vector<std::string> command = {python, TROUPE_SOURCE_DIR "/tests/interop/check_onnx.py"};
    command.insert(command.end(), folders.begin(), folders.end());
    result = run_process(command);
    if (result.exit_code != kNothingHere && result.exit_code != 127) return result;
  }
  result.exit_code = kNothingHere;
  return result;
}

}  // namespace troupe::testing
