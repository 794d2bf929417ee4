#include "troupe/export/trace_reading.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <unordered_map>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/export/model_signature.h"

namespace troupe::detail {
namespace {

namespace jit = torch::jit;

ElementType element_of(at::ScalarType type) {
  return type_name(type, "a tensor of the model").onnx;
}

std::vector<Size> shape_of(c10::IntArrayRef sizes) { return {sizes.begin(), sizes.end()}; }

TracedTensor stored(const std::string& name, const at::Tensor& tensor) {
  auto owner = std::make_shared<const at::Tensor>(tensor.detach().to(at::kCPU).contiguous());
  auto weights = std::make_shared<Weights>();
  weights->name = name;
  weights->data = static_cast<const std::byte*>(owner->data_ptr());
  weights->bytes = owner->nbytes();
  weights->owner = owner;
  return {element_of(tensor.scalar_type()), shape_of(tensor.sizes()), std::move(weights)};
}

class TraceReader {
 public:
  explicit TraceReader(const jit::Module& module) : self_(module._ivalue()) {}

  TracedGraph read(const jit::Graph& graph) {
    objects_[graph.inputs()[0]] = {self_, ""};
    for (std::size_t i = 1; i < graph.inputs().size(); ++i) {
      graph_.inputs.push_back(add(graph.inputs()[i], computed(graph.inputs()[i])));
    }
    for (const jit::Node* node : graph.nodes()) read(*node);
    for (const jit::Value* output : graph.outputs()) {
      if (output->node()->kind() != c10::prim::TupleConstruct) {
        graph_.outputs.push_back(ids_.at(output));
        continue;
      }
      for (const jit::Value* part : output->node()->inputs()) {
        graph_.outputs.push_back(ids_.at(part));
      }
    }
    return std::move(graph_);
  }

 private:
  struct Part {
    c10::IValue value;
    std::string name;  // "layers.0"; "": the module itself
  };

  ValueId add(const jit::Value* value, TracedValue content) {
    graph_.values.push_back(std::move(content));
    return ids_[value] = graph_.values.size() - 1;
  }

  void read(const jit::Node& node) {
    switch (node.kind()) {
      case c10::prim::GetAttr:
        read_part(node);
        break;
      case c10::prim::Constant:
        add(node.output(), constant(jit::toIValue(node.output()).value()));
        break;
      case c10::prim::ListConstruct:
        add(node.output(), TracedList(ids_of(node.inputs())));
        break;
      case c10::prim::ListUnpack:  // read with what makes the list
      case c10::prim::TupleConstruct:
        break;
      default:
        read_operator(node);
    }
  }

  /// A module within one, or a tensor of one.
  void read_part(const jit::Node& node) {
    const Part& whole = objects_.at(node.input());
    const std::string& name = node.s(c10::attr::name);
    Part part{whole.value.toObjectRef().getAttr(name),
              whole.name.empty() ? name : whole.name + "." + name};
    if (part.value.isTensor()) {
      add(node.output(), stored(part.name, part.value.toTensor()));
    } else {
      objects_[node.output()] = std::move(part);
    }
  }

  void read_operator(const jit::Node& node) {
    TracedNode traced;
    traced.op = node.kind().toQualString();
    const c10::FunctionSchema* schema = node.maybeSchema();
    const std::vector<ValueId> inputs = ids_of(node.inputs());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool named = schema != nullptr && i < schema->arguments().size();
      traced.arguments.emplace_back(named ? schema->arguments()[i].name() : text(i), inputs[i]);
    }
    for (const jit::Value* output : unpacked(node)) {
      traced.outputs.push_back(add(output, computed(output)));
    }
    graph_.nodes.push_back(std::move(traced));
  }

  /// The outputs; the tensors of a list where that is the output.
  static at::ArrayRef<const jit::Value*> unpacked(const jit::Node& node) {
    const auto outputs = node.outputs();
    if (outputs.size() != 1 || outputs[0]->uses().size() != 1) return outputs;
    const jit::Node* user = outputs[0]->uses()[0].user;
    return user->kind() == c10::prim::ListUnpack ? user->outputs() : outputs;
  }

  std::vector<ValueId> ids_of(at::ArrayRef<const jit::Value*> values) const {
    std::vector<ValueId> ids;
    for (const jit::Value* value : values) {
      const auto known = ids_.find(value);
      if (known == ids_.end()) {
        throw ConfigError(text("an operator takes a whole module or list as its argument: ",
                               value->type()->str(), "."),
                          "compute predictions with operators on tensors.");
      }
      ids.push_back(known->second);
    }
    return ids;
  }

  /// The trace knows type and shape of what it saw; Nothing: not a tensor.
  static TracedValue computed(const jit::Value* value) {
    const auto type = value->type()->cast<c10::TensorType>();
    if (type == nullptr || !type->scalarType()) return Nothing();
    const auto sizes = type->sizes().concrete_sizes();
    if (!sizes) return Nothing();
    return TracedTensor{element_of(*type->scalarType()), shape_of(*sizes), nullptr};
  }

  template <class Value, class Number>
  TracedValue list_of(const std::vector<Number>& numbers) {
    TracedList list;
    for (const Number number : numbers) {
      graph_.values.emplace_back(Value(number));
      list.push_back(graph_.values.size() - 1);
    }
    return list;
  }

  TracedValue constant(const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined()) return stored("", value.toTensor());
    if (value.isBool()) return value.toBool();
    if (value.isInt()) return Size(value.toInt());
    if (value.isDouble()) return value.toDouble();
    if (value.isString()) return value.toStringRef();
    if (value.isIntList()) return list_of<Size>(value.toIntVector());
    if (value.isDoubleList()) return list_of<double>(value.toDoubleVector());
    return Nothing();  // None; devices, layouts and generators, which ONNX does not know
  }

  const c10::IValue self_;
  TracedGraph graph_;
  std::unordered_map<const jit::Value*, ValueId> ids_;
  std::unordered_map<const jit::Value*, Part> objects_;  // modules
};

}  // namespace

TracedGraph read_trace(const jit::Module& module) {
  return TraceReader(module).read(*module.get_method("forward").graph());
}

}  // namespace troupe::detail
