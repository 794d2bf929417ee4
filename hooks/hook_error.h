// HookError: an error of LibTorch inside a hook, with what LibTorch cannot know: which hook, after
// which step, on what batch.
#pragma once

#include <cstdint>

#include "core/error.h"
#include "data/batch.h"
#include "hooks/phase.h"

namespace c10 {
class Error;
}  // namespace c10

namespace troupe {

/// LibTorch refused an operation of a hook.
class HookError final : public Error {
 public:
  using Error::Error;
  [[nodiscard]] const char* kind() const noexcept override { return "failed"; }
};

namespace detail {

/// `error` as a HookError; `steps` were trained before the phase's hook was given `batch`.
[[nodiscard]] HookError hook_error(const c10::Error& error, Phase phase, std::int64_t steps,
                                   const Batch& batch);

}  // namespace detail
}  // namespace troupe
