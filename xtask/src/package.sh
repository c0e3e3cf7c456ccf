# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs in a fresh Debian with the package beside it. Any command that fails ends it.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 MANPAGER=cat
before=$(sha256sum /usr/sbin/fsck.ext4 /usr/sbin/e2fsck)
# What the package depends on is there; what it recommends is not needed.
dpkg --install /fsmend.deb
fsmend --version
code=0
fsmend check /damaged.qcow2 >/report 2>&1 || code=$?
test "$code" = 4
grep -q damaged /report
# e2fsck stays what it was.
test "$before" = "$(sha256sum /usr/sbin/fsck.ext4 /usr/sbin/e2fsck)"
e2fsck -V 2>&1 | grep -qv fsmend
/usr/lib/fsmend/fsck.ext4 -V 2>&1 | grep -q fsmend
# Nothing else is fsck.ufs here.
test "$(readlink -f /usr/sbin/fsck.ufs)" = /usr/bin/fsmend
fsmend mkfs --type ufs2 /ufs 32M
fsck.ufs -n /ufs
for page in /usr/share/man/man8/fsmend*.8.gz; do
	test -z "$(man --warnings -E UTF-8 -l "$page" 2>&1 >/page)" || { man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null; exit 1; }
	test -s /page
done
for unit in /usr/lib/systemd/system/fsmend*; do
	systemd-analyze verify --man=no "$unit"
	case "$unit" in
	*.service) systemd-analyze security --offline=true --threshold=EXPOSURE_MAX "$unit" >/security || { cat /security; exit 1; } ;;
	esac
done
# Where there is no e2fsck, fsmend is offered in its place.
dpkg --remove fsmend
mv /usr/sbin/fsck.ext4 /fsck.ext4.real
dpkg --install /fsmend.deb
test "$(readlink -f /usr/sbin/fsck.ext4)" = /usr/bin/fsmend
dpkg --purge fsmend
test ! -e /usr/sbin/fsck.ext4
test ! -e /usr/sbin/fsck.ufs
test ! -e /usr/bin/fsmend
test ! -e /etc/default/fsmend
