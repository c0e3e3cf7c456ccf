// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fsmend_base::SeededRandom;
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use super::{BatchReader, ReadBackend, Request};
use crate::testing::{FaultyDevice, TempFile};
use crate::{Device, FileDevice, MemoryDevice, Overlay, ReadError, ReadErrorKind, Slice};

const FILE_BYTES: usize = 600_000;

fn random_bytes(len: usize) -> Vec<u8> {
    let mut random = SeededRandom::new(5);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

/// What a batch delivered, by index of the request; each exactly once.
fn collect(reader: &mut BatchReader<'_>, requests: &[Request]) -> Vec<Result<Vec<u8>, ReadError>> {
    let mut results = vec![None; requests.len()];
    reader.read(requests, &mut |index, result| {
        let before = results[index].replace(result.map(|bytes| bytes.to_vec()));
        assert!(before.is_none(), "each request is answered once");
    });
    results.into_iter().map(|result| result.unwrap()).collect()
}

fn backend() -> impl Strategy<Value = ReadBackend> {
    prop_oneof![Just(ReadBackend::Auto), Just(ReadBackend::Uring), Just(ReadBackend::Pread)]
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let len = prop_oneof![Just(4096u32), 0u32..10_000, 100_000u32..200_000];
    vec((0u64..FILE_BYTES as u64 + 5000, len), 0..60).prop_map(|mut pairs| {
        pairs.sort_unstable();
        pairs.into_iter().map(|(offset, len)| Request { offset, len }).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_way_delivers_the_same_bytes(
        backend in backend(), depth in 1usize..40, batches in vec(requests(), 1..4), start in 0u64..5000, writes in vec((0u64..FILE_BYTES as u64 - 6000, any::<u8>()), 0..20),
    ) {
        let bytes = random_bytes(FILE_BYTES);
        let file = TempFile::new("batch", &bytes);
        let slice = Slice::new("s", Arc::new(FileDevice::open(file.path()).unwrap()), start, u64::MAX);
        let mut model = bytes[start as usize..].to_vec();
        let mut overlay = Overlay::new(slice);
        for (offset, value) in writes {
            overlay.write(offset, &[value; 1000]).unwrap();
            model[offset as usize..offset as usize + 1000].fill(value);
        }
        let mut reader = BatchReader::new(&overlay, backend, depth);
        for requests in batches {
            for (request, result) in requests.iter().zip(collect(&mut reader, &requests)) {
                match model.get(request.offset as usize..request.end() as usize) {
                    Some(expected) => assert!(result.unwrap() == expected),
                    None => assert_eq!(result.unwrap_err().kind, ReadErrorKind::BeyondEnd),
                }
            }
        }
    }

    #[test]
    fn faults_cost_only_the_requests_they_lie_in(seed in any::<u64>(), requests in requests()) {
        let bytes = random_bytes(FILE_BYTES);
        let device = FaultyDevice::new(MemoryDevice::new("m", bytes.clone())).with_random_faults(seed, 6);
        let faults: Vec<_> = device.lasting_faults().collect();
        let mut reader = BatchReader::new(&device, ReadBackend::Auto, 32);
        for (request, result) in requests.iter().zip(collect(&mut reader, &requests)) {
            let hit = faults.iter().any(|fault| fault.start < request.end() && fault.end > request.offset);
            let Some(expected) = bytes.get(request.offset as usize..request.end() as usize) else {
                assert_eq!(result.unwrap_err().kind, ReadErrorKind::BeyondEnd);
                continue;
            };
            match result {
                Ok(read) => assert!(read == expected && (!hit || request.len == 0)),
                // Without a lasting fault in it, it was one of the transient ones.
                Err(error) => assert!(error.offset >= request.offset && error.offset + error.len <= request.end()),
            }
        }
    }
}

#[test]
fn a_transient_fault_heals_when_the_request_is_tried_in_pieces() {
    let device = FaultyDevice::new(MemoryDevice::new("m", vec![7; 65536])).with_fault(5000..5001, Some(3));
    let mut reader = BatchReader::new(&device, ReadBackend::Auto, 4);
    let results = collect(&mut reader, &[Request { offset: 0, len: 65536 }]);
    assert_eq!(results[0].as_deref(), Ok([7; 65536].as_slice()));
}

/// A file of which nothing is in the page cache, where the file system of the temporary directory can do that.
fn cold_file(bytes: &[u8]) -> TempFile {
    let file = TempFile::new("cold", bytes);
    let handle = std::fs::File::open(file.path()).unwrap();
    handle.sync_all().unwrap();
    rustix::fs::fadvise(&handle, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    file
}

#[test]
fn cold_and_warm_parts_are_both_delivered() {
    let bytes = random_bytes(12 << 20);
    for backend in [ReadBackend::Auto, ReadBackend::Uring, ReadBackend::Pread] {
        let file = cold_file(&bytes);
        let device = FileDevice::open(file.path()).unwrap();
        let mut warm = vec![0; 1 << 20];
        device.read_at(3 << 20, &mut warm).unwrap();
        let mut reader = BatchReader::new(&device, backend, 8);
        let requests: Vec<Request> = (0..48).map(|i| Request { offset: i << 18, len: 1 << 18 }).collect();
        for (request, result) in requests.iter().zip(collect(&mut reader, &requests)) {
            assert!(result.unwrap() == bytes[request.offset as usize..request.end() as usize]);
        }
    }
}

#[test]
fn a_request_longer_than_the_ring_is_still_read() {
    let bytes = random_bytes(10 << 20);
    let file = cold_file(&bytes);
    let device = FileDevice::open(file.path()).unwrap();
    for backend in [ReadBackend::Auto, ReadBackend::Uring] {
        let mut reader = BatchReader::new(&device, backend, 4);
        let requests = [Request { offset: 0, len: 10 << 20 }, Request { offset: 4096, len: 4096 }];
        let results = collect(&mut reader, &requests);
        assert!(results[0].as_ref().unwrap() == &bytes);
        assert!(results[1].as_ref().unwrap() == &bytes[4096..8192]);
    }
}

#[test]
fn a_panicking_callback_leaves_reads_in_flight_that_do_no_harm() {
    let bytes = random_bytes(8 << 20);
    let file = cold_file(&bytes);
    let device = FileDevice::open(file.path()).unwrap();
    let requests: Vec<Request> = (0..64).map(|i| Request { offset: i << 17, len: 1 << 17 }).collect();
    let mut reader = BatchReader::new(&device, ReadBackend::Uring, 32);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        reader.read(&requests, &mut |_, _| panic!("planned"));
    }));
    outcome.unwrap_err();
    // The same reader goes on with other requests, of another size, into the same memory.
    let small: Vec<Request> = (0..500).map(|i| Request { offset: i * 16_001, len: 4096 }).collect();
    for (request, result) in small.iter().zip(collect(&mut reader, &small)) {
        assert!(result.unwrap() == bytes[request.offset as usize..request.end() as usize]);
    }
    // Another one is dropped with reads in flight.
    let mut reader = BatchReader::new(&device, ReadBackend::Uring, 32);
    catch_unwind(AssertUnwindSafe(|| reader.read(&requests, &mut |_, _| panic!("planned")))).unwrap_err();
}

#[test]
fn a_file_that_has_become_shorter_gives_errors_only_where_it_is_missing() {
    let file = TempFile::new("shrunk", &random_bytes(1 << 20));
    let device = FileDevice::open(file.path()).unwrap();
    std::fs::OpenOptions::new().write(true).open(file.path()).unwrap().set_len(300_000).unwrap();
    let requests: Vec<Request> = (0..16).map(|i| Request { offset: i << 16, len: 1 << 16 }).collect();
    for backend in [ReadBackend::Auto, ReadBackend::Uring, ReadBackend::Pread] {
        let mut reader = BatchReader::new(&device, backend, 4);
        for (request, result) in requests.iter().zip(collect(&mut reader, &requests)) {
            assert_eq!(result.is_ok(), request.end() <= 300_000);
        }
    }
}

#[test]
fn devices_without_a_file_are_read_plainly() {
    let device = MemoryDevice::new("m", random_bytes(100_000));
    let mut reader = BatchReader::new(&device, ReadBackend::Uring, 4);
    let results =
        collect(&mut reader, &[Request { offset: 10, len: 20 }, Request { offset: u64::MAX, len: 1 }]);
    assert_eq!(results[0].as_deref(), Ok(&device.bytes()[10..30]));
    assert_eq!(results[1].as_ref().unwrap_err().kind, ReadErrorKind::BeyondEnd);
}
