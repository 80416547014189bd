#include "runner/draft.h"

#include <memory>
#include <utility>

#include "draft/ngram_drafter.h"
#include "runner/model_drafter.h"

namespace thimble {

Status use_draft(Runner& runner, const std::string& draft) {
  if (draft.empty()) {
    runner.use_drafter(nullptr);
    return {};
  }
  const Model& model = runner.model();
  if (!model.program().runs_segments()) {
    return Status::error(model.file().path() +
                         " cannot verify drafts, because it does not run on the CPU delegate as a "
                         "whole: export with --delegate cpu, or leave out the draft");
  }
  if (draft == kDraftNgram) {
    runner.use_drafter(std::make_shared<NgramDrafter>());
    return {};
  }
  LoadOptions options;
  options.threads = model.program().threads();
  options.signer = model.file().signer();  // whoever asks for a signed model means its draft too
  Result<std::unique_ptr<ModelDrafter>> drafter = ModelDrafter::load(draft, model, options);
  if (!drafter.ok()) return drafter.status();
  runner.use_drafter(std::move(*drafter));
  return {};
}

}  // namespace thimble
