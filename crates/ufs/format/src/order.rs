// SPDX-License-Identifier: MIT OR Apache-2.0
//! Byte orders, versions, and fields at fixed offsets of a record.

/// The byte order of the machine that made a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    /// Least significant byte first (amd64, arm64, riscv64).
    Little,
    /// Most significant byte first (powerpc64, sparc64).
    Big,
}

/// The version of the format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// 32-bit addresses, inodes of 128 bytes.
    Ufs1,
    /// 64-bit addresses, inodes of 256 bytes, check hashes.
    Ufs2,
}

impl Version {
    /// Bytes of an inode.
    #[inline]
    pub const fn inode_size(self) -> usize {
        match self {
            Version::Ufs1 => 128,
            Version::Ufs2 => 256,
        }
    }

    /// Bytes of a block pointer.
    #[inline]
    pub const fn pointer_size(self) -> usize {
        match self {
            Version::Ufs1 => 4,
            Version::Ufs2 => 8,
        }
    }

    /// Symbolic links shorter than this stand in their inode.
    #[inline]
    pub const fn short_link_max(self) -> u32 {
        match self {
            Version::Ufs1 => 60,
            Version::Ufs2 => 120,
        }
    }
}

macro_rules! numbers {
    ($($get:ident $put:ident $type:ident $what:literal;)*) => {
        impl ByteOrder {
            $(
                #[doc = concat!("The ", $what, " at offset `at`; 0 where `bytes` ends before it does.")]
                #[inline]
                pub fn $get(self, bytes: &[u8], at: usize) -> $type {
                    const SIZE: usize = size_of::<$type>();
                    let Some(field) = bytes.get(at..).and_then(|rest| rest.first_chunk::<SIZE>()) else { return 0 };
                    match self {
                        ByteOrder::Little => $type::from_le_bytes(*field),
                        ByteOrder::Big => $type::from_be_bytes(*field),
                    }
                }

                #[doc = concat!("Puts a ", $what, " at offset `at`. Does nothing where `bytes` ends before it would.")]
                #[inline]
                pub fn $put(self, bytes: &mut [u8], at: usize, value: $type) {
                    const SIZE: usize = size_of::<$type>();
                    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<SIZE>()) {
                        *field = match self {
                            ByteOrder::Little => value.to_le_bytes(),
                            ByteOrder::Big => value.to_be_bytes(),
                        };
                    }
                }
            )*
        }
    };
}

numbers! {
    u16 put_u16 u16 "16-bit number";
    u32 put_u32 u32 "32-bit number";
    i32 put_i32 i32 "signed 32-bit number";
    u64 put_u64 u64 "64-bit number";
    i64 put_i64 i64 "signed 64-bit number";
}

/// Methods for fields at fixed offsets of a record that has `bytes` and `order`: one that reads, one that writes.
macro_rules! fields {
    ($($(#[$doc:meta])* $get:ident $set:ident $number:ident $put:ident $type:ident $at:expr;)*) => {
        $(
            $(#[$doc])*
            #[inline]
            pub fn $get(&self) -> $type {
                self.order.$number(&self.bytes, $at)
            }

            #[doc = concat!("Sets [`", stringify!($get), "`](Self::", stringify!($get), ").")]
            #[inline]
            pub fn $set(&mut self, value: $type) {
                self.order.$put(&mut self.bytes, $at, value);
            }
        )*
    };
}

pub(crate) use fields;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_order_and_stay_inside() {
        let mut bytes = [0; 6];
        ByteOrder::Big.put_u32(&mut bytes, 1, 0x0102_0304);
        assert_eq!(bytes, [0, 1, 2, 3, 4, 0]);
        assert_eq!(ByteOrder::Little.u32(&bytes, 1), 0x0403_0201);
        assert_eq!(ByteOrder::Big.i32(&bytes, 1), 0x0102_0304);
        ByteOrder::Little.put_u64(&mut bytes, 0, u64::MAX);
        assert_eq!(bytes, [0, 1, 2, 3, 4, 0]);
        assert_eq!((ByteOrder::Little.u64(&bytes, 0), ByteOrder::Big.u16(&bytes, usize::MAX)), (0, 0));
    }
}
