// SPDX-License-Identifier: MIT OR Apache-2.0

#![no_main]
//! Fuzz target: see `fsmend_testkit::fuzzing::rext3`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| fsmend_testkit::fuzzing::rext3(data));
