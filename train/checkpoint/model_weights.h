// Weights out of a checkpoint: into a model, or to look at.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/hooks/parameter_update.h"

namespace troupe {

class CheckpointReader;
class Replica;
struct CheckpointFileInfo;
struct CheckpointInfo;

/// A checkpoint by the path of its directory, <model_dir>/model.ckpt-<step>.
struct CheckpointPath {
  std::string model_dir;
  std::int64_t step = 0;
};
/// Throws: ConfigError when the last component is no checkpoint's name.
[[nodiscard]] CheckpointPath split_checkpoint_path(const std::string& path);

/// The checkpoint that <model_dir>/best stands for, the best by its index; another path is that
/// itself. Throws: ConfigError where no checkpoint there is the best.
[[nodiscard]] std::string named_checkpoint(const std::string& path);

/// The path of the newest complete checkpoint by the index of `model_dir`; unset: there is none.
/// One that the index names and that is not complete is an error in the log; the one before it is
/// taken. Contents are not read, so it may be asked often.
[[nodiscard]] std::optional<std::string> latest_checkpoint(const std::string& model_dir);
/// The newest whose contents are as they were saved; unset: there is none.
/// Throws: CheckpointError where there are some and none is good.
[[nodiscard]] std::optional<std::string> newest_good_checkpoint(const std::string& model_dir);

/// The tensors of one of a checkpoint's files, which messages call `shown`. Its header is held
/// against its size before memory is taken for the rest.
/// Throws: CheckpointError when it is not as it was saved, or holds no tensors.
[[nodiscard]] std::vector<NamedTensor> read_tensors(CheckpointReader& reader,
                                                    const CheckpointInfo& info,
                                                    const CheckpointFileInfo& file,
                                                    const std::string& shown);

/// Parameters and buffers of a checkpoint, by name, on the CPU; the parameters as training left
/// them, not their averages.
/// Throws: CheckpointError when it is missing or not as it was saved.
[[nodiscard]] std::vector<NamedTensor> read_weights(const std::string& checkpoint);

/// By what the data is recognised that the checkpoint's training reads (data/data_digest.h); "":
/// it does not say. Throws: CheckpointError when it is missing or damaged.
[[nodiscard]] std::string read_data_digest(const std::string& checkpoint);

/// Copies values into the tensors of the same names.
/// Shapes: each pair equal.  Throws: CheckpointError naming the first that is missing or differs.
void copy_weights(const std::vector<NamedTensor>& into, const std::vector<NamedTensor>& from,
                  const std::string& prefix = "");

/// Copies a model's parameters and buffers into the replica.
/// Throws: CheckpointError as copy_weights, also where there are more tensors than the model has.
void copy_model(Replica& replica, const std::vector<NamedTensor>& saved);

/// Gives the replica the checkpoint's parameters and buffers to evaluate, predict with or export:
/// averaged parameters where the checkpoint has them, which the log says.
/// Throws: CheckpointError as above.
void load_weights(Replica& replica, const std::string& checkpoint);

}  // namespace troupe
