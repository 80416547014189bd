#pragma once

/// \file
/// IntegerProducts of the instruction set.

#include THIMBLE_VARIANT_HEADER
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__) || defined(__ARM_FEATURE_DOTPROD)
#include "kernels/shared/attention_fours.h"
#else
#include "kernels/shared/attention_pairs.h"
#endif
