// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program did to read a disk, step by step as the kernel recorded it, and the same once more on a simulated disk.
//!
//! A step is what the program asked of the disk, or bytes that it could not go on without; before each, it computes for a while. Computing is the time
//! for which the program had a processor, so neither the recorded disk's own time nor that of other programs is in it. Served again, a request is
//! made when the program has computed for as long as it had then; it waits where it needed bytes, and nowhere else. What it, or the kernel for it, reads ahead goes on
//! meanwhile.

use std::time::Duration;

use fsmend_disksim::{Disk, Ticket};

/// e2fsck's passes.
pub const PASSES: usize = 5;

/// What a program does to a disk, or says meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// It asks for bytes, and does not wait yet: the first one, and how many.
    Ask(u64, u64),
    /// It goes on when it has these.
    Need(u64, u64),
    /// It says that this pass begins.
    Pass(u32),
    /// It ends.
    End,
}

/// A deed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// How long it computed since the one before.
    pub computing: Duration,
    /// What came then.
    pub deed: Deed,
}

/// How long a replay took, on the disk's clock.
#[derive(Clone, Copy, Default, Debug)]
pub struct Times {
    /// Seconds of each pass; what comes before the first one counts to it.
    pub passes: [f64; PASSES],
    /// Seconds of them for which the program computed.
    pub computing: f64,
}

/// Everything that the process `pid` did to the disk with this `number`, from its first request on. None of it, if it made none.
pub fn steps_in(trace: &str, number: &str, pid: u32) -> Vec<Step> {
    let mut reader = Reader { pid: pid.to_string(), number, running_since: None, computing: 0, wanted: None };
    let (mut steps, mut has_asked) = (Vec::new(), false);
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        let Some(deed) = reader.deed_in(line) else { continue };
        // To be loaded, and to understand its arguments, is no part of a check.
        let computing = Duration::from_micros(std::mem::take(&mut reader.computing));
        let computing = if has_asked { computing } else { Duration::ZERO };
        has_asked |= matches!(deed, Deed::Ask(..));
        if has_asked || matches!(deed, Deed::Pass(_)) {
            steps.push(Step { computing, deed });
        }
    }
    if !has_asked {
        return Vec::new();
    }
    steps.push(Step { computing: Duration::from_micros(reader.computing), deed: Deed::End });
    steps
}

/// Bytes that were asked for in each pass; what comes before the first one counts to it.
pub fn bytes_of_passes(steps: &[Step]) -> [u64; PASSES] {
    let (mut bytes, mut pass) = ([0; PASSES], 0);
    for step in steps {
        match step.deed {
            Deed::Ask(_, len) => bytes[pass] += len,
            Deed::Pass(number) => pass = (number.max(1) as usize - 1).min(PASSES - 1),
            Deed::Need(..) | Deed::End => {}
        }
    }
    bytes
}

/// Does all that again on a disk.
pub fn replay(steps: &[Step], disk: &mut Disk) -> Times {
    let mut times = Times::default();
    let mut pass = 0;
    let mut asked: Vec<(u64, u64, Ticket)> = Vec::new();
    for step in steps {
        let (before, in_pass) = (disk.now(), pass);
        disk.spend(step.computing);
        times.computing += step.computing.as_secs_f64();
        match step.deed {
            Deed::Ask(offset, len) => asked.push((offset, offset.saturating_add(len), disk.ask(offset, len))),
            Deed::Need(offset, len) => {
                let end = offset.saturating_add(len);
                let is_needed = |request: &(u64, u64, Ticket)| request.0 < end && offset < request.1;
                asked.iter().filter(|request| is_needed(request)).for_each(|request| disk.wait(request.2));
                asked.retain(|request| !is_needed(request));
            }
            Deed::Pass(number) => pass = (number as usize).clamp(1, PASSES) - 1,
            Deed::End => {}
        }
        // What leads up to the word that a pass begins belongs to the one before.
        times.passes[in_pass] += (disk.now() - before).as_secs_f64();
    }
    times
}

/// Reads a record, line after line.
struct Reader<'n> {
    pid: String,
    /// The disk's number, as the kernel writes it.
    number: &'n str,
    /// Since when it has had a processor, in microseconds, or up to when that is counted.
    running_since: Option<u64>,
    /// Microseconds that it has computed since the last deed.
    computing: u64,
    /// What it is reading.
    wanted: Option<(u64, u64)>,
}

impl Reader<'_> {
    fn deed_in(&mut self, line: &str) -> Option<Deed> {
        let (head, event) = event_in(line)?;
        let is_own = head.who == self.pid;
        if let Some(said) = event.strip_prefix("sched_switch: ") {
            let (from, to) = said.split_once(" ==> ")?;
            if word_of(from, "prev_pid=") == Some(&self.pid) {
                self.compute_until(head.micros);
                self.running_since = None;
            } else if word_of(to, "next_pid=") == Some(&self.pid) {
                self.running_since = Some(head.micros);
            }
            return None;
        }
        self.compute_until(head.micros);
        if let Some(request) = event.strip_prefix("block_rq_issue: ") {
            // The process that hands it on to the disk: the kernel does so for others, too.
            return request_in(request, self.number).map(|(offset, len)| Deed::Ask(offset, len));
        }
        if !is_own {
            return None;
        }
        if let Some(arguments) = event.strip_prefix("sys_pread64(") {
            self.wanted = hexadecimal(arguments, "pos: ").zip(hexadecimal(arguments, "count: "));
            return None;
        }
        if event.starts_with("sys_pread64 -> ") {
            return self.wanted.take().map(|(offset, len)| Deed::Need(offset, len));
        }
        let said = event.strip_prefix("tracing_mark_write: Pass ")?;
        said.chars().next()?.to_digit(10).map(Deed::Pass)
    }

    fn compute_until(&mut self, micros: u64) {
        if let Some(since) = &mut self.running_since {
            self.computing += micros.saturating_sub(*since);
            *since = micros;
        }
    }
}

/// The start of a line.
struct Head<'l> {
    /// The process that had the processor.
    who: &'l str,
    /// When it was.
    micros: u64,
}

/// The parts of a line: `  e2fsck-12   [001] .....  34.567890: block_rq_issue: ...`.
fn event_in(line: &str) -> Option<(Head<'_>, &str)> {
    let (task, rest) = line.split_once(" [")?;
    let (before, event) = rest.split_once(": ")?;
    let (seconds, fraction) = before.split_whitespace().last()?.split_once('.')?;
    let micros = seconds.parse::<u64>().ok()? * 1_000_000 + fraction.parse::<u64>().ok()?;
    Some((Head { who: task.trim_end().rsplit('-').next()?, micros }, event))
}

/// The read that an event tells of: `7,0 R 4096 () 264 + 8 none,0,0 [e2fsck]`.
fn request_in(event: &str, number: &str) -> Option<(u64, u64)> {
    let mut words = event.split_whitespace();
    let is_read = words.next() == Some(number) && words.next()?.starts_with('R');
    let mut words = event.split_once(") ")?.1.split_whitespace();
    let sector: u64 = words.next()?.parse().ok()?;
    let count: u64 = words.nth(1)?.parse().ok()?;
    is_read.then_some((sector * 512, count * 512))
}

/// The word behind a name.
fn word_of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.split_whitespace().find_map(|word| word.strip_prefix(name))
}

/// A number of a system call's arguments: `fd: 3, buf: 0x55, count: 0x1000, pos: 0x2000)`.
fn hexadecimal(arguments: &str, name: &str) -> Option<u64> {
    let (_, value) = arguments.split_once(name)?;
    let value = value.split([',', ')']).next()?;
    u64::from_str_radix(value.trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use fsmend_disksim::HddDescription;

    use super::*;

    /// A line of the process 12, or of another one.
    fn line(pid: u32, micros: u64, event: &str) -> String {
        format!("   e2fsck-{pid}    [001] d..2.  {}.{:06}: {event}\n", micros / 1_000_000, micros % 1_000_000)
    }

    fn request(sector: u64, sectors: u64) -> String {
        format!("block_rq_issue: 7,1 RA {} () {sector} + {sectors} be,0,4 [e2fsck]", sectors * 512)
    }

    fn read(offset: u64, len: u64) -> String {
        format!("sys_pread64(fd: 3, buf: 0x55ad002bc1d0, count: {len:#x}, pos: {offset:#x})")
    }

    fn switch(from: u32, to: u32) -> String {
        format!(
            "sched_switch: prev_comm=a prev_pid={from} prev_prio=120 prev_state=D ==> next_comm=b next_pid={to} next_prio=120"
        )
    }

    fn steps(lines: &[(u32, u64, String)]) -> Vec<(u64, Deed)> {
        let text: String = lines.iter().map(|(pid, micros, event)| line(*pid, *micros, event)).collect();
        let steps = steps_in(&format!("# tracer: nop\n{text}"), "7,1", 12);
        steps.iter().map(|step| (step.computing.as_micros() as u64, step.deed)).collect()
    }

    #[test]
    fn computing_is_the_time_on_a_processor() {
        let found = steps(&[
            (1, 1_000_000, switch(1, 12)),
            // Before the first request nothing counts.
            (12, 1_000_500, read(0, 4096)),
            (12, 1_000_700, request(0, 8)),
            // It waits for the disk, and then another program keeps the processor.
            (12, 1_000_710, switch(12, 1)),
            (1, 1_009_000, "block_rq_complete: 7,1 RA () 0 + 8 be,0,4 [0]".to_owned()),
            (1, 1_020_000, switch(1, 12)),
            (12, 1_020_005, "sys_pread64 -> 0x1000".to_owned()),
            (12, 1_020_105, "tracing_mark_write: Pass 2: Checking directory structure".to_owned()),
            (12, 1_020_205, request(800, 16)),
            // Another disk, another program, a write.
            (12, 1_020_215, request(8, 8).replace("7,1", "7,2")),
            (13, 1_020_225, read(1, 1)),
            (13, 1_020_235, "sys_pread64 -> 0x1".to_owned()),
            (12, 1_020_245, request(8, 8).replace("RA", "WS")),
            (12, 1_020_305, switch(12, 0)),
        ]);
        let expected = [
            (0, Deed::Ask(0, 4096)),
            (15, Deed::Need(0, 4096)),
            (100, Deed::Pass(2)),
            (100, Deed::Ask(800 * 512, 8192)),
            (100, Deed::End),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_program_that_reads_nothing_has_no_steps() {
        assert_eq!(steps(&[(12, 5, "tracing_mark_write: Pass 1: x".to_owned())]), []);
        assert_eq!(steps(&[(12, 5, "anything: else".to_owned())]), []);
    }

    fn took(steps: &[(u64, Deed)]) -> (f64, Times) {
        let step = |(ms, deed): &(u64, Deed)| Step { computing: Duration::from_millis(*ms), deed: *deed };
        let mut disk = Disk::new(HddDescription::default());
        let times = replay(&steps.iter().map(step).collect::<Vec<_>>(), &mut disk);
        (disk.now().as_secs_f64(), times)
    }

    #[test]
    fn a_disk_works_while_the_program_computes_and_is_waited_for_where_it_did() {
        const FAR: u64 = 300_000_000_000;
        let ask = Deed::Ask(FAR, 4096);
        let need = Deed::Need(FAR + 100, 10);
        let (alone, _) = took(&[(0, ask), (0, need)]);
        assert!(alone > 0.005, "{alone}");
        // It computes 100 ms before it asks, or after the bytes came: both are paid. In between, only one of the two.
        let (before, _) = took(&[(100, ask), (0, need)]);
        assert!(before > 0.1 + 0.005, "{before}");
        let (after, times) = took(&[(0, ask), (0, need), (100, Deed::End)]);
        assert!((after - alone - 0.1).abs() < 1e-6, "{after}");
        assert!((times.computing - 0.1).abs() < 1e-9);
        let (between, _) = took(&[(0, ask), (100, need)]);
        assert!((between - 0.1).abs() < 1e-6, "{between}");
        // What is not needed is not waited for.
        let (unneeded, _) = took(&[(0, ask), (0, Deed::Need(0, 4096))]);
        assert!(unneeded < 1e-6, "{unneeded}");
    }

    #[test]
    fn bytes_belong_to_passes() {
        let deeds = [
            Deed::Ask(0, 10),
            Deed::Pass(1),
            Deed::Ask(9, 1),
            Deed::Pass(3),
            Deed::Need(0, 5),
            Deed::Ask(7, 7),
        ];
        let steps: Vec<Step> = deeds.map(|deed| Step { computing: Duration::ZERO, deed }).into();
        assert_eq!(bytes_of_passes(&steps), [11, 0, 7, 0, 0]);
    }

    #[test]
    fn time_belongs_to_passes() {
        let (all, times) = took(&[
            (1, Deed::Ask(0, 4096)),
            (0, Deed::Need(0, 4096)),
            (0, Deed::Pass(1)),
            (2, Deed::Pass(2)),
            (5, Deed::End),
        ]);
        assert!((times.passes[1] - 0.005).abs() < 1e-9, "{times:?}");
        assert!((times.passes.iter().sum::<f64>() - all).abs() < 1e-9, "{times:?}");
    }
}
