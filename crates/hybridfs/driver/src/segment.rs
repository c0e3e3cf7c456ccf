// SPDX-License-Identifier: MIT OR Apache-2.0
//! A segment while it is put together: objects get their places, and what is written where.

use fsmend_base::width;
use fsmend_hybridfs_format::{HEADER_LEN, Header, Kind, Place, Row, Run, Stream, plain_crc, seal};
use fsmend_vfs::{Errno, Result};

use crate::io::Io;
use crate::space::Space;

pub(crate) struct Segment {
    pub ssn: u64,
    pub writes: Vec<(u64, Vec<u8>)>,
    pub stream: Stream,
    /// Blocks of larger files in the log, for the cleaner: rows that the segment does not have.
    pub owned: Vec<Row>,
}

/// Bytes that go to the device in one request at most.
const REQUEST_MAX: usize = 1 << 20;

impl Segment {
    pub fn new(ssn: u64) -> Segment {
        Segment { ssn, writes: Vec::new(), stream: Stream::default(), owned: Vec::new() }
    }

    /// An object with a header.
    pub fn object(&mut self, io: &Io, space: &mut Space, header: Header, body: &[u8]) -> Result<Place> {
        let len = io.fragments(HEADER_LEN + body.len());
        let place = self.take(space, len)?;
        self.put(io, place, header, body);
        Ok(place)
    }

    /// An object with a header at a place that it has already.
    pub fn put(&mut self, io: &Io, place: Place, header: Header, body: &[u8]) {
        let mut bytes = vec![0; usize::from(place.len) * io.sb.fragment_size as usize];
        Header { address: place.address, ..header }.store(&mut bytes, &io.sb.uuid);
        bytes[HEADER_LEN..][..body.len()].copy_from_slice(body);
        seal(&mut bytes, &io.sb.uuid);
        self.note(place, (header.kind, header.level), (header.owner, header.key), bytes);
    }

    /// An object without a header.
    pub fn plain(
        &mut self,
        io: &Io,
        space: &mut Space,
        (kind, owner, key): (Kind, u64, u64),
        mut bytes: Vec<u8>,
    ) -> Result<Place> {
        let len = io.fragments(bytes.len());
        let place = match kind {
            Kind::Contents => placed(space.take_in_a_row(len), len, space)?,
            _ => self.take(space, len)?,
        };
        bytes.resize(width::index(len) * io.sb.fragment_size as usize, 0);
        self.note(place, (kind, 0), (owner, key), bytes);
        Ok(place)
    }

    fn note(&mut self, place: Place, (kind, level): (Kind, u8), (owner, key): (u64, u64), bytes: Vec<u8>) {
        let crc = plain_crc(&bytes);
        self.stream.rows.push(Row { address: place.address, len: place.len, kind, level, crc, owner, key });
        self.writes.push((place.address, bytes));
    }

    /// A place of so many fragments, at most a block.
    pub fn take(&mut self, space: &mut Space, len: u64) -> Result<Place> {
        placed(space.take_fragments(len), len, space)
    }

    /// Data blocks of a file are taken.
    pub fn data(&mut self, address: u64, len: u64) {
        self.stream.data.push(Run { address, len });
    }

    /// Lengthens objects over what the last one of a block has left free, so that it does not part two requests.
    pub fn fill_gaps(&mut self, io: &Io, space: &Space) {
        let writes = &mut self.writes;
        writes.sort_by_key(|(address, _)| *address);
        let fragment = io.sb.fragment_size as usize;
        for at in 1..writes.len() {
            let until = writes[at].0;
            let Some((address, bytes)) = writes.get_mut(at - 1) else { continue };
            let end = *address + (bytes.len() / fragment) as u64;
            if space.is_end_of_fresh(end, until) {
                bytes.resize(width::index(until - *address) * fragment, 0);
            }
        }
    }

    /// Writes all of it, what lies side by side in one request. The caller syncs.
    pub fn write(&mut self, io: &Io) -> Result<()> {
        write_runs(io, std::mem::take(&mut self.writes))
    }
}

fn placed(address: Option<u64>, len: u64, space: &mut Space) -> Result<Place> {
    let address = address.ok_or(Errno::NoSpace)?;
    space.totals.log = space.totals.log.saturating_add(len);
    Ok(Place { address, len: u16::try_from(len).map_err(|_| Errno::Corrupt)? })
}

/// Writes pieces in the order of the disk.
pub(crate) fn write_runs(io: &Io, mut writes: Vec<(u64, Vec<u8>)>) -> Result<()> {
    writes.sort_by_key(|(address, _)| *address);
    let mut run: Option<(u64, Vec<u8>)> = None;
    for (address, bytes) in writes {
        let offset = io.offset(address);
        match &mut run {
            Some((start, run))
                if *start + run.len() as u64 == offset && run.len() + bytes.len() <= REQUEST_MAX =>
            {
                run.extend_from_slice(&bytes);
            }
            _ => {
                if let Some((start, bytes)) = run.replace((offset, bytes)) {
                    io.write(start, &bytes)?;
                }
            }
        }
    }
    run.map_or(Ok(()), |(start, bytes)| io.write(start, &bytes))
}
