// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much is read ahead between blocks that are wanted: less when it turns out that it was for nothing.
//!
//! Neighbours on the disk are cheaper to read together than one by one, with what lies between them, as long as that is little
//! or will be wanted soon. What is prefetched so and goes unused is known exactly: the bytes read less the bytes wanted.

/// The widest gap that is read over, in bytes.
pub const GAP_MAX: u32 = 16 * 1024;
/// The narrowest one, except none.
const GAP_MIN: u32 = 4 * 1024;

/// The window of one worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    gap: u32,
}

impl Default for Window {
    fn default() -> Self {
        Window { gap: GAP_MAX }
    }
}

impl Window {
    /// Neighbours with at most so many bytes between them are read together.
    pub fn gap(self) -> u32 {
        self.gap
    }

    /// Of `read` bytes, `wanted` ones were used: with more than a quarter unused the window shrinks to half, with less than a
    /// sixteenth it grows again.
    pub fn learn(&mut self, wanted: u64, read: u64) {
        let unused = read.saturating_sub(wanted);
        if unused > read / 4 {
            self.gap = if self.gap <= GAP_MIN { 0 } else { self.gap / 2 };
        } else if unused < read / 16 {
            self.gap = (self.gap * 2).clamp(GAP_MIN, GAP_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinks_when_what_is_prefetched_goes_unused_and_grows_when_not() {
        let mut window = Window::default();
        let learned = |window: &mut Window, wanted| {
            window.learn(wanted, 100);
            window.gap()
        };
        assert_eq!([10, 60, 40, 40].map(|wanted| learned(&mut window, wanted)), [8192, 4096, 0, 0]);
        assert_eq!(
            [80, 100, 100, 100, 100].map(|wanted| learned(&mut window, wanted)),
            [0, 4096, 8192, 16384, 16384]
        );
    }
}
