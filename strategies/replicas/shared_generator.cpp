#include "troupe/strategies/replicas/shared_generator.h"

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <memory>

#include "troupe/core/text.h"
#include "troupe/hooks/hook_error.h"

namespace troupe::detail {
namespace {

/// The first operation of this thread that took a generator; null: nobody asks.
thread_local std::string* first_draw = nullptr;

std::unique_ptr<at::ObserverContext> look_at(const at::RecordFunction& operation) {
  if (!first_draw->empty()) return nullptr;
  const auto schema = operation.operator_schema();
  if (!schema) return nullptr;
  for (const c10::Argument& argument : schema->arguments()) {
    if (argument.type()->str() == "Generator?") *first_draw = operation.name();
  }
  return nullptr;
}

}  // namespace

SharedGenerator::SharedGenerator(const std::vector<c10::Device>& devices)
    : sharing_(std::count(devices.begin(), devices.end(), devices.front())),
      device_(devices.front().is_cpu() ? "the CPU" : devices.front().str()) {}

void SharedGenerator::look(Phase phase, const std::function<void()>& work) {
  std::string draw;
  first_draw = &draw;
  const at::CallbackHandle handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&look_at).scopes({at::RecordScope::FUNCTION}));
  {
    const auto end = c10::make_scope_exit([handle] {
      at::removeCallback(handle);
      first_draw = nullptr;
    });
    work();
  }
  if (draw.empty()) return;
  draws_ = text(hook_of(phase), " draws random numbers (", draw, ") on ", device_, ", where ",
                sharing_, " replicas share LibTorch's one generator, in any order");
}

}  // namespace troupe::detail
