// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a plan as it is saved: in memory, or, where there are many, in a file that no name leads to.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use fsmend_base::width;

use crate::blocks::Sum;

/// So many bytes are read from the file at once.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of the checksum at the end.
const SUM_BYTES: usize = 8;

/// The bytes of a plan.
#[derive(Clone)]
pub(super) enum Data {
    /// In memory.
    Held(Vec<u8>),
    /// In a file.
    Spilled {
        /// Header, identity and text, which are asked for at any time.
        front: Vec<u8>,
        /// All of it.
        file: Arc<File>,
        /// Bytes before the checksum at the end.
        body_len: u64,
        /// That checksum: what is read from the file is held against it.
        sum: u64,
    },
}

impl Data {
    /// How many there are.
    pub fn len(&self) -> u64 {
        match self {
            Data::Held(bytes) => bytes.len() as u64,
            Data::Spilled { body_len, .. } => body_len + SUM_BYTES as u64,
        }
    }

    /// At least header, identity and text.
    pub fn front(&self) -> &[u8] {
        match self {
            Data::Held(bytes) => bytes,
            Data::Spilled { front, .. } => front,
        }
    }

    /// `len` bytes from `at` on.
    pub fn part(&self, at: usize, len: usize) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Data::Held(bytes) => at
                .checked_add(len)
                .and_then(|end| bytes.get(at..end))
                .map(Cow::Borrowed)
                .ok_or_else(|| io::ErrorKind::UnexpectedEof.into()),
            Data::Spilled { file, .. } => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, at as u64)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// Gives all bytes to `take`, piece by piece; `failed` says what a piece that cannot be read comes to, or a file that has changed.
    pub fn each_piece<E>(
        &self,
        failed: impl Fn(io::Error) -> E,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Data::Held(bytes) => take(bytes),
            Data::Spilled { file, body_len, sum, .. } => {
                let mut found = Sum::new();
                each_piece_of(file, *body_len, &failed, |piece| {
                    found.add(piece);
                    take(piece)
                })?;
                if found.finish() != *sum {
                    return Err(failed(io::Error::other("the file with the plan has changed")));
                }
                take(&sum.to_le_bytes())
            }
        }
    }
}

/// Checksum of the first `len` bytes of a file.
pub(super) fn sum_of(file: &File, len: u64) -> io::Result<u64> {
    let mut sum = Sum::new();
    each_piece_of(
        file,
        len,
        |error| error,
        |piece| {
            sum.add(piece);
            Ok(())
        },
    )?;
    Ok(sum.finish())
}

/// Gives the first `len` bytes of a file to `take`, piece by piece.
fn each_piece_of<E>(
    file: &File,
    len: u64,
    failed: impl Fn(io::Error) -> E,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut piece = vec![0; width::index(len.min(PIECE_BYTES as u64))];
    let mut at = 0;
    while at < len {
        let piece = &mut piece[..width::index((len - at).min(PIECE_BYTES as u64))];
        file.read_exact_at(piece, at).map_err(&failed)?;
        take(piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

impl PartialEq for Data {
    fn eq(&self, other: &Data) -> bool {
        let all = |data: &Data| {
            data.part(0, usize::try_from(data.len()).unwrap_or(usize::MAX)).ok().map(Cow::into_owned)
        };
        match (self, other) {
            (Data::Held(bytes), Data::Held(others)) => bytes == others,
            // What cannot be read is equal to nothing.
            _ => self.len() == other.len() && all(self).is_some_and(|bytes| all(other) == Some(bytes)),
        }
    }
}

impl Eq for Data {}
