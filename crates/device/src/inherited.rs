// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors that the parent process left open.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::fcntl_dupfd_cloexec;

/// A file of our own behind the open descriptor `number`; fails if nothing is open there.
pub fn inherited(number: u32) -> io::Result<File> {
    let number = RawFd::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the descriptor is only looked at within this call, for a duplicate. If it is not open, the system says so;
    // if it belongs to other code in this process, that one keeps it.
    #[allow(unsafe_code)]
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let owned: OwnedFd = fcntl_dupfd_cloexec(borrowed, 3)?;
    Ok(File::from(owned))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn sockets_too() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut file = inherited(theirs.as_raw_fd() as u32).unwrap();
        drop(theirs);
        file.write_all(b"1 0 2 x\n").unwrap();
        drop(file);
        assert_eq!(io::read_to_string(ours).unwrap(), "1 0 2 x\n");
    }

    #[test]
    fn what_is_not_open_is_refused() {
        assert!(inherited(9_999).is_err() && inherited(u32::MAX).is_err());
    }
}
