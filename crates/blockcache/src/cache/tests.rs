// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use fsmend_base::SeededRandom;
use fsmend_device::{Device, WritableMemory};
use fsmend_disksim::{Machine, SimDisk};

use super::BlockCache;

const SIZE: usize = 512;
const BLOCKS: u64 = 12;

fn empty() -> (Arc<WritableMemory>, BlockCache) {
    let device = Arc::new(WritableMemory::new("memory", vec![0; SIZE * BLOCKS as usize]));
    (Arc::clone(&device), BlockCache::new(device, SIZE as u32, BLOCKS, 1 << 20))
}

fn first_byte(cache: &mut BlockCache, block: u64) -> u8 {
    cache.get(block).unwrap()[0]
}

fn set(cache: &mut BlockCache, block: u64, value: u8) {
    cache.change(block).unwrap()[0] = value;
}

#[test]
fn a_failed_operation_leaves_everything_as_it_was() {
    let (device, mut cache) = empty();
    cache.begin();
    set(&mut cache, 1, 10);
    cache.then();
    set(&mut cache, 2, 20);
    cache.finish();
    let before = (cache.changed_blocks(), cache.stages());

    cache.begin();
    set(&mut cache, 2, 21);
    cache.then();
    set(&mut cache, 1, 11);
    cache.create(3).unwrap()[0] = 30;
    cache.then();
    set(&mut cache, 2, 22);
    cache.forget(1);
    cache.take_back();
    assert_eq!((cache.changed_blocks(), cache.stages()), before);
    assert_eq!([1, 2, 3].map(|block| first_byte(&mut cache, block)), [10, 20, 0]);

    cache.write_changed().unwrap();
    assert_eq!([1, 2, 3].map(|block: usize| device.bytes()[block * SIZE]), [10, 20, 0]);
    assert_eq!((cache.changed_count(), cache.stages()), (0, 0));
}

#[test]
fn an_operation_that_only_read_changes_nothing() {
    let (_, mut cache) = empty();
    cache.begin();
    cache.get(1).unwrap();
    cache.then();
    cache.finish();
    assert_eq!((cache.changed_count(), cache.stages()), (0, 0));
    assert!(cache.get(BLOCKS).is_err());
    assert!(cache.trouble().is_some());
}

#[test]
fn operations_without_steps_are_written_in_one_stage() {
    let (_, mut cache) = empty();
    for block in [3, 1, 2, 1] {
        cache.begin();
        set(&mut cache, block, 1);
        cache.finish();
    }
    assert_eq!(cache.stages(), 1);
}

#[test]
fn a_block_before_and_behind_another_is_written_twice() {
    let (device, mut cache) = empty();
    // A file is made (inode 1, then name 2) and another one removed (name 2, then inode 1).
    cache.begin();
    set(&mut cache, 1, 10);
    cache.then();
    set(&mut cache, 2, 20);
    cache.finish();
    cache.begin();
    set(&mut cache, 2, 21);
    cache.then();
    set(&mut cache, 1, 11);
    cache.finish();
    assert_eq!(cache.stages(), 3, "1, 2, and 1 again");
    cache.write_changed().unwrap();
    assert_eq!([1, 2].map(|block: usize| device.bytes()[block * SIZE]), [11, 21]);
}

#[test]
fn a_block_that_is_freed_behind_its_last_pointer_is_still_written_for_older_pointers() {
    let machine = Machine::new(1);
    let disk = Arc::new(SimDisk::new("disk", &machine, Arc::new(vec![0; SIZE * BLOCKS as usize])));
    let mut cache = BlockCache::new(Arc::clone(&disk) as Arc<_>, SIZE as u32, BLOCKS, 1 << 20);
    // A map block 5 and the pointer to it in 6, which a second operation clears in its second step.
    cache.begin();
    cache.create(5).unwrap()[0] = 50;
    cache.then();
    set(&mut cache, 6, 5);
    cache.finish();
    cache.begin();
    set(&mut cache, 6, 1);
    cache.then();
    set(&mut cache, 6, 0);
    cache.then();
    cache.forget(5);
    cache.finish();
    cache.write_changed().unwrap();
    cache.sync().unwrap();
    assert_eq!(disk.bytes()[5 * SIZE], 50);
    assert_eq!(disk.bytes()[6 * SIZE], 0);
}

/// One operation: its steps, and the blocks that each changes.
type Steps = Vec<Vec<u64>>;

fn random_operations(seed: u64) -> Vec<Steps> {
    let mut random = SeededRandom::new(seed);
    let mut step = |_| (0..1 + random.below(2)).map(|_| random.below(BLOCKS)).collect();
    (0..SIZE).map(|number| (0..1 + number % 4).map(&mut step).collect()).collect()
}

/// Every operation writes a byte of its own in each of its blocks. Whenever the power fails: where a step of an operation is on the disk, everything that its earlier
/// steps have written is there, too.
#[test]
fn whenever_the_power_fails_no_step_is_on_the_disk_before_an_earlier_one() {
    let mut cuts = 0;
    for seed in 1..=2 {
        let operations = random_operations(seed);
        for cut in 0.. {
            let machine = Machine::new(seed << 32 | cut);
            let disk = Arc::new(SimDisk::new("disk", &machine, Arc::new(vec![0; SIZE * BLOCKS as usize])));
            machine.cut_power_at(cut);
            run(&operations, &mut BlockCache::new(Arc::clone(&disk) as Arc<_>, SIZE as u32, BLOCKS, 4096));
            let is_cut = !machine.is_on();
            machine.restart();
            disk.forget_faults();
            judge(&operations, &*disk).unwrap_or_else(|what| panic!("seed {seed}, cut {cut}: {what}"));
            if !is_cut {
                break;
            }
            cuts += 1;
        }
    }
    assert!(cuts > 200, "only {cuts} power cuts");
}

fn run(operations: &[Steps], cache: &mut BlockCache) {
    for (number, steps) in operations.iter().enumerate() {
        cache.begin();
        for step in steps {
            for block in step {
                let Ok(bytes) = cache.change(*block) else { return };
                bytes[number] = 1;
            }
            cache.then();
        }
        // One in seven fails, and must not be seen.
        if number % 7 == 3 {
            cache.take_back()
        } else {
            cache.finish()
        }
        if cache.stages() > 16 && cache.write_changed().is_err() {
            return;
        }
    }
    let _ = cache.write_changed().and_then(|()| cache.sync());
}

fn judge(operations: &[Steps], disk: &dyn Device) -> Result<(), String> {
    let mut bytes = vec![0; SIZE * BLOCKS as usize];
    disk.read_at(0, &mut bytes).map_err(|error| error.to_string())?;
    let has = |block: u64, number: usize| bytes[block as usize * SIZE + number] != 0;
    for (number, steps) in operations.iter().enumerate() {
        let failed = number % 7 == 3;
        let mut is_whole = !failed;
        for (index, step) in steps.iter().enumerate() {
            // A block that this operation has changed in an earlier step has the byte from then on.
            let fresh = |block: &&u64| !steps[..index].concat().contains(block);
            if !is_whole && step.iter().filter(fresh).any(|block| has(*block, number)) {
                return Err(format!("operation {number} ({steps:?}): step {index} came too early"));
            }
            is_whole &= step.iter().all(|block| has(*block, number));
        }
    }
    Ok(())
}
