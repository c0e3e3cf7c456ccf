#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs when systemd is up: the root file system has been repaired on the way. Prints VM-PASSED, or VM-FAILED and why.

fail() {
	journalctl --boot --no-pager --lines 60
	cat /run/initramfs/fsck.log
	end "VM-FAILED: $1"
}
end() {
	echo
	echo "$1"
	sync
	# The line is slow, and power off does not wait for it.
	sleep 2
	poweroff --force
	exit
}

echo "== up after $(cut -d' ' -f1 /proc/uptime) s"
# Who checked, and what was said of it.
{ cat /run/initramfs/fsck.log; journalctl --boot --no-pager --output=cat; } 2>/dev/null >/run/said
grep -q fsmend /run/said || fail "it was not fsmend that checked"
grep -q ' / .*\<rw\>' /proc/mounts || mount -o remount,rw / || fail "it cannot be written"
[ "$(cat /srv/counted)" = counted ] || fail "a file has other contents"
[ "$(stat --format=%h /srv/counted)" = 1 ] || fail "a wrong link count"
grep -qx nameless /lost+found/* 2>/dev/null || fail "the file without a name was not found"
grep -qrx within /lost+found 2>/dev/null || fail "what was in the folder was not found"
echo written >/srv/new || fail "it cannot be written"
grep -i fsmend /run/said | head -n 5
end VM-PASSED
