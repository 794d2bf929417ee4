// In place of onnx_model.cpp where the build had no ONNX library.
#include "troupe/core/error.h"
#include "troupe/export/onnx/onnx_model.h"

namespace troupe::detail {

void write_onnx_model(const TracedGraph& /*trace*/, const OnnxInterface& /*interface*/,
                      const std::string& /*path*/) {
  throw ConfigError("this build cannot write ONNX: " TROUPE_ONNX_LACKS ".",
                    "build Troupe with ONNX's library and TROUPE_ONNX=ON, or export with "
                    "--export-format torchscript.");
}

}  // namespace troupe::detail
