//! Helpers of the tests of this folder.
