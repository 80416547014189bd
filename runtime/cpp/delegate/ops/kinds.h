#pragma once

#include <variant>

#include "delegate/ops/affine.h"
#include "delegate/ops/attention.h"
#include "delegate/ops/columns.h"
#include "delegate/ops/concatenate.h"
#include "delegate/ops/constant.h"
#include "delegate/ops/convolution.h"
#include "delegate/ops/delta.h"
#include "delegate/ops/depthwise.h"
#include "delegate/ops/elementwise.h"
#include "delegate/ops/embedding.h"
#include "delegate/ops/experts.h"
#include "delegate/ops/gather.h"
#include "delegate/ops/glu.h"
#include "delegate/ops/layer_norm.h"
#include "delegate/ops/linear.h"
#include "delegate/ops/narrow.h"
#include "delegate/ops/norm.h"
#include "delegate/ops/patches.h"
#include "delegate/ops/pool.h"
#include "delegate/ops/pool_rows.h"
#include "delegate/ops/positions.h"
#include "delegate/ops/recurrent.h"
#include "delegate/ops/relative_scores.h"
#include "delegate/ops/rotate.h"
#include "delegate/ops/sample_norm.h"
#include "delegate/ops/segment_attention.h"
#include "delegate/ops/select_last.h"
#include "delegate/ops/shared_attention.h"
#include "delegate/ops/xielu.h"

namespace thimble::cpu {

/// Every kind of operator, in the order of the schema's union Kind, which counts from 1.
using OpKind =
    std::variant<EmbeddingOp, NormOp, LinearOp, AttentionOp, RotateOp, ElementwiseOp, GluOp,
                 SelectLastOp, ConvolutionOp, ExpertsOp, DeltaOp, SharedAttentionOp, ColumnsOp,
                 LayerNormOp, PositionsOp, SegmentAttentionOp, PoolOp, XieluOp, PatchesOp,
                 ConcatenateOp, NarrowOp, ConstantOp, AffineOp, GatherOp, PoolRowsOp, DepthwiseOp,
                 SampleNormOp, RecurrentOp, RelativeScoresOp>;

}  // namespace thimble::cpu
