// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lowest priority: processor time that no other process wants, and the disk when it has nothing else to do.
//!
//! Unsafe here: two system calls for which there is no safe wrapper among our libraries. Both take numbers only, and one address of
//! a number on the stack that the kernel reads.
#![allow(unsafe_code)]

use std::io;

/// `IOPRIO_WHO_PROCESS` of linux/ioprio.h: one thread, in spite of the name.
const IOPRIO_WHO_PROCESS: libc::c_int = 1;
/// `IOPRIO_CLASS_IDLE` in its place within a priority (the class stands above 13 bits of data).
const IOPRIO_IDLE: libc::c_int = 3 << 13;

/// Lets the calling thread, and every thread that it starts from now on, run only where no other process wants to (SCHED_IDLE).
/// There may be no way back.
pub fn stand_back() -> io::Result<()> {
    // `struct sched_param` of the kernel is this one number, and 0 is the only one that the policy allows.
    let priority: libc::c_int = 0;
    // SAFETY: the kernel reads one number at the address, which is that of a local variable; thread 0 is the calling one.
    let set =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const priority) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets the reads of the calling thread, and of every thread that it starts from now on, wait for those of all other processes. Only
/// some of the kernel's disk schedulers heed it (BFQ, mq-deadline).
pub fn read_last() -> io::Result<()> {
    // SAFETY: three numbers, no address; thread 0 is the calling one.
    let set = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Policy and priority of the calling thread, as the kernel sees them.
    fn standing() -> (libc::c_long, libc::c_long) {
        // SAFETY: numbers only.
        unsafe {
            (
                libc::syscall(libc::SYS_sched_getscheduler, 0),
                libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0),
            )
        }
    }

    #[test]
    fn a_thread_and_those_it_starts_stand_back_and_no_others() {
        let idle = (libc::c_long::from(libc::SCHED_IDLE), libc::c_long::from(IOPRIO_IDLE));
        let before = standing();
        let (own, started) = std::thread::spawn(|| {
            stand_back().unwrap();
            read_last().unwrap();
            (standing(), std::thread::spawn(standing).join().unwrap())
        })
        .join()
        .unwrap();
        assert_eq!((own, started), (idle, idle));
        assert_eq!(standing(), before);
        assert_ne!(before, idle);
    }
}
