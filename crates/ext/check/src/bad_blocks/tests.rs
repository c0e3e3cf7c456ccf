//! Tests of `bad_blocks`.
