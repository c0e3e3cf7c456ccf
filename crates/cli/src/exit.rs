// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes: the bits that every fsck uses. Several targets give the bits of all of them.

/// Nothing is wrong.
pub const CLEAN: u8 = 0;
/// Problems were found and corrected.
pub const CORRECTED: u8 = 1;
/// Problems of the mounted root file system were corrected: it has to be mounted anew, best by a reboot.
pub const REBOOT: u8 = 2;
/// Problems were found (and left as they are).
pub const PROBLEMS: u8 = 4;
/// The target could not be checked.
pub const OPERATIONAL: u8 = 8;
/// The command line makes no sense.
pub const USAGE: u8 = 16;
/// Stopped by SIGINT or SIGTERM.
pub const CANCELLED: u8 = 32;
/// A worker of a fleet could not go on, and may be able to later: the number of sysexits' EX_TEMPFAIL.
pub const TRY_AGAIN: u8 = 75;
