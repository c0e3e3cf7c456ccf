//! Tests of `mmp`.
