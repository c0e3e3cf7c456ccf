#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The first and only process of the guest: checks file systems on logical volumes while they are in use.
# Prints VM-PASSED at the end, or VM-FAILED and why.

/bin/busybox --install -s /bin
export PATH=/sbin:/bin HOME=/ LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /run /tmp /mnt
mount -t tmpfs run /run

end() {
    echo "$1"
    sync
    poweroff -f
}
fail() {
    cat /tmp/said 2>/dev/null
    lvs -a 2>&1
    end "VM-FAILED: $1"
}
step() { echo "== $(cut -d' ' -f1 /proc/uptime) s: $1"; }

# Without a list of what needs what: again and again, until nothing more can be loaded.
for again in 1 2 3 4 5; do
    for module in /modules/*.ko; do insmod "$module" 2>/dev/null; done
done
for wait in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/vda ] || sleep 1; done
[ -b /dev/vda ] || fail "there is no disk"

# Checks /mnt; expects a view and a verdict.
check() {
    view=$1 verdict=$2
    shift 2
    fsmend check --online --format json "$@" /mnt >/tmp/said 2>&1
    code=$?
    grep -q "\"view\": \"$view" /tmp/said || fail "another view than $view"
    grep -q "\"verdict\": \"$verdict\"" /tmp/said || fail "not $verdict"
    [ "$verdict" != sound ] || [ $code = 0 ] || fail "exit code $code"
    [ "$verdict" != damaged ] || [ $code = 4 ] || fail "exit code $code"
}
no_snapshots() {
    lvs --noheadings -o lv_name | grep -q fsmend_online && fail "a snapshot is left"
}

step "a volume"
{ pvcreate -q /dev/vda && vgcreate -q vg /dev/vda && lvcreate -q -y -n data -L 128M vg; } >/tmp/said 2>&1 || fail "no volume"
# By its path: busybox has a smaller one of that name.
/sbin/mke2fs -q -t ext4 /dev/vg/data && debugfs -w -R "write /init atrest" /dev/vg/data 2>/dev/null || fail "no file system"
mount -t ext4 /dev/vg/data /mnt || fail "not mounted"
(
    number=0
    while [ ! -e /tmp/stop ]; do
        number=$((number + 1))
        mkdir -p /mnt/d$((number % 5))
        head -c $((number % 7000)) /dev/zero >/mnt/d$((number % 5))/f$((number % 100))
        mv /mnt/d$((number % 5))/f$((number % 100)) /mnt/d$((number % 3))/r$((number % 50)) 2>/dev/null
        rm -f /mnt/d$((number % 2))/r$((number % 40))
        # It has one processor, and an emulated one.
        usleep 50000
    done
) &
load=$!

step "sound, under load"
check lvm-snapshot sound
no_snapshots

step "what a dead run has left is removed"
lvcreate -q -y -s -n fsmend_online_4194000 --addtag fsmend_online -L 64M vg/data >/tmp/said 2>&1 || fail "no snapshot"
lvcreate -q -y -n fsmend_online_mine -L 4M vg >/tmp/said 2>&1 || fail "no volume"
check lvm-snapshot sound
lvs --noheadings -o lv_name vg | grep -q fsmend_online_4194000 && fail "the snapshot of a dead run is left"
lvs --noheadings -o lv_name vg | grep -q fsmend_online_mine || fail "somebody else's volume was removed"
lvremove -q -y vg/fsmend_online_mine >/tmp/said 2>&1 || fail "not removed"

step "killed, then run again"
fsmend check --online /mnt >/tmp/said 2>&1 &
killed=$!
for wait in $(seq 200); do
    [ -e /dev/mapper/vg-fsmend_online_$killed ] && break
    kill -0 $killed 2>/dev/null || break
    usleep 20000
done
kill -9 $killed 2>/dev/null
wait $killed
# The command of LVM that it may have started ends by itself.
while pidof lvcreate lvremove >/dev/null; do usleep 100000; done
lvs --noheadings -o lv_name vg | grep -q fsmend_online || echo "(it was too quick to be killed in time)"
check lvm-snapshot sound
no_snapshots

step "no room for a snapshot"
lvcreate -q -y -n filler -l 100%FREE vg >/tmp/said 2>&1 || fail "no filler"
check frozen- sound --freeze-limit 30000
lvremove -q -y vg/filler >/tmp/said 2>&1 || fail "not removed"

step "damaged"
touch /tmp/stop
wait $load
umount /mnt || fail "not unmounted"
debugfs -w -R "sif atrest links_count 7" /dev/vg/data 2>/dev/null
mount -t ext4 /dev/vg/data /mnt || fail "not mounted"
check lvm-snapshot damaged --mark-for-repair
grep -q '"marked_for_repair": true' /tmp/said || fail "not marked"
no_snapshots
umount /mnt || fail "not unmounted"
debugfs -R "stats -h" /dev/vg/data 2>/dev/null | grep -q "with errors" || fail "the mark is gone"

step "the end"
end VM-PASSED
