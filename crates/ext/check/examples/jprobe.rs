#![allow(clippy::all, clippy::unwrap_used, clippy::print_stdout, missing_docs)]
use fsmend_device::*;
use fsmend_engine::*;
use fsmend_ext_check::*;
use fsmend_ext_format::{checksum, features::*, geometry::Geometry, group::*, superblock::*};
use std::os::unix::fs::FileExt;
use zerocopy::{FromBytes, IntoBytes};
struct F(String, std::fs::File, u64);
impl Device for F {
    fn name(&self) -> &str {
        &self.0
    }
    fn len(&self) -> u64 {
        self.2
    }
    fn read_at(&self, o: u64, b: &mut [u8]) -> Result<(), ReadError> {
        self.1.read_exact_at(b, o).map_err(|_| ReadError {
            offset: o,
            len: b.len() as u64,
            kind: ReadErrorKind::BeyondEnd,
        })
    }
}
fn open(p: &str) -> F {
    let f = std::fs::File::open(p).unwrap();
    let l = f.metadata().unwrap().len();
    F(p.into(), f, l)
}
pub fn fs<'d>(d: &'d dyn Device) -> Fs<'d> {
    let mut b = vec![0; 1024];
    d.read_at(1024, &mut b).unwrap();
    let sb = RawSuperblock::read_from_bytes(&b).unwrap();
    let f = sb.features();
    let bs = 1024u32 << sb.s_log_block_size.get();
    let count = sb.blocks_count();
    let bpg = sb.s_blocks_per_group.get();
    let groups = (count - u64::from(sb.s_first_data_block.get())).div_ceil(u64::from(bpg)) as u32;
    let bit64 = f.has_incompat(incompat::BIT64);
    let g = Geometry {
        block_size: bs,
        cluster_blocks: if f.has_ro_compat(ro_compat::BIGALLOC) {
            1 << (sb.s_log_cluster_size.get() - sb.s_log_block_size.get())
        } else {
            1
        },
        blocks_count: count,
        first_data_block: sb.s_first_data_block.get(),
        blocks_per_group: bpg,
        inodes_per_group: sb.s_inodes_per_group.get(),
        group_count: groups,
        inodes_count: sb.s_inodes_count.get(),
        inode_size: if sb.s_rev_level.get() == 0 { 128 } else { sb.s_inode_size.get() as u32 },
        first_inode: if sb.s_rev_level.get() == 0 { 11 } else { sb.s_first_ino.get() },
        desc_size: if bit64 { sb.s_desc_size.get() as u32 } else { 32 },
        reserved_gdt_blocks: sb.s_reserved_gdt_blocks.get() as u32,
        first_meta_bg: sb.s_first_meta_bg.get(),
        backup_groups: [sb.s_backup_bgs[0].get(), sb.s_backup_bgs[1].get()],
        features: f,
        revision: sb.s_rev_level.get(),
        checksum_seed: if f.has_incompat(incompat::CSUM_SEED) {
            sb.s_checksum_seed.get()
        } else {
            checksum::uuid_seed(&sb.s_uuid)
        },
        uuid: sb.s_uuid,
        hurd: false,
    };
    let mut gs = vec![];
    for i in 0..groups {
        let mut r = vec![0; 64];
        let at = (u64::from(g.first_data_block) + 1) * u64::from(bs) + u64::from(i * g.desc_size);
        d.read_at(at, &mut r[..g.desc_size.min(64) as usize]).unwrap();
        let raw = RawGroupDesc::read_from_bytes(&r).unwrap();
        gs.push(Group {
            desc: GroupDesc::parse(&raw, g.wide_descriptors()),
            scan_inodes: g.inodes_per_group,
        });
    }
    Fs {
        device: d,
        superblock: sb,
        metadata: fsmend_engine::claims::SharedBitmap::new(g.blocks_count),
        geometry: g,
        groups: gs,
        now: 1_700_000_000,
    }
}
fn apply(p: &str, bs: u32, w: &std::collections::BTreeMap<u64, Box<[u8]>>) {
    let f = std::fs::OpenOptions::new().write(true).open(p).unwrap();
    for (b, c) in w {
        f.write_all_at(c, b * u64::from(bs)).unwrap();
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let d = open(&a[1]);
    let f = fs(&d);
    let mut fi = Findings::new();
    let ext = a.iter().position(|x| x == "-j").map(|i| open(&a[i + 1]));
    let noreplay = a.iter().any(|x| x == "--no-replay");
    match journal::examine(&f, ext.as_ref().map(|e| e as &dyn Device), !noreplay, &mut fi) {
        Err(r) => println!("REFUSED {} {}", r.code, r),
        Ok(o) => {
            println!("writes {} replayed {} dropped {}", o.writes.len(), o.replayed, o.dropped);
            if let Some(i) = a.iter().position(|x| x == "-o") {
                apply(&a[i + 1], f.geometry.block_size, &o.writes);
            }
        }
    }
    let base=if a.iter().any(|x|x=="-o"){open(&a[a.iter().position(|x|x=="-o").unwrap()+1])}else{open(&a[1])};
    let f2=fs(&base); quota::check_numbers(&f2,&mut fi);
    let o=orphan::released(&f2, fi.has(&journal::problems::REPLAYED), fi.has(&journal::problems::RECREATED), &mut fi);
    println!("freed {:?} truncated {:?} writes {:?}",o.freed,o.truncated,o.writes.keys().collect::<Vec<_>>());
    if let Some(i)=a.iter().position(|x|x=="-o"){ apply(&a[i+1],f.geometry.block_size,&o.writes); }
    if a.iter().any(|x|x=="-o") { let f3=fs(&base); let mut u=quota::QuotaUsage::new();
      for n in 1..=f3.geometry.inodes_count { let n=fsmend_base::InodeNo(n); if let Some(Ok(r))=f3.read_inode(n) { let raw=fsmend_ext_format::inode::RawInode::from_record(&r);
        if raw.i_links_count.get()>0 && quota::QuotaUsage::counts(&f3.geometry,n,raw.i_flags.get()) { u.charge(quota::Owner::of(&raw,f3.geometry.inode_size),quota::bytes_of(&f3.geometry,&raw)); } } }
      u.merge(o.used); quota::check(&f3,&u,&mut fi); }
    for p in fi.into_sorted() {
        println!("  {} [{}] {}", p.row.code, p.row.severity.word(), p.message());
    }
}
