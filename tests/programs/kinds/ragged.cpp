// Examples of different lengths: pictures with boxes, of which some have none, and graphs. Padded
// on the way to the step, ragged in it.
#include "tests/programs/nets.h"
#include "troupe/data/examples.h"

namespace troupe::programs::lengths {

torch::optim::SGDOptions options() { return torch::optim::SGDOptions(0.05).momentum(0.9); }

/// 0 to 3 boxes of one number each, of row `i`: [l, 1].
at::Tensor boxes_of(const Rows& rows, std::int64_t i) {
  const std::int64_t count = rows.tokens[i][0].item<std::int64_t>() % 4;
  return rows.y[i] + 0.1 * torch::arange(count, rows.y.options()).unsqueeze(1);
}

/// Nodes [n, 6] and edges [e, 2] of row `i`, from node to node.
struct Graph {
  at::Tensor nodes, edges;
};
Graph graph_of(const Rows& rows, std::int64_t i) {
  const std::int64_t count = 2 + rows.tokens[i][0].item<std::int64_t>() % 3;
  const at::Tensor numbers = torch::arange(1, count + 1, rows.x.options()).unsqueeze(1);
  const at::Tensor from = torch::arange(count - 1);
  at::Tensor edges = torch::stack({from, from + 1}, 1);
  if (rows.tokens[i][1].item<std::int64_t>() % 2 == 1) edges = torch::cat({edges, edges.flip(1)});
  return {rows.x[i] * numbers / static_cast<double>(count), edges};
}

Splits splits_of(const std::function<Example(const Rows&, std::int64_t)>& lengths,
                 Collate collate) {
  const Rows all = all_rows();
  const auto data = std::make_shared<ExampleDataset>(
      kExamples,
      [all, lengths](std::int64_t i, ExampleRandom&) {
        Example example{all.x[i], all.y[i], all.label[i], all.tokens[i], all.object[i]};
        for (at::Tensor& field : lengths(all, i)) example.push_back(std::move(field));
        return example;
      },
      std::move(collate));
  Splits splits{data, data, data};
  splits.sampler = sequential();
  return splits;
}

/// Every box of a picture is told from the picture; the mean is over boxes.
Result plain_boxes(const Shares& /*cut*/) {
  const auto net = initialized(std::make_shared<NetImpl>());
  torch::optim::SGD sgd(net->parameters(), options());
  const auto mean = [&](const Rows& rows) {
    std::vector<at::Tensor> each;
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      const at::Tensor boxes = boxes_of(rows, i);
      if (boxes.size(0) > 0) each.push_back(squares(net->forward(rows.x.narrow(0, i, 1)), boxes));
    }
    return torch::cat(each).mean();
  };
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    clear_gradients(sgd);
    const at::Tensor loss = mean(Shares().of(step).front());
    backward(loss);
    sgd.step();
    losses.push_back(loss.item<double>());
  }
  const torch::NoGradGuard no_grad;
  return {std::move(losses), mean(all_rows()).item<double>(), tensors_of(*net)};
}

class BoxHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<NetImpl>());
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), options())};
  }
  [[nodiscard]] Splits create_datasets() const override {
    return splits_of([](const Rows& rows, std::int64_t i) { return Example{boxes_of(rows, i)}; },
                     padded_apart({5}));
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const at::Tensor each = of_boxes(replica, batch);
    const at::Tensor loss = replica.global_mean(each, torch::ones_like(each));
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    const at::Tensor each = of_boxes(replica, batch);
    replica.metric("error").update(each);
    return replica.global_mean(each, torch::ones_like(each));
  }

 private:
  static at::Tensor of_boxes(Replica& replica, const Batch& batch) {
    const RaggedRows boxes = ragged(batch.fields[5], batch.fields[6]);
    const at::Tensor told = replica.model<NetImpl>().forward(batch.fields[0]);
    return squares(told.index_select(0, boxes.example), boxes.values);
  }
};

const bool added_boxes = add({"boxes: examples of different lengths", plain_boxes,
                              [] { return std::make_unique<BoxHooks>(); }});

/// Nodes hear what comes along their edges, and a graph is the mean of its nodes.
struct GraphNetImpl : torch::nn::Module {
  GraphNetImpl() {
    own = register_module("own", torch::nn::Linear(kInputs, 8));
    heard = register_module("heard", torch::nn::Linear(kInputs, 8));
    out = register_module("out", torch::nn::Linear(8, 1));
  }
  /// Nodes [R, 6], edges [E, 2] of their numbers, and each node's graph of `graphs`: [graphs, 1].
  at::Tensor forward(const at::Tensor& nodes, const at::Tensor& edges, const at::Tensor& graph,
                     std::int64_t graphs) {
    const at::Tensor said = heard->forward(nodes).index_select(0, edges.select(1, 0));
    const at::Tensor own_part = own->forward(nodes);
    const at::Tensor hidden =
        torch::tanh(own_part.index_add(0, edges.select(1, 1), said.to(own_part.scalar_type())));
    const at::Tensor sum = hidden.new_zeros({graphs, hidden.size(1)}).index_add(0, graph, hidden);
    const at::Tensor count =
        hidden.new_zeros({graphs}).index_add(0, graph, hidden.new_ones({graph.size(0)}));
    return out->forward(sum / count.unsqueeze(1));
  }
  torch::nn::Linear own{nullptr}, heard{nullptr}, out{nullptr};
};

at::Tensor told_of(GraphNetImpl& net, const Rows& rows) {
  std::vector<at::Tensor> each;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const Graph graph = graph_of(rows, i);
    each.push_back(net.forward(graph.nodes, graph.edges,
                               torch::zeros({graph.nodes.size(0)}, torch::kLong), 1));
  }
  return torch::cat(each);
}

Result plain_graphs(const Shares& cut) {
  const auto net = initialized(std::make_shared<GraphNetImpl>());
  torch::optim::SGD sgd(net->parameters(), options());
  auto losses = plain_loop(cut, *net, sgd, [&](const Rows& rows, std::int64_t) {
    return squares(told_of(*net, rows), rows.y);
  });
  const torch::NoGradGuard no_grad;
  const Rows all = all_rows();
  return {std::move(losses), squares(told_of(*net, all), all.y).mean().item<double>(),
          tensors_of(*net)};
}

class GraphHooks : public ProgramHooks {
 public:
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<GraphNetImpl>());
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), options())};
  }
  [[nodiscard]] Splits create_datasets() const override {
    return splits_of(
        [](const Rows& rows, std::int64_t i) {
          const Graph graph = graph_of(rows, i);
          return Example{graph.nodes, graph.edges};
        },
        padded_apart({5, 6}));
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const at::Tensor loss = replica.global_mean(of_graphs(replica, batch));
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    const at::Tensor each = of_graphs(replica, batch);
    replica.metric("error").update(each);
    return replica.global_mean(each);
  }

 protected:
  [[nodiscard]] at::Tensor errors(Replica& /*replica*/, const Rows& rows) const override {
    return rows.object;  // not called: both steps read the graphs
  }

 private:
  static at::Tensor of_graphs(Replica& replica, const Batch& batch) {
    const RaggedRows nodes = ragged(batch.fields[5], batch.fields[7]);
    const RaggedRows edges = ragged(batch.fields[6], batch.fields[8]);
    // A graph's nodes are numbered from 0; here they come after those of the graphs before it.
    const at::Tensor joined =
        edges.values + nodes.offsets.index_select(0, edges.example).unsqueeze(1);
    const at::Tensor told = replica.model<GraphNetImpl>().forward(
        nodes.values, joined, nodes.example, batch.fields[1].size(0));
    return squares(told, batch.fields[1]);
  }
};

const bool added_graphs = add({"graphs: nodes and edges of different numbers", plain_graphs,
                               [] { return std::make_unique<GraphHooks>(); }});

}  // namespace troupe::programs::lengths
