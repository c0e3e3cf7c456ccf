//! What can be said with `-o`.

use std::fmt;
use std::time::Duration;

use fuser::{Config, MountOption, SessionACL};

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
}

impl Default for Options {
    fn default() -> Self {
        Options {
            read_only: false,
            allow_other: false,
            devices: false,
            set_user_id: false,
            execute: true,
            // As ext3 does it.
            commit: Duration::from_secs(5),
            source: "fsmend".to_owned(),
            kind: "fsmend".to_owned(),
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
            "\"{}\" is no option for a mount; there are ro, rw, allow_other, default_permissions, dev, nodev, suid, nosuid, exec, noexec, \
             noatime and commit=SECONDS",
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
            // These are what is done anyway.
            "default_permissions" | "noatime" | "defaults" => {}
            other => {
                let seconds = other.strip_prefix("commit=").and_then(|seconds| seconds.parse().ok());
                let seconds = seconds.filter(|seconds| (1..=900).contains(seconds));
                self.commit = Duration::from_secs(seconds.ok_or_else(|| UnknownOption(word.to_owned()))?);
            }
        }
        Ok(())
    }

    /// In fuser's words.
    pub(crate) fn config(&self) -> Config {
        let choose = |yes, one, other| if yes { one } else { other };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(self.source.replace(',', "_")),
            MountOption::Subtype(self.kind.clone()),
            // The driver leaves permissions to us, and we to the kernel.
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
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
    }

    #[test]
    fn unknown_words_are_named() {
        for word in ["data=journal", "commit=0", "commit=x", "RO"] {
            let error = taken(&format!("ro,{word}")).expect_err("it is not known");
            assert!(error.to_string().starts_with(&format!("\"{word}\" is no option")), "{error}");
        }
    }
}
