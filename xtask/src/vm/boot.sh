# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs in a fresh Debian: makes fsmend its fsck, and makes the memory disks that boot it. Any command that fails ends it.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
mount -t proc proc /proc
trap 'umount /proc' EXIT
dpkg --install /fsmend.deb
rm /fsmend.deb
echo '/dev/vda / ext4 defaults 0 1' >/etc/fstab
echo guest >/etc/hostname
passwd -d root
chmod 755 /booted
ln -s ../booted.service /etc/systemd/system/multi-user.target.wants/booted.service
# A login on the serial line hangs up what else writes there.
ln -s /dev/null /etc/systemd/system/serial-getty@ttyS0.service
echo counted >/srv/counted
echo nameless >/srv/nameless
mkdir /srv/folder
echo within >/srv/folder/within

sed -i 's/^FSMEND_INITRAMFS=.*/FSMEND_INITRAMFS=yes/' /etc/default/fsmend
version=$(ls /lib/modules)
mkinitramfs -o /initrd.initramfs-tools "$version"
lsinitramfs -l /initrd.initramfs-tools | grep -q 'sbin/fsck.ext4 -> /usr/bin/fsmend'
dracut --force --no-hostonly --add fsmend --add-drivers 'virtio_blk virtio_pci ext4' /initrd.dracut "$version"
lsinitrd /initrd.dracut | grep -q 'sbin/fsck.ext4 -> .*bin/fsmend'
cp "/boot/vmlinuz-$version" /vmlinuz.new
rm -f /vmlinuz /initrd.img "/boot/initrd.img-$version"
mv /vmlinuz.new /vmlinuz
