#include "hooks/loss_set.h"

#include "core/error.h"
#include "hooks/named.h"

namespace troupe {

LossSet::LossSet(std::initializer_list<std::pair<std::string, LossFunction>> losses) {
  for (const auto& [name, function] : losses) add(name, function);
}

LossSet& LossSet::add(std::string name, LossFunction function) {
  detail::check_new_name(losses_, name, "loss", "create_losses");
  if (!function) {
    throw ConfigError("loss \"" + name + "\" is an empty function.",
                      "give it a function of predictions and targets in create_losses.");
  }
  losses_.emplace_back(std::move(name), std::move(function));
  return *this;
}

const LossFunction& LossSet::at(const std::string& name) const {
  return detail::find_named(losses_, name, "loss", "create_losses");
}

}  // namespace troupe
