// in_user_code: calls code of the program's own: a hook, a data set, a metric, an exporter, a
// callback. Whatever it throws becomes a HookError that says where that was, in one line.
#pragma once

#include <cxxabi.h>

#include <exception>
#include <functional>
#include <new>
#include <string>
#include <typeinfo>

#include "troupe/core/failure.h"

namespace troupe::detail {

/// "std::out_of_range"
[[nodiscard]] std::string name_of_type(const std::type_info& type);

/// What an exception says, whole and in one line, without what LibTorch adds for its own
/// developers.
[[nodiscard]] std::string words_of(const std::exception& error);

/// What to do about an exception, by what it says; "": nothing special is known.
using FixOf = std::function<std::string(const std::exception& error, const std::string& words)>;

/// For a handler, of whatever is being handled. Throws: HookError.
[[noreturn]] void throw_hook_error(const std::string& where, const FixOf& fix_of);

/// Returns what `body` does. Troupe's own errors, which name their cause, and a lack of memory
/// pass; `where()`, such as "after_step failed after 12 steps", is asked if anything else is
/// thrown. Throws: HookError "<where>: <what it says>."
template <class Body, class Where>
decltype(auto) in_user_code(Body&& body, Where&& where, const FixOf& fix_of = nullptr) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const ControlFlow&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const abi::__forced_unwind&) {  // a thread that is being cancelled
    throw;
  } catch (...) {
    throw_hook_error(where(), fix_of);
  }
}

}  // namespace troupe::detail
