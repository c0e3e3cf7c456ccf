// SPDX-License-Identifier: MIT OR Apache-2.0
//! The judge: one damaged image, the repair under test, the reference beside it, and what has to be true afterwards.

use std::io;
use std::sync::Arc;

use super::compare::Trees;
use super::image::Image;
use super::known::{Facts, Known};
use super::mount;
use super::scratch::with_bytes;
use super::spoiled::Spoiled;
use super::subject::{E2fsck, Outcome, Subject};
use super::tree::Tree;

/// Something that is wrong with a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure, for tables; without numbers.
    pub kind: String,
    /// The particulars.
    pub detail: String,
}

impl Failure {
    fn new(kind: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Failure { kind: kind.to_owned(), detail }
    }

    fn with_class(kind: &str, detail: &str) -> Self {
        Failure { kind: format!("{kind}: {}", without_numbers(detail)), detail: detail.to_owned() }
    }
}

/// What the reference did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// It was not asked: nothing was changed, and it has nothing to say against that.
    NotAsked,
    /// It was not asked: every file is as it was before the damage, so that nothing can have been lost.
    NotNeeded,
    /// It repaired the image.
    Repaired,
    /// It gave up, crashed, hung, or called its own repair wrong: no reference here.
    None,
}

/// The judgement of one case.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// What is wrong.
    pub failures: Vec<Failure>,
    /// What the reference did.
    pub reference: Reference,
    /// The repaired image, where there is one.
    pub ours: Option<Image>,
    /// What the reference made of the image.
    pub theirs: Option<Image>,
}

/// How much is asked of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Numbers of threads at which the plan has to be the same as with one.
    pub threads: &'static [usize],
    /// Whether the kernel mounts the result and reads all of it.
    pub mount: bool,
    /// Whether e2fsck repairs a copy. Without, everything has to be as it was before the damage.
    pub reference: bool,
    /// Whether everything is looked at even where it follows from something else: that nothing can be lost where every file is as it was before the
    /// damage, and that the same bytes are judged in the same way each time.
    pub thorough: bool,
}

impl Depth {
    /// Everything.
    pub const FULL: Depth = Depth { threads: &[2, 7, 64], mount: true, reference: true, thorough: true };
    /// What is asked of every case.
    pub const USUAL: Depth = Depth { threads: &[], mount: false, reference: true, thorough: false };
}

/// Who judges: the tree before the damage, and e2fsck.
pub struct Judge<'t> {
    /// The tree before the damage.
    pub sound: &'t Tree,
    /// What is known about repaired images.
    pub known: &'t Known,
    /// The reference.
    pub e2fsck: E2fsck,
    /// Whether the kernel mounts the image as it was before the damage: it is asked about every image that is called sound then.
    pub is_mountable: bool,
}

impl Judge<'_> {
    /// Lets `subject` repair `damaged` and looks at what comes of it.
    pub fn judge(&self, damaged: &Image, subject: &dyn Subject, depth: Depth) -> io::Result<Judgement> {
        let mut judgement =
            Judgement { failures: Vec::new(), reference: Reference::NotAsked, ours: None, theirs: None };
        let ours = match subject.repair(damaged, 1) {
            Outcome::Repaired(ours) => ours,
            Outcome::Fell(how) => {
                judgement.failures.push(Failure::with_class("fell", &how));
                return Ok(judgement);
            }
            Outcome::GaveUp(code, why) => {
                // Where the reference does no better, no more can be asked.
                self.ask_reference(damaged, depth, &mut judgement);
                let asked =
                    depth.reference || self.e2fsck.complaint(damaged)?.is_some_and(|said| is_hopeless(&said));
                if judgement.reference == Reference::Repaired || !asked {
                    judgement.failures.push(Failure::new(&code, why));
                }
                return Ok(judgement);
            }
        };
        let find = || self.facts(&ours, subject);
        let facts = match subject.is_exact() && !depth.thorough {
            true => self.known.facts(ours.fingerprint(), find)?,
            false => Arc::new(find()?),
        };
        if facts.complaint.is_none() && facts.is_as_before && !depth.thorough {
            judgement.reference = Reference::NotNeeded;
        } else if ours != *damaged || facts.complaint.is_some() {
            self.ask_reference(damaged, depth, &mut judgement);
        }
        if let Some(complaint) = &facts.complaint
            && !self.complains_about_itself(&judgement)?
            && !(judgement.reference == Reference::None && is_hopeless(complaint))
        {
            judgement.failures.push(Failure::with_class("e2fsck -fn", complaint));
        }
        judgement.failures.extend(facts.again.clone());
        let refused_before = facts.complaint.as_deref().is_some_and(is_hopeless);
        let kernel = facts.kernel.as_ref().filter(|_| !refused_before);
        judgement.failures.extend(kernel.map(|said| Failure::with_class("kernel", said)));
        judgement.failures.extend(self.losses(damaged, &ours, &judgement));
        judgement.failures.extend(other_plans(subject, damaged, &ours, depth));
        if depth.mount && judgement.failures.is_empty() {
            judgement.failures.extend(self.mounted(&ours, facts.complaint.as_deref())?);
        }
        judgement.ours = Some(ours);
        Ok(judgement)
    }

    /// What is true of a repaired image whatever was damaged.
    fn facts(&self, ours: &Image, subject: &dyn Subject) -> io::Result<Facts> {
        let tree = with_bytes(ours, Tree::of);
        let kernel = match &tree {
            Some(tree) if self.is_mountable => mount::complaint(ours, tree)?,
            _ => None,
        };
        Ok(Facts {
            kernel,
            complaint: self.e2fsck.complaint(ours)?,
            again: again(subject, ours),
            is_as_before: tree.is_some_and(|tree| tree.nodes == self.sound.nodes),
        })
    }

    fn ask_reference(&self, damaged: &Image, depth: Depth, judgement: &mut Judgement) {
        judgement.reference = Reference::None;
        if depth.reference
            && let Outcome::Repaired(theirs) = self.e2fsck.repair(damaged, 1)
        {
            judgement.reference = Reference::Repaired;
            judgement.theirs = Some(theirs);
        }
    }

    /// Whether e2fsck finds fault with its own repair as well.
    fn complains_about_itself(&self, judgement: &Judgement) -> io::Result<bool> {
        match &judgement.theirs {
            Some(theirs) => Ok(self.e2fsck.complaint(theirs)?.is_some()),
            None => Ok(false),
        }
    }

    fn losses(&self, damaged: &Image, ours: &Image, judgement: &Judgement) -> Vec<Failure> {
        if judgement.reference == Reference::NotNeeded {
            return Vec::new();
        }
        let Some(tree) = with_bytes(ours, Tree::of) else {
            return vec![Failure::new("no root directory", "")];
        };
        if judgement.theirs.as_ref() == Some(ours) {
            return Vec::new();
        }
        let theirs = judgement.theirs.as_ref().and_then(|theirs| with_bytes(theirs, Tree::of));
        let nothing = Tree::default();
        let reference = match judgement.reference {
            // Without a reference nothing is known but what was there before.
            Reference::None if judgement.theirs.is_none() => Some(&nothing),
            Reference::NotAsked => None,
            _ => theirs.as_ref(),
        };
        let Some(theirs) = reference else { return Vec::new() };
        let lost = |spoiled: &Spoiled| Trees { sound: self.sound, theirs, ours: &tree, spoiled }.losses();
        let mut losses = lost(&Spoiled::default());
        if let (false, Some(theirs)) = (losses.is_empty(), &judgement.theirs) {
            let sound = (damaged.base(), self.sound);
            losses = lost(&Spoiled::of(sound, &damaged.bytes(), &theirs.bytes()));
        }
        let mut failures: Vec<Failure> = Vec::new();
        for loss in losses {
            match failures.iter_mut().find(|failure| failure.kind == loss.kind) {
                Some(failure) if failure.detail.len() < 200 => failure.detail += &format!(", {}", loss.path),
                Some(_) => {}
                None => failures.push(Failure::new(&loss.kind, loss.path)),
            }
        }
        failures
    }

    /// What the kernel has to say, or e2fsck after it; not where e2fsck would not begin before (`complaint`) either.
    fn mounted(&self, ours: &Image, complaint: Option<&str>) -> io::Result<Option<Failure>> {
        let refused_before = complaint.is_some_and(is_hopeless);
        let said = mount::mount_and_read(ours, &self.e2fsck)?.err();
        let counts = said.filter(|why| !(refused_before && is_hopeless(why)));
        Ok(counts.map(|why| Failure::with_class("kernel", &why)))
    }
}

/// Whether e2fsck would not even begin: features from the future, no superblock.
fn is_hopeless(complaint: &str) -> bool {
    complaint.starts_with("exit code 8") || complaint.contains("newer version")
}

/// A second repair has nothing to do, and finds nothing.
fn again(subject: &dyn Subject, ours: &Image) -> Option<Failure> {
    match subject.repair(ours, 1) {
        Outcome::Repaired(twice) if twice == *ours || !subject.is_exact() => None,
        Outcome::Repaired(_) => Some(Failure::new("a second repair changes more", "")),
        Outcome::GaveUp(code, why) => Some(Failure::new(&format!("a second repair gives up: {code}"), why)),
        Outcome::Fell(how) => Some(Failure::with_class("a second repair falls", &how)),
    }
}

/// The same repair at any number of threads.
fn other_plans(subject: &dyn Subject, damaged: &Image, ours: &Image, depth: Depth) -> Vec<Failure> {
    let wanted = if subject.is_exact() { depth.threads } else { &[] };
    let differs = |threads: &&usize| !matches!(subject.repair(damaged, **threads), Outcome::Repaired(other) if other == *ours);
    let different = wanted.iter().filter(differs);
    different
        .map(|threads| Failure::new("another plan with more threads", format!("{threads} threads")))
        .collect()
}

/// The first of several complaints, with every number replaced by `N` and every name by `..`, so that two cases of one kind look the same.
pub fn without_numbers(text: &str) -> String {
    let first = text.split(" | ").next().unwrap_or_default();
    let words = first.split(' ').map(|word| {
        let number = word.trim_matches(|character: char| !character.is_ascii_alphanumeric());
        let hex = number.strip_prefix("0x").unwrap_or(number);
        let is_number = hex.starts_with(|first: char| first.is_ascii_digit())
            || hex.len() > 3 && hex.chars().all(|digit| digit.is_ascii_hexdigit());
        match word {
            name if name.contains('/') || name.starts_with('\'') => "..".to_owned(),
            word if word.contains('=') => word.split('=').next().unwrap_or_default().to_owned() + "=N",
            word if is_number => word.replace(number, "N"),
            word => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ").chars().take(140).collect()
}
