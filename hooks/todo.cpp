#include "troupe/hooks/todo.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <vector>

#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/hooks/hooks.h"
#include "troupe/hooks/parameter_update.h"

namespace troupe {
namespace {

/// Adds what `hook` says is open; any other outcome is not this check's business.
void collect(const std::function<void()>& hook, std::vector<std::string>& open) {
  try {
    hook();
  } catch (const TodoError& error) {
    open.push_back(error.cause());
  } catch (const std::exception&) {  // the hook is written; what it did with no model is its own
  }
}

}  // namespace

void detail::Todo::raise() const {
  throw TodoError(text("TODO ", number_, ": ", what_, "."),
                  "fill it in in my_hooks.h; its comment shows a working line.");
}

void check_no_open_todos(const Hooks& hooks) {
  std::vector<std::string> open;
  collect([&] { (void)hooks.create_losses(); }, open);
  collect([&] { (void)hooks.create_metrics(); }, open);
  collect([&] { (void)hooks.create_model(); }, open);
  collect([&] { (void)hooks.create_datasets(); }, open);
  if (open.empty()) return;

  Trainable nothing;
  nothing.models.emplace_back("model", std::make_shared<torch::nn::Module>());
  ParameterUpdate reduction;
  Replica replica(nothing, {}, {}, {}, reduction);
  const Batch batch{{at::empty({0}), at::empty({0})}, 1, true};
  collect([&] { (void)hooks.train_step(replica, batch); }, open);
  collect([&] { (void)hooks.validation_step(replica, batch); }, open);
  collect([&] { (void)hooks.test_step(replica, batch); }, open);

  std::vector<std::string> once;  // several steps may call one helper
  for (const std::string& item : open) {
    if (std::find(once.begin(), once.end(), item) == once.end()) once.push_back(item);
  }
  throw TodoError(text("the template is not filled in yet. ", join(once, " ")),
                  "fill these in in my_hooks.h; each comment shows a working line.");
}

}  // namespace troupe
