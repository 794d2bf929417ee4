#include "troupe/core/user_code.h"

#include <cstdlib>
#include <memory>

#include "troupe/core/text.h"

namespace troupe::detail {

std::string name_of_type(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : type.name();
}

std::string words_of(const std::exception& error) {
  std::string words = error.what();
  words = words.substr(0, words.find("Exception raised from"));
  std::string line;
  for (const char c : words) {
    const bool is_blank = static_cast<unsigned char>(c) <= 0x20 || c == 0x7f;
    if (!is_blank) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  line.erase(line.find_last_not_of(". (") + 1);
  return line;
}

void throw_hook_error(const std::string& where, const FixOf& fix_of) {
  const char* const look =
      "see what the program does there; in gdb, `catch throw` stops where it happens.";
  try {
    throw;
  } catch (const std::exception& error) {
    const std::string words = words_of(error);
    const std::string fix = fix_of ? fix_of(error, words) : "";
    const std::string type = fix.empty() ? text(" (", name_of_type(typeid(error)), ")") : "";
    throw HookError(text(where, ": ", words.empty() ? "it says nothing" : words, type, "."),
                    fix.empty() ? look : fix);
  } catch (...) {
    const std::type_info* const type = abi::__cxa_current_exception_type();
    throw HookError(text(where, ": it threw ", type == nullptr ? "something" : name_of_type(*type),
                         ", which is no std::exception."),
                    look);
  }
}

}  // namespace troupe::detail
