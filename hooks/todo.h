// todo(): what an unfilled hook of template/ returns, so that the template compiles as shipped and
// reports at run time what is left to do.
#pragma once

#include <string>
#include <utility>

namespace troupe {

class Hooks;

namespace detail {

/// Converts to any hook's return type, by throwing TodoError.
class Todo {
 public:
  Todo(int number, std::string what) : number_(number), what_(std::move(what)) {}
  template <class T>
  operator T() const {  // NOLINT: implicit, so that `return todo(...)` fits every hook
    raise();
  }
  [[noreturn]] void raise() const;

 private:
  int number_;
  std::string what_;
};

}  // namespace detail

/// `return troupe::todo(4, "create_model: return your network and its optimiser");`
[[nodiscard]] inline detail::Todo todo(int number, std::string what) {
  return {number, std::move(what)};
}

/// Finds the hooks that still return todo(), by calling them: the create_ hooks and, if one of
/// these is open, the steps of training, validation and test (with an empty batch and no model, so
/// they cannot go further). predict_step is optional and not called.
/// Throws: TodoError listing every open one.
void check_no_open_todos(const Hooks& hooks);

}  // namespace troupe
