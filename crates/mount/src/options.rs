// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be said with `-o`.

use std::fmt;
use std::time::Duration;

use fuser::{Config, MountOption, SessionACL};
use rustix::mount::MountFlags;

/// How to mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Nothing may be changed.
    pub read_only: bool,
    /// Others than the one who mounts may use it, too, as far as permissions allow.
    pub allow_other: bool,
    /// Device nodes are devices.
    pub devices: bool,
    /// Set-user-id and set-group-id bits are obeyed.
    pub set_user_id: bool,
    /// Programs can be run from it.
    pub execute: bool,
    /// What changed is made durable after so long, whether anybody asks for it or not.
    pub commit: Duration,
    /// What the mount table says is mounted: the target.
    pub source: String,
    /// The type after `fuse.` in the mount table.
    pub kind: String,
    /// What a change has made is durable before the change is answered.
    pub synchronous: bool,
    /// The kernel keeps what is written to files for a while before it hands it on; not with `synchronous`.
    pub late_writes: bool,
    /// Processors stay awake while requests follow each other closely: requests are answered sooner, for more power. It takes the superuser.
    pub poll_idle: bool,
    /// All files are shown as this user's.
    pub uid: Option<u32>,
    /// All files are shown as this group's.
    pub gid: Option<u32>,
}

/// Words that are what is done anyway, or that are meant for mount(8), fsck(8) and systemd.
const PASSED_OVER: [&str; 26] = [
    "_netdev",
    "atime",
    "auto",
    "default_permissions",
    "defaults",
    "diratime",
    "iversion",
    "lazytime",
    "loud",
    "mand",
    "noatime",
    "noauto",
    "nodiratime",
    "nofail",
    "noiversion",
    "nolazytime",
    "nomand",
    "norelatime",
    "nostrictatime",
    "nouser",
    "nousers",
    "relatime",
    "remount",
    "silent",
    "strictatime",
    "nonempty",
];

/// Words with a value of which the same holds; the kernel shows some of them in the mount table, from where a remount hands them on.
const VALUES_PASSED_OVER: [&str; 10] = [
    "comment", "user", "helper", "subtype", "user_id", "group_id", "rootmode", "max_read", "blksize",
    "uhelper",
];

impl Default for Options {
    fn default() -> Self {
        Options {
            read_only: false,
            allow_other: false,
            devices: false,
            set_user_id: false,
            execute: true,
            // As the kernel does it.
            commit: Duration::from_secs(5),
            source: "fsmend".to_owned(),
            kind: "fsmend".to_owned(),
            synchronous: false,
            late_writes: false,
            poll_idle: false,
            uid: None,
            gid: None,
        }
    }
}

/// An option that is not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownOption(pub String);

impl fmt::Display for UnknownOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is no option for a mount; there are ro, rw, sync, allow_other, dev, nodev, suid, nosuid, exec, noexec, commit=SECONDS, \
             writeback_cache, idle=poll, idle=sleep, uid=N, gid=N, partition=N, offset=BYTES, and those of mount(8) that every file system takes",
            self.0
        )
    }
}

impl std::error::Error for UnknownOption {}

impl Options {
    /// Takes in a list as it follows `-o`: words with commas between them. The last word on a matter holds.
    pub fn take(&mut self, list: &str) -> Result<(), UnknownOption> {
        list.split(',').filter(|word| !word.is_empty()).try_for_each(|word| self.take_word(word))
    }

    fn take_word(&mut self, word: &str) -> Result<(), UnknownOption> {
        match word {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "allow_other" => self.allow_other = true,
            "dev" => self.devices = true,
            "nodev" => self.devices = false,
            "suid" => self.set_user_id = true,
            "nosuid" => self.set_user_id = false,
            "exec" => self.execute = true,
            "noexec" => self.execute = false,
            "sync" | "dirsync" => self.synchronous = true,
            "async" => self.synchronous = false,
            "writeback_cache" => self.late_writes = true,
            "nowriteback_cache" => self.late_writes = false,
            "idle=poll" => self.poll_idle = true,
            "idle=sleep" => self.poll_idle = false,
            // What every user may mount, no user may use against others.
            "user" | "users" => (self.execute, self.set_user_id, self.devices) = (false, false, false),
            "owner" | "group" => (self.set_user_id, self.devices) = (false, false),
            word if PASSED_OVER.contains(&word) => {}
            _ => self.take_value(word).ok_or_else(|| UnknownOption(word.to_owned()))?,
        }
        Ok(())
    }

    fn take_value(&mut self, word: &str) -> Option<()> {
        if word.starts_with("x-") || word.starts_with("X-") {
            return Some(());
        }
        let (name, value) = word.split_once('=')?;
        match name {
            "commit" => {
                let seconds = value.parse().ok().filter(|seconds| (1..=900).contains(seconds))?;
                self.commit = Duration::from_secs(seconds);
            }
            "uid" => self.uid = Some(value.parse().ok()?),
            "gid" => self.gid = Some(value.parse().ok()?),
            "fsname" => self.source = value.to_owned(),
            name if VALUES_PASSED_OVER.contains(&name) => {}
            _ => return None,
        }
        Some(())
    }

    /// For mount(2): flags, and what FUSE is told besides.
    pub(crate) fn flags(&self) -> MountFlags {
        let mut flags = MountFlags::NOATIME;
        flags.set(MountFlags::RDONLY, self.read_only);
        flags.set(MountFlags::NODEV, !self.devices);
        flags.set(MountFlags::NOSUID, !self.set_user_id);
        flags.set(MountFlags::NOEXEC, !self.execute);
        flags.set(MountFlags::SYNCHRONOUS, self.synchronous);
        flags
    }

    /// In fuser's words, which are those of fusermount3.
    pub(crate) fn config(&self) -> Config {
        let choose = |yes, one, other| if yes { one } else { other };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(self.source.replace(',', "_")),
            MountOption::Subtype(self.kind.clone()),
            // The driver leaves permissions to us, and we to the kernel.
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
            choose(self.synchronous, MountOption::Sync, MountOption::Async),
            choose(self.read_only, MountOption::RO, MountOption::RW),
            choose(self.devices, MountOption::Dev, MountOption::NoDev),
            choose(self.set_user_id, MountOption::Suid, MountOption::NoSuid),
            choose(self.execute, MountOption::Exec, MountOption::NoExec),
        ];
        config.acl = choose_acl(self.allow_other);
        config
    }
}

fn choose_acl(allow_other: bool) -> SessionACL {
    if allow_other { SessionACL::All } else { SessionACL::Owner }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(list: &str) -> Result<Options, UnknownOption> {
        let mut options = Options::default();
        options.take(list).map(|()| options)
    }

    #[test]
    fn words_are_understood_and_the_last_one_holds() {
        let options = taken("ro,allow_other,,suid,dev,noexec,commit=30,rw").expect("all are known");
        assert!(!options.read_only && options.allow_other && options.set_user_id);
        assert!(options.devices && !options.execute);
        assert_eq!(options.commit, Duration::from_secs(30));
        assert!(taken("idle=poll").is_ok_and(|options| options.poll_idle));
        assert_eq!(taken("idle=poll,idle=sleep"), Ok(Options::default()));
    }

    #[test]
    fn words_of_fstab_are_taken_or_passed_over() {
        let fstab = "defaults,noauto,nofail,_netdev,x-systemd.automount,x-systemd.device-timeout=5,relatime,async,comment=mine";
        assert_eq!(taken(fstab), Ok(Options::default()));
        // What the mount table of the kernel says, and a remount hands on.
        let table = "remount,rw,nosuid,nodev,noatime,user_id=0,group_id=0,default_permissions,allow_other";
        assert_eq!(taken(table), Ok(Options { allow_other: true, ..Options::default() }));
        let options = taken("dev,suid,user,uid=1000,gid=100,fsname=disk,sync").expect("all are known");
        assert!(!options.execute && !options.devices && !options.set_user_id && options.synchronous);
        assert_eq!((options.uid, options.gid, &*options.source), (Some(1000), Some(100), "disk"));
        assert!(taken("user,exec").is_ok_and(|options| options.execute));
    }

    #[test]
    fn unknown_words_are_named() {
        for word in ["data=journal", "commit=0", "commit=x", "RO", "uid=me", "idle=fast", "errors=panic"] {
            let error = taken(&format!("ro,{word}")).expect_err("it is not known");
            assert!(error.to_string().starts_with(&format!("\"{word}\" is no option")), "{error}");
        }
    }
}
