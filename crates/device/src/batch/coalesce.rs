// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merging small reads that lie near each other into large ones.

use std::ops::Range;

use super::Request;

/// A merged read and the reads that lie in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coalesced {
    /// The read that covers them all.
    pub request: Request,
    /// Which of the given requests it covers (their indexes).
    pub members: Range<usize>,
}

/// Merges neighbours among `requests`, which are sorted by offset (they may overlap or repeat), when at most `gap`
/// bytes lie between them and the merged read stays within `len_max`.
pub fn coalesce(requests: &[Request], gap: u32, len_max: u32) -> Vec<Coalesced> {
    let mut merged: Vec<Coalesced> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        match merged.last_mut().and_then(|last| Some((join(last.request, *request, gap, len_max)?, last))) {
            Some((joined, last)) => (last.request, last.members.end) = (joined, index + 1),
            None => merged.push(Coalesced { request: *request, members: index..index + 1 }),
        }
    }
    merged
}

/// The read that covers both, if they are near enough and it is short enough.
fn join(left: Request, right: Request, gap: u32, len_max: u32) -> Option<Request> {
    let near = right.offset <= left.end().saturating_add(u64::from(gap));
    let len = left.end().max(right.end()).checked_sub(left.offset)?;
    let sorted = left.offset <= right.offset;
    (sorted && near && len <= u64::from(len_max))
        .then_some(Request { offset: left.offset, len: u32::try_from(len).ok()? })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::proptest;

    use super::*;

    fn block(number: u64) -> Request {
        Request { offset: number * 4096, len: 4096 }
    }

    #[test]
    fn neighbours_over_small_gaps_become_one_read() {
        let blocks = [1, 2, 4, 100, 101].map(block);
        let merged = coalesce(&blocks, 4096, 1 << 20);
        let expected = [
            Coalesced { request: Request { offset: 4096, len: 4 * 4096 }, members: 0..3 },
            Coalesced { request: Request { offset: 409_600, len: 8192 }, members: 3..5 },
        ];
        assert_eq!(merged, expected);
        assert_eq!(coalesce(&blocks, 0, 4096).len(), 5, "the limit keeps them apart");
    }

    proptest! {
        #[test]
        fn every_request_lies_in_its_merged_read(
            mut requests in vec((0u64..100_000, 0u32..9000), 0..60), gap in 0u32..10_000, len_max in 0u32..60_000,
        ) {
            requests.sort();
            let requests: Vec<Request> = requests.iter().map(|(offset, len)| Request { offset: *offset, len: *len }).collect();
            let merged = coalesce(&requests, gap, len_max);
            let mut next = 0;
            for Coalesced { request, members } in merged {
                assert_eq!(members.start, next, "members follow one another without holes");
                next = members.end;
                assert!(request.len <= len_max || members.len() == 1);
                for member in &requests[members] {
                    assert!(member.offset >= request.offset && member.end() <= request.end());
                }
            }
            assert_eq!(next, requests.len());
        }
    }

    #[test]
    fn requests_at_the_end_of_the_number_space_do_not_wrap() {
        let far = Request { offset: u64::MAX - 1, len: 4096 };
        assert_eq!(coalesce(&[far, far], u32::MAX, u32::MAX).len(), 1);
    }
}
