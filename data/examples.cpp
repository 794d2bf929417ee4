#include "troupe/data/examples.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

/// Field `field` of every example.
std::vector<at::Tensor> column(const std::vector<Example>& examples, std::size_t field) {
  std::vector<at::Tensor> column;
  column.reserve(examples.size());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Example& example = examples[i];
    if (example.size() != examples[0].size() || !example[field].defined()) {
      throw DataError(text("example ", i, " of a batch has ", example.size(), " fields, the first ",
                           examples[0].size(), ", or an undefined one."),
                      "give every example the same fields.");
    }
    column.push_back(example[field]);
  }
  return column;
}

/// Of a batch's example i: shape and type that differ from the first's.
[[noreturn]] void fail_shapes(const std::vector<at::Tensor>& column, std::size_t i,
                              const std::string& field, const char* fix) {
  throw DataError(text("example ", i, " of a batch has a ", field, " of ", column[i].sizes(), " ",
                       column[i].scalar_type(), ", the first one of ", column[0].sizes(), " ",
                       column[0].scalar_type(), "."),
                  fix);
}

at::Tensor stack_field(const std::vector<Example>& examples, std::size_t field) {
  const std::vector<at::Tensor> all = column(examples, field);
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].sizes() == all[0].sizes() && all[i].scalar_type() == all[0].scalar_type()) continue;
    fail_shapes(all, i, text("field ", field),
                "make them alike in the transform, or give a collate function such as padded().");
  }
  return at::stack(all);
}

/// Fields of a batch, and a mask for each of those that were padded.
struct Padded {
  std::vector<at::Tensor> fields;
  std::vector<at::Tensor> masks;
};

void check_padded(const std::vector<std::size_t>& ragged, const char* who) {
  if (ragged.empty()) throw ConfigError(text(who, " is to pad no field."), "name at least one.");
}

Padded pad_fields(const std::vector<Example>& examples, const std::vector<std::size_t>& ragged,
                  double value) {
  const std::size_t fields = examples.at(0).size();
  Padded made;
  made.fields.resize(fields);
  for (const std::size_t field : ragged) {
    if (field >= fields) {
      throw DataError(
          text("a collate function is to pad field ", field, " of ", fields, " fields."),
          "count fields from 0.");
    }
    PaddedRows rows = pad(column(examples, field), value);
    made.fields[field] = std::move(rows.values);
    made.masks.push_back(std::move(rows.mask));
  }
  for (std::size_t field = 0; field < fields; ++field) {
    if (!made.fields[field].defined()) made.fields[field] = stack_field(examples, field);
  }
  return made;
}

class Transformed final : public detail::DrawnDataset {
 public:
  Transformed(std::shared_ptr<const Dataset> dataset,
              std::function<Example(Example, ExampleRandom&)> transform, Collate collate)
      : dataset_(std::move(dataset)),
        transform_(std::move(transform)),
        collate_(std::move(collate)) {}

  [[nodiscard]] std::int64_t size() const override { return dataset_->size(); }
  void draw_into(const at::Tensor& indices, const DrawPlace& place,
                 std::vector<at::Tensor>& fields) const override {
    fields.clear();
    std::vector<at::Tensor> whole;
    DrawPlace inner = place;  // the data set's own random numbers are others
    inner.seed = ExampleRandom(place.seed).next();
    dataset_->draw_into(indices, inner, whole);
    std::vector<Example> examples(static_cast<std::size_t>(indices.size(0)));
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      for (const at::Tensor& field : whole) examples[i].push_back(field.select(0, at));
      ExampleRandom random = place.random(at);
      examples[i] = transform_(std::move(examples[i]), random);
    }
    fields = collate_(examples);
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::function<Example(Example, ExampleRandom&)> transform_;
  Collate collate_;
};

}  // namespace

std::vector<at::Tensor> stack(const std::vector<Example>& examples) {
  std::vector<at::Tensor> fields;
  for (std::size_t field = 0; field < examples.at(0).size(); ++field) {
    fields.push_back(stack_field(examples, field));
  }
  return fields;
}

PaddedRows pad(const std::vector<at::Tensor>& rows, double value) {
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool alike = rows[i].dim() >= 1 && rows[i].dim() == rows[0].dim() &&
                       rows[i].scalar_type() == rows[0].scalar_type() &&
                       rows[i].sizes().slice(1) == rows[0].sizes().slice(1);
    if (!alike) {
      fail_shapes(rows, i, "row", "give rows [l, ...] that differ in their length alone.");
    }
    lengths.push_back(rows[i].size(0));
  }
  const at::Tensor values = at::pad_sequence(rows, /*batch_first=*/true, value);
  const at::Tensor places = at::arange(values.size(1), at::kLong);
  return {values, places < at::tensor(lengths, at::kLong).unsqueeze(1)};
}

Collate padded(std::vector<std::size_t> ragged, double value) {
  check_padded(ragged, "padded()");
  return [ragged = std::move(ragged), value](const std::vector<Example>& examples) {
    Padded made = pad_fields(examples, ragged, value);
    const at::Tensor& mask = made.masks.front();
    for (std::size_t i = 1; i < ragged.size(); ++i) {
      if (at::equal(mask, made.masks[i])) continue;
      throw DataError(text("field ", ragged[i], " of an example has another length than field ",
                           ragged[0], ", which is padded with it."),
                      "give them one length in each example, or collate by padded_apart().");
    }
    made.fields.push_back(mask);
    return std::move(made.fields);
  };
}

Collate padded_apart(std::vector<std::size_t> ragged, double value) {
  check_padded(ragged, "padded_apart()");
  return [ragged = std::move(ragged), value](const std::vector<Example>& examples) {
    Padded made = pad_fields(examples, ragged, value);
    made.fields.insert(made.fields.end(), made.masks.begin(), made.masks.end());
    return std::move(made.fields);
  };
}

RaggedRows ragged(const at::Tensor& values, const at::Tensor& mask) {
  if (!values.defined() || !mask.defined() || mask.dim() != 2 || mask.scalar_type() != at::kBool ||
      values.dim() < 2 || values.sizes().slice(0, 2) != mask.sizes()) {
    throw ConfigError("ragged() was given values and a mask that do not belong together.",
                      "give it a padded field [B, L, ...] of the batch, and that field's mask "
                      "[B, L] of booleans.");
  }
  const at::Tensor places = mask.flatten().nonzero().squeeze(1);  // [R]
  const at::Tensor lengths = mask.sum(1);
  return {values.flatten(0, 1).index_select(0, places),
          places.div(std::max<std::int64_t>(mask.size(1), 1), "floor"),
          at::cat({lengths.new_zeros({1}), lengths.cumsum(0)})};
}

ExampleDataset::ExampleDataset(std::int64_t size,
                               std::function<Example(std::int64_t, ExampleRandom&)> read,
                               Collate collate)
    : size_(size), read_(std::move(read)), collate_(std::move(collate)) {
  if (size_ >= 0 && read_ && collate_) return;
  throw ConfigError(text("an ExampleDataset of ", size_, " examples has ",
                         read_ && collate_ ? "" : "no function to read or collate them."),
                    "give a size of at least 0 and both functions.");
}

void ExampleDataset::draw_into(const at::Tensor& indices, const DrawPlace& place,
                               std::vector<at::Tensor>& fields) const {
  fields.clear();
  const auto* const wanted = indices.data_ptr<std::int64_t>();
  std::vector<Example> examples(static_cast<std::size_t>(indices.size(0)));
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (wanted[i] < 0 || wanted[i] >= size_) {
      throw DataError(text("example ", wanted[i], " was asked for, of a data set of ", size_, "."),
                      "ask for examples from 0 on that the data set has.");
    }
    ExampleRandom random = place.random(static_cast<std::int64_t>(i));
    examples[i] = read_(wanted[i], random);
  }
  fields = collate_(examples);
}

std::shared_ptr<const Dataset> transformed(
    std::shared_ptr<const Dataset> dataset,
    std::function<Example(Example, ExampleRandom&)> transform, Collate collate) {
  if (!dataset || !transform || !collate) {
    throw ConfigError("transformed() was given a null data set or function.",
                      "give a data set, a transform and a collate function.");
  }
  return std::make_shared<Transformed>(std::move(dataset), std::move(transform),
                                       std::move(collate));
}

}  // namespace troupe
