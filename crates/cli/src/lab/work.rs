// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the laboratory does: mounts, fills, runs workloads, and takes the time.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsmend_device::{Device, WritableDevice};
use fsmend_disksim::{DRIVES, Drive, Timed};
use fsmend_lab::aging::{Aging, AgingOptions, AgingReport, Filling};
use fsmend_lab::personality::{self, Personality};
use fsmend_lab::postmark::{self, PostmarkOptions};
use fsmend_lab::trees::{
    ArchiveOptions, KernelOptions, Mix, MixOptions, build_kernel, copy_kernel, remove_all, unpack,
};
use fsmend_lab::{Bench, reading};
use fsmend_session::driver::{Driver, Mounting as How, Placement};
use fsmend_vfs::{Errno, FileSystem, InodeNo, Time};

use super::args::{FillArgs, Mounting, Policy, RunArgs, Telling, Workload};
use super::show::{Result as Measured, Shower};
use super::{Refused, exit};

/// Bytes that a file is read in: as many as Linux reads ahead.
const PIECE: usize = 128 << 10;
/// Bytes of a block group of 4 KiB blocks.
const GROUP_BYTES: u64 = 128 << 20;

/// Where the work is done: a device, how it is mounted, and what tells the time.
pub struct Site {
    device: Arc<dyn WritableDevice>,
    /// The same device, where it is a simulated disk's time that counts.
    timed: Option<Timed<Arc<dyn WritableDevice>>>,
    policy: Policy,
    disk: Option<String>,
    began: Instant,
    /// How often something found no room.
    refused: Cell<u64>,
}

impl Site {
    /// A site over `device`.
    pub fn new(device: Arc<dyn WritableDevice>, mounting: &Mounting) -> Result<Self, Refused> {
        let (policy, began) = (mounting.policy, Instant::now());
        let mut site = Site { device, timed: None, policy, disk: None, began, refused: Cell::new(0) };
        if let Some(name) = &mounting.disk {
            let drive = Drive::named(name).ok_or_else(|| {
                let known: Vec<&str> = DRIVES.iter().map(|(name, _)| *name).collect();
                (exit::USAGE, format!("there is no disk \"{name}\" to simulate, but {}", known.join(", ")))
            })?;
            if site.device.len() > drive.capacity() {
                return Err((exit::USAGE, format!("the disk \"{name}\" holds less than the target")));
            }
            let timed = Timed::new(Arc::clone(&site.device), drive);
            site.device = Arc::new(timed.clone());
            (site.timed, site.disk) = (Some(timed), Some(name.clone()));
        }
        Ok(site)
    }

    /// The policy, as it is called on the command line.
    pub fn policy_name(&self) -> &'static str {
        match self.policy {
            Policy::Format => "format",
            Policy::Metacluster => "metacluster",
            Policy::MetaclusterAll => "metacluster-all",
        }
    }

    /// The simulated disk.
    pub fn disk_name(&self) -> Option<&str> {
        self.disk.as_deref()
    }

    /// How often something found no room, or room for a part only, since the beginning.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// The words behind a time.
    pub fn on_which_disk(&self) -> String {
        self.disk.as_ref().map_or_else(String::new, |name| format!(" of the simulated disk {name}"))
    }

    /// The time that has passed.
    fn clock(&self) -> Duration {
        self.timed.as_ref().map_or_else(|| self.began.elapsed(), Timed::now)
    }

    /// Whether its files take blocks before they are written.
    fn claims(&self) -> bool {
        self.driver().is_ok_and(|driver| driver.claims_unwritten())
    }

    fn driver(&self) -> Result<&'static dyn Driver, String> {
        crate::target::FAMILIES.driver_of(&*self.device, "mount")
    }

    fn mount(&self, in_bulk: bool) -> Result<Box<dyn FileSystem>, String> {
        self.forget();
        let placement = match self.policy {
            Policy::Format => Placement::Format,
            Policy::Metacluster => Placement::Metacluster,
            Policy::MetaclusterAll => Placement::MetaclusterAll,
        };
        let how = How { bulk: in_bulk, placement, ..How::new(Time::at(1_000_000_000), false) };
        Ok(self.driver()?.mount(Arc::clone(&self.device), &how)?.fs)
    }

    /// Nothing is in memory.
    fn forget(&self) {
        if let Some(timed) = &self.timed {
            timed.drop_caches();
        }
    }

    /// Mounts, does some work, and unmounts.
    fn mounted<T>(
        &self,
        telling: &Telling,
        work: impl FnOnce(&mut Bench<'_>) -> Result<T, Errno>,
    ) -> Result<T, String> {
        self.on(self.mount(false)?, telling, work)
    }

    fn on<T>(
        &self,
        mut driver: Box<dyn FileSystem>,
        telling: &Telling,
        work: impl FnOnce(&mut Bench<'_>) -> Result<T, Errno>,
    ) -> Result<T, String> {
        let mut shower = Shower::new(telling.progress);
        let done = {
            let mut observer = |part: &str, share: f64| shower.show(part, share);
            let mut bench = Bench::new(&mut *driver, telling.seed).observed(&mut observer);
            let done = work(&mut bench).map(|value| (value, bench.tick()));
            self.refused.set(self.refused.get() + bench.refused());
            done
        };
        drop(shower);
        let (value, end) = done.map_err(|error| words(error, &*driver))?;
        driver.unmount(end).map_err(|error| words(error, &*driver))?;
        Ok(value)
    }
}

/// Why the driver could not go on.
fn words(error: Errno, driver: &dyn FileSystem) -> String {
    driver.trouble().map_or_else(|| error.to_string(), ToOwned::to_owned)
}

/// What filling came to.
pub struct Filled {
    /// What was done.
    pub report: AgingReport,
    /// How full it is now, 0 to 1.
    pub utilisation: f64,
    /// How long it took.
    pub time: Duration,
}

/// Fills and ages.
pub fn fill(site: &Site, arguments: &FillArgs) -> Result<Filled, String> {
    let begin = site.clock();
    // Where nothing can be claimed, it is written.
    let is_written = arguments.written || !site.claims();
    let groups = u32::try_from(site.device.len().div_ceil(GROUP_BYTES)).unwrap_or(u32::MAX);
    let options = AgingOptions {
        folders: arguments.folders.unwrap_or(groups),
        folder_bytes: GROUP_BYTES / 5,
        file_blocks_max: arguments.file_blocks.max(1),
        append_blocks_max: (arguments.file_blocks / 2).max(1),
        utilisation: f64::from(arguments.utilisation) / 100.0,
        operations_per_folder: arguments.age,
        filling: if is_written { Filling::Written } else { Filling::Claimed },
    };
    // Without data, nothing is there that would be worth a journal.
    let driver = site.mount(!is_written)?;
    let (report, utilisation) = site.on(driver, &arguments.telling, |bench| {
        let mut aging = Aging::begin(bench, options)?;
        aging.fill()?;
        aging.age()?;
        // Cutting and deleting have made room.
        aging.fill()?;
        let utilisation = aging.utilisation()?;
        Ok((aging.finish()?, utilisation))
    })?;
    Ok(Filled { report, utilisation, time: site.clock().saturating_sub(begin) })
}

/// Runs a workload.
pub fn run(site: &Site, arguments: &RunArgs) -> Result<Vec<Measured>, String> {
    match arguments.workload {
        Workload::Sequential | Workload::Random | Workload::Strided => one_file(site, arguments),
        Workload::Postmark => postmark(site, arguments, PostmarkOptions::default()),
        Workload::PostmarkSmall => postmark(site, arguments, PostmarkOptions::small()),
        Workload::Kernel => kernel(site, arguments),
        Workload::Archive => archive(site, arguments),
        Workload::Mix => mix(site, arguments),
        Workload::FileServer => server(site, arguments, Personality::file_server()),
        Workload::WebProxy => server(site, arguments, Personality::web_proxy()),
        Workload::MailServer => server(site, arguments, Personality::mail_server()),
    }
}

/// A name that is not taken, for what a workload makes.
fn free_name(bench: &mut Bench<'_>, folder: InodeNo, stem: &str) -> Result<String, Errno> {
    for number in 0..u32::MAX {
        let name = format!("{stem}-{number}");
        match bench.fs.lookup(folder, name.as_bytes()) {
            Ok(_) => {}
            Err(Errno::NotFound) => return Ok(name),
            Err(error) => return Err(error),
        }
    }
    Err(Errno::Exists)
}

/// A large file is written, and read when nothing of it is in memory.
fn one_file(site: &Site, arguments: &RunArgs) -> Result<Vec<Measured>, String> {
    let clock = || site.clock();
    let telling = &arguments.telling;
    let begin = site.clock();
    let (file, written, ended) = site.mounted(telling, |bench| {
        let root = bench.fs.root();
        let name = free_name(bench, root, "large")?;
        let (file, written) = reading::write_in_a_row(bench, &clock, (root, &name), arguments.size)?;
        Ok((file, written, clock()))
    })?;
    let home = site.clock().saturating_sub(ended);
    let read = site.mounted(telling, |bench| match arguments.workload {
        Workload::Random => {
            reading::read_at_random(bench, &clock, file, arguments.count.unwrap_or(512).into())
        }
        Workload::Strided => {
            let pointers = u64::from(bench.fs.statfs()?.block_size) / 4;
            reading::read_in_strides(bench, &clock, file, pointers)
        }
        _ => reading::read_in_a_row(bench, &clock, file, PIECE),
    })?;
    Ok(vec![
        Measured::moved("written and synchronised", written.bytes, written.time),
        Measured::moved("the same, and all metadata at home", written.bytes, written.time + home),
        Measured::moved("read", read.bytes, read.time),
        Measured::moved("all of it", written.bytes + read.bytes, site.clock().saturating_sub(begin)),
    ])
}

fn postmark(site: &Site, arguments: &RunArgs, default: PostmarkOptions) -> Result<Vec<Measured>, String> {
    let options = PostmarkOptions {
        files: arguments.files.unwrap_or(default.files),
        transactions: arguments.count.unwrap_or(default.transactions),
        ..default
    };
    let clock = || site.clock();
    let report = site.mounted(&arguments.telling, |bench| postmark::run(bench, &clock, &options))?;
    let all = report.making + report.transacting + report.deleting;
    Ok(vec![
        Measured::operations("files made at first", u64::from(options.files), report.making),
        Measured::operations("transactions", u64::from(options.transactions), report.transacting),
        Measured::operations("files deleted at the end", report.made - report.deleted, report.deleting),
        Measured::moved("read", report.bytes_read, all),
        Measured::moved("written", report.bytes_written, all),
    ])
}

fn kernel(site: &Site, arguments: &RunArgs) -> Result<Vec<Measured>, String> {
    let default = KernelOptions::default();
    // As many folders and objects for each source as there are by default.
    let files = arguments.files.unwrap_or(default.files);
    let share = |number: u32| {
        let of_all = u64::from(files) * u64::from(number) / u64::from(default.files.max(1));
        u32::try_from(of_all).unwrap_or(u32::MAX).max(1)
    };
    let options =
        KernelOptions { files, folders: share(default.folders), objects: share(default.objects), ..default };
    let clock = || site.clock();
    let begin = site.clock();
    let (sources, copied) = site.mounted(&arguments.telling, |bench| {
        let sources = copy_kernel(bench, &options)?;
        Ok((sources, clock()))
    })?;
    let again = site.clock();
    let objects = site.mounted(&arguments.telling, |bench| build_kernel(bench, &sources, &options))?;
    Ok(vec![
        Measured::operations("sources copied", sources.len() as u64, copied.saturating_sub(begin)),
        Measured::operations("objects built", objects.into(), site.clock().saturating_sub(again)),
    ])
}

fn archive(site: &Site, arguments: &RunArgs) -> Result<Vec<Measured>, String> {
    let default = ArchiveOptions::default();
    let options = ArchiveOptions { packages: arguments.files.unwrap_or(default.packages), ..default };
    let begin = site.clock();
    let made = site.mounted(&arguments.telling, |bench| unpack(bench, &options))?;
    let again = site.clock();
    let removed = site.mounted(&arguments.telling, remove_all)?;
    Ok(vec![
        Measured::operations("unpacked", made.files + made.folders, again.saturating_sub(begin)),
        Measured::operations("removed", removed.files + removed.folders, site.clock().saturating_sub(again)),
    ])
}

fn mix(site: &Site, arguments: &RunArgs) -> Result<Vec<Measured>, String> {
    let operations = arguments.count.unwrap_or(10_000).into();
    let begin = site.clock();
    let report = site.mounted(&arguments.telling, |bench| {
        let mut mix = Mix::new(bench, MixOptions::default());
        mix.run(bench, operations)?;
        Ok(mix.report())
    })?;
    let time = site.clock().saturating_sub(begin);
    Ok(vec![
        Measured::operations("operations", operations, time),
        Measured::operations("files made", report.made, time),
        Measured::operations("files deleted", report.deleted, time),
        Measured::moved("written", report.bytes, time),
    ])
}

fn server(site: &Site, arguments: &RunArgs, personality: Personality) -> Result<Vec<Measured>, String> {
    let personality = Personality { files: arguments.files.unwrap_or(personality.files), ..personality };
    let clock = || site.clock();
    let report = site.mounted(&arguments.telling, |bench| {
        personality::run(bench, &clock, &personality, arguments.count.unwrap_or(1000))
    })?;
    Ok(vec![
        Measured::operations("operations", report.operations, report.time),
        Measured::moved("read", report.bytes_read, report.time),
        Measured::moved("written", report.bytes_written, report.time),
    ])
}
