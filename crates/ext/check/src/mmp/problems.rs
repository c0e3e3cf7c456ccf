// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `mmp`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// MMP block out of range.
    PLACE = "ext.mmp.place" {
        severity: Minor, evidence: Local, preen: true,
        message: "the MMP block is at block {stored}, which is not valid",
        meaning: "The block must be inside the file system and must not hold other metadata.",
        repair: "A new MMP block is allocated.",
        loss: nothing,
        peers: [0x000042],
    }
    /// MMP block without magic number.
    MAGIC = "ext.mmp.magic" {
        severity: Minor, evidence: Local, preen: true,
        message: "the MMP block, {block}, has magic number {stored}, should be {observed}",
        meaning: "The block was overwritten, or was never initialized.",
        repair: "The MMP block is initialized.",
        loss: nothing,
        peers: [0x000043],
    }
    /// Wrong checksum of the MMP block.
    CHECKSUM = "ext.mmp.checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the MMP block, {block}, has checksum {stored}, should be {observed}",
        meaning: "The block was changed without updating the checksum, or was damaged.",
        repair: "The MMP block is initialized.",
        loss: nothing,
        peers: [0x000047],
    }
    /// MMP block cannot be read.
    UNREADABLE = "ext.mmp.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "the MMP block, {block}, cannot be read",
        meaning: "The device returned a read error, or the device ends before this block.",
        repair: "The MMP block is rewritten.",
        loss: nothing,
        peers: [],
    }
    /// Another host uses the file system.
    IN_USE = "ext.mmp.in-use" {
        severity: Note, evidence: Local, preen: false,
        message: "the MMP block says that the file system is {observed} on node {node} (device {device})",
        meaning: "The file system is in use on another node, or that node stopped without unmounting it. Problems found while another node writes may be false positives.",
        repair: "None while it is in use.",
        loss: nothing,
        peers: [],
    }
}
