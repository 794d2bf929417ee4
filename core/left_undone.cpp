#include "core/left_undone.h"

#include <mutex>
#include <utility>

namespace troupe::detail {
namespace {

std::mutex g_mutex;
std::string g_undone;  // run_main, which reads it, knows none of the objects that write it

}  // namespace

void leave_undone(const std::string& what) noexcept {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (g_undone.empty()) g_undone = what;
}

std::string take_left_undone() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  return std::exchange(g_undone, std::string());
}

}  // namespace troupe::detail
