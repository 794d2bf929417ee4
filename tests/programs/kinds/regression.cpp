// Regression, as its simplest.
#include "tests/programs/nets.h"

namespace troupe::programs::regression {

Result plain(const Shares& shares) {
  const auto net = initialized(std::make_shared<NetImpl>());
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  auto losses = plain_loop(shares, *net, sgd, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

const bool added = add({"regression", plain, [] { return std::make_unique<NetHooks<NetImpl>>(); }});

}  // namespace troupe::programs::regression
