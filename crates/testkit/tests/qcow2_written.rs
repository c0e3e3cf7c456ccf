// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repairs of disks in qcow2 images: whatever the image has where the repair writes, and whenever the power fails, the disk shows what it showed before or what the
//! repair makes of it, and no cluster of the image is used that is not counted.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use fsmend_base::SeededRandom;
use fsmend_device::{
    ApplyOptions, Control, Device, LogFile, LogState, MemoryDevice, Plan, PlanBuilder, Recovered, Way,
    WritableDevice, WritableQcow2, apply, recover, undo,
};
use fsmend_disksim::{Machine, SimFile};
use fsmend_testkit::qcow2::{Kind, Shape, Sharing, judge};

const PLACE: &str = "/nowhere/image.qcow2";

/// A durable file that holds `bytes`.
fn file_of(machine: &Machine, bytes: &[u8]) -> SimFile {
    let file = SimFile::create("image", machine);
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    file.sync_entry().unwrap();
    file
}

fn opened(file: &Arc<SimFile>) -> std::io::Result<WritableQcow2> {
    WritableQcow2::open(Path::new(PLACE), Arc::clone(file) as Arc<dyn WritableDevice>)
}

fn bytes_of(device: &dyn Device) -> Vec<u8> {
    let mut bytes = vec![0; device.len() as usize];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

/// A plan that writes at random places of the disk, and the disk after it.
fn random_plan(disk: &[u8], seed: u64) -> (Plan, Vec<u8>) {
    let mut random = SeededRandom::new(seed);
    let (mut changes, mut after, mut at) = (Vec::new(), disk.to_vec(), 0);
    for _ in 0..1 + random.below(6) {
        let from = at + random.below(disk.len() as u64 / 3 + 1);
        let end = (from + 1 + random.below(9000)).min(disk.len() as u64);
        if from >= end {
            break;
        }
        let bytes: Vec<u8> = (from..end).map(|_| random.next_u64() as u8).collect();
        after[from as usize..end as usize].copy_from_slice(&bytes);
        changes.push((from, bytes));
        at = end + 1;
    }
    let device = MemoryDevice::new("disk", disk.to_vec());
    let builder = PlanBuilder { changes: &changes, ..PlanBuilder::default() };
    (Plan::make(&device, &builder).unwrap(), after)
}

/// A sector of an image's tables that cannot be read any more would be lost, as with any program that writes images; that of data is written again, as in a raw image.
fn restart(machine: &Machine, file: &SimFile) {
    machine.restart();
    file.forget_faults();
}

struct Case {
    name: String,
    image: Vec<u8>,
    before: Vec<u8>,
    after: Vec<u8>,
    plan: Plan,
}

impl Case {
    fn new(seed: u64) -> Option<Case> {
        let shape = Shape::random(seed);
        let before = shape.disk();
        if before.is_empty() {
            return None;
        }
        let (plan, after) = random_plan(&before, seed);
        if plan.is_empty() {
            return None;
        }
        Some(Case { name: format!("image {seed}"), image: shape.image(), before, after, plan })
    }

    fn apply(&self, file: &Arc<SimFile>, log: &SimFile) -> Result<(), String> {
        let disk = opened(file).map_err(|error| error.to_string())?;
        let options = ApplyOptions { start: 0, keep_undo: true, control: Control::unattended() };
        apply(&self.plan, &disk, log, &options).map(|_| ()).map_err(|error| error.to_string())
    }

    /// Undisturbed: written, taken back, and nothing is leaked.
    fn calm(&self) {
        let machine = Machine::new(1);
        let (file, log) = (Arc::new(file_of(&machine, &self.image)), SimFile::create("log", &machine));
        self.apply(&file, &log).unwrap_or_else(|why| panic!("{}: {why}", self.name));
        machine.restart();
        assert_eq!(judge(&bytes_of(&*file)), Ok(0), "{}", self.name);
        let disk = opened(&file).unwrap();
        assert!(bytes_of(&disk) == self.after, "{}: other bytes", self.name);
        let len = file.len();
        undo(&log, &disk, false, Control::unattended()).unwrap();
        assert!(bytes_of(&disk) == self.before, "{}: not as before", self.name);
        assert_eq!((judge(&bytes_of(&*file)), file.len()), (Ok(0), len), "{}: undo needs no room", self.name);
    }

    /// Cuts the power at request `cut`, and once more in the recovery; whether there was such a request.
    fn cut_at(&self, cut: u64, second: Option<u64>) -> bool {
        let machine = Machine::new(cut << 8 | second.unwrap_or(0xFF));
        let file = Arc::new(file_of(&machine, &self.image));
        let log = SimFile::create("log", &machine);
        machine.cut_power_at(machine.changes() + cut);
        let done = self.apply(&file, &log);
        if machine.is_on() {
            done.unwrap();
            return false;
        }
        restart(&machine, &file);
        let mut waiting = second;
        loop {
            let told = |why: &str| format!("{}, cut {cut}, {second:?}: {why}", self.name);
            judge(&bytes_of(&*file)).unwrap_or_else(|why| panic!("{}", told(&why)));
            let disk = opened(&file).unwrap_or_else(|why| panic!("{}", told(&why.to_string())));
            if !log.is_there() {
                assert!(bytes_of(&disk) == self.before, "{}", told("without a log, not as before"));
                break;
            }
            if let Some(second) = waiting.take() {
                machine.cut_power_at(machine.changes() + second);
            }
            let way = if cut.is_multiple_of(3) { Way::Back } else { Way::AsBegun };
            let recovered = recover(&log, &disk, way, false, Control::unattended());
            if !machine.is_on() {
                drop(disk);
                restart(&machine, &file);
                continue;
            }
            let wanted = match recovered.unwrap_or_else(|why| panic!("{}", told(&why.to_string()))) {
                Recovered::Finished { .. } | Recovered::Nothing(LogState::Applied) => &self.after,
                Recovered::Dropped | Recovered::TakenBack { .. } | Recovered::Nothing(_) => &self.before,
            };
            assert!(bytes_of(&disk) == *wanted, "{}", told("other bytes"));
            judge(&bytes_of(&*file)).unwrap_or_else(|why| panic!("{}", told(&why)));
            break;
        }
        true
    }
}

#[test]
fn repairs_of_images_of_any_shape_are_written_and_taken_back() {
    let cases: Vec<Case> = (0..300).filter_map(Case::new).collect();
    assert!(cases.len() > 250);
    cases.iter().for_each(Case::calm);
}

#[test]
fn repairs_of_images_survive_every_cut() {
    let mut cuts = 0;
    for case in (0..40).filter_map(Case::new) {
        let mut cut = 0;
        while case.cut_at(cut, None) {
            case.cut_at(cut, Some(cut % 11));
            cut += 1;
        }
        cuts += 2 * cut;
    }
    assert!(cuts > 2000, "{cuts}");
}

/// More clusters than the refcount table has room for: blocks and a larger table are made, and the old one is given up.
#[test]
fn refcount_tables_grow() {
    for (cluster_bits, order) in [(9, 6), (9, 5)] {
        let cluster = 1u64 << cluster_bits;
        let per_table = ((cluster * 8) >> order) * cluster / 8;
        // The image is nearly as large as its table speaks of.
        let filled = (per_table - per_table / 8) as usize;
        let mut kinds = vec![Kind::Data(1); filled];
        kinds.extend(vec![Kind::Hole; per_table as usize]);
        let shape = Shape::new(cluster_bits, order, kinds);
        let before = shape.disk();
        let from = filled as u64 * cluster;
        let change = vec![7; (per_table * cluster) as usize / 2];
        let device = MemoryDevice::new("disk", before.clone());
        let changes = [(from, change)];
        let builder = PlanBuilder { changes: &changes, ..PlanBuilder::default() };
        let plan = Plan::make(&device, &builder).unwrap();
        let mut after = before.clone();
        after[from as usize..][..changes[0].1.len()].fill(7);
        let image = shape.image();
        assert_eq!(u32::from_be_bytes(image[56..60].try_into().unwrap()), 1);
        Case { name: format!("{cluster_bits}, {order}"), image, before, after, plan }.calm();
    }
}

#[test]
fn what_is_under_the_image_shows_and_stays() {
    let folder = std::env::temp_dir().join(format!("fsmend-qcow2-written-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let base = folder.join("base.raw");
    std::fs::write(&base, vec![9; 3 * 4096]).unwrap();
    let mut shape = Shape::new(12, 4, vec![Kind::Hole, Kind::Data(2), Kind::Hole, Kind::Hole]);
    shape.backing = Some(base.display().to_string());
    let machine = Machine::new(1);
    let file = Arc::new(file_of(&machine, &shape.image()));
    let disk = opened(&file).unwrap();
    disk.write_at(4000, &[5; 200]).unwrap();
    let mut wanted = [[9; 4096], [2; 4096], [9; 4096], [0; 4096]].concat();
    wanted[4000..4200].fill(5);
    assert!(bytes_of(&disk) == wanted);
    assert_eq!(judge(&bytes_of(&*file)), Ok(0));
    assert_eq!(std::fs::read(&base).unwrap(), vec![9; 3 * 4096]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_a_snapshot_has_is_not_written() {
    for sharing in [Sharing::Table, Sharing::Data] {
        let mut shape =
            Shape::new(12, 4, vec![Kind::Data(1), Kind::Data(2), Kind::Compressed(3), Kind::Hole]);
        shape.sharing = vec![sharing];
        let machine = Machine::new(1);
        let before = shape.image();
        let file = Arc::new(file_of(&machine, &before));
        let disk = opened(&file).unwrap();
        disk.prepare(&[(0, 8192), (8192, 1)]).unwrap();
        assert!(bytes_of(&disk) == shape.disk());
        disk.write_at(4000, &[5; 5000]).unwrap();
        let after = bytes_of(&*file);
        assert_eq!(judge(&after), Ok(0));
        // Every cluster with contents that was there is as it was.
        let at = before.windows(4096).position(|bytes| bytes == [1; 4096]).unwrap();
        assert_eq!(before[at..at + 8192], after[at..at + 8192]);
    }
}

#[test]
fn writing_in_place_needs_no_room_and_clears_what_it_does_not_keep() {
    let mut shape = Shape::new(16, 4, vec![Kind::Data(1), Kind::Data(2)]);
    // Bitmaps of changed blocks, which backups go by.
    shape.features = (0, 1);
    let machine = Machine::new(1);
    let file = Arc::new(file_of(&machine, &shape.image()));
    let disk = opened(&file).unwrap();
    let len = file.len();
    disk.write_at(65_000, &[5; 2000]).unwrap();
    assert_eq!(file.len(), len);
    let image = bytes_of(&*file);
    assert_eq!(image[88..96], [0; 8]);
    assert_eq!(judge(&image), Ok(0));
}

/// What is done to the bytes of an image.
type Damage<'d> = &'d dyn Fn(&mut Vec<u8>);

#[test]
fn images_that_contradict_themselves_are_not_written() {
    let refused = |damage: Damage<'_>, features| {
        let mut shape = Shape::new(12, 4, vec![Kind::Data(1), Kind::Data(2), Kind::Data(3)]);
        shape.features = (features, 0);
        let mut image = shape.image();
        damage(&mut image);
        let before = image.clone();
        let file = Arc::new(file_of(&Machine::new(1), &image));
        let why = opened(&file).map(|_| ()).unwrap_err().to_string();
        assert!(bytes_of(&*file) == before);
        why
    };
    let place = |image: &[u8], at: usize| u64::from_be_bytes(image[at..at + 8].try_into().unwrap()) as usize;
    let l2 = |image: &[u8]| place(image, place(image, 40)) & 0xFFFF_FFFF;
    let cases: [(Damage<'_>, u64, &str); 8] = [
        (&|_| (), 2, "corrupt"),
        (&|_| (), 4, "file of its own"),
        (&|_| (), 16, "extended"),
        (&|_| (), 1 << 40, "unknown features"),
        (
            &|image| {
                let table = l2(image);
                image.copy_within(table..table + 8, table + 8);
            },
            0,
            "used twice",
        ),
        (
            &|image| {
                let (table, l1) = (l2(image), place(image, 40) as u64 | 1 << 63);
                image[table..table + 8].copy_from_slice(&l1.to_be_bytes());
            },
            0,
            "used twice",
        ),
        (
            &|image| {
                let table = l2(image);
                image[table + 2] = 0x7F;
            },
            0,
            "is not valid",
        ),
        (&|image| image[48..56].fill(0), 0, "refcount table"),
    ];
    for (damage, features, wanted) in cases {
        let why = refused(damage, features);
        assert!(why.contains(wanted), "{wanted}: {why}");
    }
}

#[test]
fn no_room_leaves_the_disk_as_it_was() {
    let shape = Shape::new(16, 4, vec![Kind::Data(1), Kind::Hole, Kind::Hole]);
    let machine = Machine::new(1);
    let image = shape.image();
    let file = Arc::new(file_of(&machine, &image).with_room_for(image.len() as u64 + 70_000));
    let disk = opened(&file).unwrap();
    let before = shape.disk();
    let changes = [(0, vec![6; 3 << 16])];
    let builder = PlanBuilder { changes: &changes, ..PlanBuilder::default() };
    let plan = Plan::make(&MemoryDevice::new("disk", before.clone()), &builder).unwrap();
    let log = SimFile::create("log", &machine);
    let options = ApplyOptions { start: 0, keep_undo: true, control: Control::unattended() };
    let error = apply(&plan, &disk, &log, &options).unwrap_err();
    assert!(!error.is_begun() && error.to_string().contains("no space"), "{error}");
    assert!(!log.is_there());
    assert!(bytes_of(&disk) == before);
    judge(&bytes_of(&*file)).unwrap();
}
