// SPDX-License-Identifier: MIT OR Apache-2.0

#![no_main]
//! Fuzz target: see `fsmend_testkit::fuzzing::cut_image`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| fsmend_testkit::fuzzing::cut_image(data));
