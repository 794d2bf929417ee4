// Rows of a model's parameters: which optimiser trains each, what is frozen, tied or a buffer.
#include "troupe/train/model_summary.h"

#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/hooks/parameter_update.h"

using troupe::ParameterRow;

namespace {

/// Two linear layers that share a weight, and batch norm; the optimiser has the first layer only.
struct TiedNet : torch::nn::Module {
  TiedNet() {
    register_module("first", first);
    register_module("second", second);
    register_module("norm", norm);
    second->weight = second->register_parameter("weight2", first->weight);
  }
  torch::nn::Linear first{3, 3};
  torch::nn::Linear second{3, 3};
  torch::nn::BatchNorm1d norm{3};
};

const ParameterRow& find(const std::vector<ParameterRow>& rows, const std::string& name) {
  for (const ParameterRow& row : rows) {
    if (row.name == name) return row;
  }
  throw std::runtime_error("no row " + name);
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("model summary: trained, frozen, tied, buffers, and two models") {
    const auto net = std::make_shared<TiedNet>();
    net->first->bias.set_requires_grad(false);
    const auto other = std::make_shared<torch::nn::LinearImpl>(2, 1);
    other->to(torch::kFloat64);
    troupe::Trainable trainable;
    trainable.add_model("model", net).add_model("critic", other);
    trainable.add_optimizer("sgd",
                            std::make_shared<torch::optim::SGD>(net->first->parameters(), 0.1));
    trainable.add_optimizer("adam", std::make_shared<torch::optim::Adam>(other->parameters()));
    troupe::ParameterUpdate update;
    troupe::Replica replica(trainable, {}, {}, {}, update);

    const auto rows = troupe::parameter_rows(replica);
    CHECK(rows.size() ==
          replica.parameters().size() + 1 + replica.buffers().size());  // one is tied
    const ParameterRow& weight = find(rows, "first.weight");
    CHECK(weight.shape == std::vector<std::int64_t>{3, 3});
    CHECK((weight.count == 9 && weight.bytes == 36 && weight.type == "float32"));
    CHECK((weight.trained && weight.optimizer == "sgd" && weight.tied_to.empty()));
    CHECK_FALSE(find(rows, "first.bias").trained);
    CHECK(find(rows, "first.bias").optimizer == "sgd");
    CHECK(find(rows, "second.weight2").tied_to == "first.weight");
    CHECK(find(rows, "second.bias").optimizer.empty());
    CHECK(find(rows, "norm.num_batches_tracked").is_buffer);
    CHECK(find(rows, "norm.num_batches_tracked").type == "int64");
    CHECK(find(rows, "critic.weight").optimizer == "adam");
    CHECK(find(rows, "critic.weight").bytes == 16);

    const auto totals = troupe::total(rows);
    CHECK(totals.trained == 9 + 2 + 1);
    CHECK(totals.frozen == 3 + 9 + 3 + 3 + 3);  // a bias, second's own weight and bias, norm
    CHECK(totals.buffers == 3 + 3 + 1);
    CHECK(totals.bytes == 4 * (9 + 3 + 9 + 3 + 3 + 3) + 8 * 3 + 4 * 6 + 8);
  }

  TEST_CASE("model summary: a group's options are those that it trains with") {
    namespace o = torch::optim;
    const auto net = std::make_shared<TiedNet>();
    std::vector<o::OptimizerParamGroup> groups;
    groups.emplace_back(net->first->parameters(),
                        std::make_unique<o::SGDOptions>(o::SGDOptions(0.25).nesterov(false)));
    groups.emplace_back(std::vector<at::Tensor>{net->second->bias},
                        std::make_unique<o::SGDOptions>(o::SGDOptions(0.5).momentum(0.75)));
    const auto sgd = std::make_shared<o::SGD>(groups, o::SGDOptions(0.125));
    // As docs/optimizers.md says it: after construction, nothing replaces it.
    static_cast<o::SGDOptions&>(sgd->param_groups()[1].options()).weight_decay(0);
    troupe::Trainable trainable;
    trainable.add_model("model", net).add_optimizer("sgd", sgd);
    troupe::ParameterUpdate update;
    troupe::Replica replica(trainable, {}, {}, {}, update);
    CHECK(troupe::optimizer_lines(replica) ==
          "sgd: SGD of 2 parameters, lr = 0.25, momentum = 0, dampening = 0, weight_decay = 0, "
          "nesterov = false\n"
          "sgd: SGD of 1 parameters, lr = 0.5, momentum = 0.75, dampening = 0, weight_decay = 0, "
          "nesterov = false\n");
  }
}
