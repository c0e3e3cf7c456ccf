#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Puts fsmend into the initramfs, as the fsck of ext file systems. Asked for by add_dracutmodules+=" fsmend ".

check() {
	require_binaries fsmend || return 1
	return 255
}

install() {
	inst_multiple fsmend
	local name
	for name in e2fsck fsck.ext2 fsck.ext3 fsck.ext4; do
		rm -f "$initdir/sbin/$name" "$initdir/usr/sbin/$name"
		ln_r /usr/bin/fsmend "/usr/sbin/$name"
	done
}
