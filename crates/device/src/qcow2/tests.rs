// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use fsmend_base::SeededRandom;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

use super::Qcow2Device;
use crate::testing::TempFile;
use crate::{Device, GrowingFile, ReadErrorKind, WritableDevice, WritableFile, WritableQcow2};

const CLUSTER_BITS: u32 = 12;
const CLUSTER: usize = 1 << CLUSTER_BITS;

/// An image with clusters of 4 KiB: header, table of level 1, one table of level 2, then data.
struct Image(Vec<u8>);

impl Image {
    /// A version-3 image of a disk of `clusters` clusters, all of them unallocated.
    fn new(clusters: u64) -> Self {
        let mut image = Image(vec![0; 4 * CLUSTER]);
        image.put(0, b"QFI\xfb\0\0\0\x03");
        image.put(20, &CLUSTER_BITS.to_be_bytes());
        image.put(24, &(clusters * CLUSTER as u64).to_be_bytes());
        image.put(36, &1u32.to_be_bytes());
        image.put(40, &(CLUSTER as u64).to_be_bytes());
        image.put(48, &(3 * CLUSTER as u64).to_be_bytes());
        image.put(56, &1u32.to_be_bytes());
        image.put(96, &4u32.to_be_bytes());
        image.put(100, &104u32.to_be_bytes());
        image.put(CLUSTER, &((2 * CLUSTER as u64) | (1 << 63)).to_be_bytes());
        image
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn set_entry(&mut self, cluster: usize, entry: u64) {
        self.put(2 * CLUSTER + 8 * cluster, &entry.to_be_bytes());
    }

    /// Puts a cluster of `value` at the end of the file and maps it.
    fn with_data(mut self, cluster: usize, value: u8) -> Self {
        self.set_entry(cluster, self.0.len() as u64 | (1 << 63));
        self.0.extend([value; CLUSTER]);
        self
    }

    /// Maps a compressed cluster of `value`: a deflate stream of one stored block.
    fn with_compressed(mut self, cluster: usize, value: u8) -> Self {
        let sectors_beyond_first = (CLUSTER as u64 + 5) / 512;
        // 62 - (cluster_bits - 8) bits are offset, those above the number of further sectors.
        self.set_entry(cluster, (1 << 62) | (sectors_beyond_first << 58) | self.0.len() as u64);
        self.0.push(1);
        self.0.extend((CLUSTER as u16).to_le_bytes());
        self.0.extend((!(CLUSTER as u16)).to_le_bytes());
        self.0.extend([value; CLUSTER]);
        self.0.resize(self.0.len().next_multiple_of(CLUSTER), 0);
        self
    }

    /// Names a backing file; its format is left to be found out.
    fn with_backing(mut self, path: &Path) -> Self {
        let name = path.to_str().unwrap().as_bytes();
        self.put(8, &1024u64.to_be_bytes());
        self.put(16, &(name.len() as u32).to_be_bytes());
        self.put(1024, name);
        self
    }

    fn write(&self) -> TempFile {
        TempFile::new("qcow2", &self.0)
    }
}

/// The first byte of each cluster, after making sure that the others are the same.
fn clusters(device: &dyn Device) -> Vec<u8> {
    let mut bytes = vec![0xEE; device.len() as usize];
    device.read_at(0, &mut bytes).unwrap();
    for cluster in bytes.chunks(CLUSTER) {
        assert!(cluster.iter().all(|byte| *byte == cluster[0]));
    }
    bytes.iter().step_by(CLUSTER).copied().collect()
}

fn refusal(image: &Image) -> String {
    Qcow2Device::open(image.write().path()).err().unwrap().to_string()
}

#[test]
fn data_holes_zeroes_and_compressed_clusters_are_read() {
    let mut image = Image::new(6).with_data(4, 4).with_data(0, 9).with_compressed(2, 7);
    image.set_entry(3, 1);
    let file = image.write();
    let device = Qcow2Device::open(file.path()).unwrap();
    assert_eq!(clusters(&device), [9, 0, 7, 0, 4, 0]);
    let mut across = [0xEE; 3];
    device.read_at(CLUSTER as u64 - 1, &mut across).unwrap();
    assert_eq!(across, [9, 0, 0]);
    assert_eq!(
        device.read_at(6 * CLUSTER as u64 - 1, &mut across).unwrap_err().kind,
        ReadErrorKind::BeyondEnd
    );
    assert!(device.direct().is_none());
}

#[test]
fn small_reads_from_compressed_clusters_are_right_for_many_threads() {
    let values: Vec<u8> = (1..200).collect();
    let mut image = Image::new(200);
    for (cluster, value) in values.iter().enumerate() {
        image = if cluster % 5 == 0 {
            image.with_data(cluster, *value)
        } else {
            image.with_compressed(cluster, *value)
        };
    }
    // The image on which this one is based is compressed as well.
    let base = Image::new(200).with_compressed(199, 77).write();
    let file = image.with_backing(base.path()).write();
    let device = Qcow2Device::open(file.path()).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (device, values) = (&device, &values);
            scope.spawn(move || {
                let mut random = SeededRandom::new(seed);
                for _ in 0..2000 {
                    let offset = random.below(200 * CLUSTER as u64 - 600);
                    let mut buf = vec![0; random.below(600) as usize];
                    device.read_at(offset, &mut buf).unwrap();
                    for (byte, at) in buf.iter().zip(offset..) {
                        assert_eq!(byte, values.get(at as usize / CLUSTER).unwrap_or(&77));
                    }
                }
            });
        }
    });
}

#[test]
fn backing_files_show_through_holes() {
    let raw = TempFile::new("raw", &[1; 2 * CLUSTER]);
    let base = Image::new(4).with_data(1, 2).with_backing(raw.path()).write();
    // A relative name is meant relative to the image.
    let top = Image::new(4).with_data(3, 3).with_backing(Path::new(base.path().file_name().unwrap())).write();
    assert_eq!(clusters(&Qcow2Device::open(top.path()).unwrap()), [1, 2, 0, 3]);
}

#[test]
fn a_chain_that_bites_its_tail_is_refused() {
    let file = TempFile::new("loop", &[]);
    std::fs::write(file.path(), Image::new(1).with_backing(file.path()).0).unwrap();
    assert!(Qcow2Device::open(file.path()).err().unwrap().to_string().contains("based on one another"));
    assert!(refusal(&Image::new(1).with_backing(Path::new("/dev/zero"))).contains("neither a regular file"));
    refusal(&Image::new(1).with_backing(Path::new("/nowhere/at/all")));
}

#[test]
fn a_chain_whose_tables_are_all_large_is_refused() {
    let sparse = |backing: Option<&Path>| {
        let mut image = Image::new(1);
        image.put(20, &21u32.to_be_bytes());
        image.put(36, &(4u32 << 20).to_be_bytes());
        image.put(40, &(2u64 << 20).to_be_bytes());
        image.put(48, &(2u64 << 20).to_be_bytes());
        let image = if let Some(path) = backing { image.with_backing(path) } else { image };
        let file = TempFile::new("sparse", &image.0[..CLUSTER]);
        std::fs::OpenOptions::new().write(true).open(file.path()).unwrap().set_len(256 << 20).unwrap();
        file
    };
    let mut chain = vec![sparse(None)];
    for _ in 0..4 {
        chain.push(sparse(chain.last().map(TempFile::path)));
    }
    assert_eq!(Qcow2Device::open(chain[1].path()).unwrap().len(), CLUSTER as u64);
    let error = Qcow2Device::open(chain[4].path()).err().unwrap().to_string();
    assert!(error.contains("1 GiB"), "{error}");
}

#[test]
fn marks_that_only_concern_writers_are_no_obstacle() {
    let mut image = Image::new(1).with_data(0, 5);
    image.put(72, &3u64.to_be_bytes());
    assert_eq!(clusters(&Qcow2Device::open(image.write().path()).unwrap()), [5]);
    image.put(72, &(1u64 << 20).to_be_bytes());
    assert!(refusal(&image).contains("20"), "an unknown feature is one");
}

#[test]
fn a_separate_data_file_is_not_opened_for_writing() {
    let data = TempFile::new("data", &[6; CLUSTER]);
    let mut permissions = std::fs::metadata(data.path()).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(data.path(), permissions).unwrap();
    let mut image = Image::new(1);
    image.put(72, &4u64.to_be_bytes());
    let name = data.path().to_str().unwrap().as_bytes();
    image.put(104, &0x4441_5441u32.to_be_bytes());
    image.put(108, &(name.len() as u32).to_be_bytes());
    image.put(112, name);
    image.set_entry(0, 1 << 63);
    assert_eq!(clusters(&Qcow2Device::open(image.write().path()).unwrap()), [6]);
}

#[test]
fn a_cut_off_image_loses_only_what_is_missing() {
    let mut image = Image::new(3).with_data(0, 1).with_data(1, 2).with_data(2, 3);
    image.0.truncate(5 * CLUSTER + 100);
    let file = image.write();
    let device = Qcow2Device::open(file.path()).unwrap();
    let mut cluster = [0xEE; CLUSTER];
    device.read_at(0, &mut cluster).unwrap();
    assert_eq!(cluster, [1; CLUSTER]);
    device.read_at(CLUSTER as u64, &mut cluster).unwrap();
    assert_eq!((cluster[99], cluster[100]), (2, 0), "the rest of the last cluster of a file reads as zeroes");
    let error = device.read_at(2 * CLUSTER as u64, &mut cluster).unwrap_err();
    assert!(matches!(error.kind, ReadErrorKind::Io(_)));
}

#[test]
fn absurd_headers_are_refused_before_memory_is_spent() {
    let damaged = |at: usize, bytes: &[u8]| {
        let mut image = Image::new(1);
        image.put(at, bytes);
        refusal(&image)
    };
    for cluster_bits in [0, 8, 22, 31, u32::MAX] {
        assert!(damaged(20, &cluster_bits.to_be_bytes()).contains("clusters"));
    }
    assert!(damaged(24, &u64::MAX.to_be_bytes()).contains("level-1"));
    assert!(damaged(36, &u32::MAX.to_be_bytes()).contains("level-1"));
    assert!(damaged(36, &2000u32.to_be_bytes()).contains("beyond the end"));
    assert!(damaged(40, &(1u64 << 60).to_be_bytes()).contains("beyond the end"));
    assert!(damaged(32, &1u32.to_be_bytes()).contains("encrypted"));
    damaged(100, &u32::MAX.to_be_bytes());
    damaged(4, &9u32.to_be_bytes());
}

/// Writes to the disk in an image, if it can be opened for that.
fn write_somewhere(path: &Path) {
    let file = Arc::new(GrowingFile::new(WritableFile::open(path, false).unwrap()));
    if let Ok(disk) = WritableQcow2::open(path, file) {
        let end = disk.len().saturating_sub(100);
        let _ = disk.prepare(&[(0, disk.len().min(20_000)), (end, disk.len() - end)]);
        for at in [0, 5 * CLUSTER as u64 - 3, end] {
            let _ = disk.write_at(at, &[7; 100]);
        }
        let _ = disk.sync();
    }
}

#[test]
fn what_is_shared_counted_wrongly_or_nowhere_is_given_a_place() {
    // Nothing is counted: even what says that it has one user only is copied.
    let file = Image::new(6).with_data(0, 1).with_compressed(1, 2).write();
    let before = std::fs::read(file.path()).unwrap();
    write_somewhere(file.path());
    let after = std::fs::read(file.path()).unwrap();
    assert_eq!(before[4 * CLUSTER..], after[4 * CLUSTER..before.len()], "all data stays where it was");
    let mut bytes = vec![0; 2 * CLUSTER];
    Qcow2Device::open(file.path()).unwrap().read_at(0, &mut bytes).unwrap();
    assert_eq!((bytes[99], bytes[100], bytes[CLUSTER]), (7, 1, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn hostile_images_are_survived(
        damage in vec((0usize..4 * CLUSTER, any::<u8>()), 0..12), header in vec((0usize..112, any::<u8>()), 0..3),
        entries in vec((0usize..8, any::<u64>()), 0..4), cut in 1000usize..8 * CLUSTER,
    ) {
        let mut image = Image::new(6).with_data(0, 1).with_compressed(1, 2).with_data(2, 3);
        for (at, value) in damage.into_iter().chain(header) {
            image.0[at] = value;
        }
        for (cluster, entry) in entries {
            image.set_entry(cluster, entry);
        }
        image.0.truncate(cut);
        let file = image.write();
        if let Ok(device) = Qcow2Device::open(file.path()) {
            let mut bytes = vec![0; device.len().min(1 << 20) as usize];
            let _ = device.read_at(0, &mut bytes);
            let _ = device.read_at(device.len().saturating_sub(10), &mut [0]);
        }
        write_somewhere(file.path());
    }
}
