//! Tests of `group`.
