// SPDX-License-Identifier: Apache-2.0
#pragma once

/// For every helper of a tile: one that stays a call would pass its registers through memory.
#define LOCKSTEP_INLINE __attribute__((always_inline)) inline
