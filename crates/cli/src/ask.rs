// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions at a terminal, answered by single keys: no Enter is needed.
//!
//! The terminal is switched to single keys for one question at a time and is put back when the question goes, with or without an answer.
//! SIGINT and SIGTERM wake the question at once, so that the terminal is put back before the run ends; the keys that stop or kill a
//! process without a chance to do so are switched off as long.

use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// How often to check whether the run was stopped while waiting for an answer.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Ctrl-C, where the terminal makes no signal of it.
const INTERRUPT: u8 = 3;
/// The environment variable by which e2fsck asks without a terminal.
const FORCE_INTERACTIVE: &str = "E2FSCK_FORCE_INTERACTIVE";

/// Whether a question can be asked.
pub fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Whether `e2fsck_compat` may ask: at a terminal, or where the environment says so.
pub fn is_possible_or_forced() -> bool {
    is_possible() || std::env::var_os(FORCE_INTERACTIVE).is_some()
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Yes,
    /// No.
    No,
    /// Yes, and to everything that comes.
    All,
    /// None: the user quit (`q`), or the run was stopped (Ctrl-C) while the question stood there.
    Stop,
}

impl Answer {
    /// What is printed behind the question.
    fn word(self) -> &'static str {
        match self {
            Answer::Yes => "yes",
            Answer::No => "no",
            Answer::All => "yes to all",
            Answer::Stop => "quit",
        }
    }
}

/// What came from the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Typed {
    /// A key.
    Key(u8),
    /// Nothing more will come.
    End,
    /// The run was stopped first.
    Stop,
}

/// Asks until a key answers: `y`, `n`, `a` (yes to all), `q` (quit). Enter and the space bar stand for `default`, if there is one; `?` prints
/// `explanation`; the end of input means no. Once `stop` is set it does not wait for an answer any more.
pub fn ask(question: &str, explanation: &str, default: Option<Answer>, stop: &AtomicBool) -> Answer {
    let keyboard = Keyboard::new();
    let answer = ask_through(
        (question, explanation),
        default,
        &mut || keyboard.next_key(stop),
        &mut io::stdout().lock(),
    );
    drop(keyboard);
    answer
}

fn ask_through(
    (question, explanation): (&str, &str),
    default: Option<Answer>,
    next_key: &mut dyn FnMut() -> Typed,
    output: &mut dyn Write,
) -> Answer {
    let _ = write!(output, "{question}").and_then(|()| output.flush());
    let answer = loop {
        let key = match next_key() {
            Typed::Key(key) => key,
            Typed::End => break Answer::No,
            Typed::Stop => {
                let _ = writeln!(output);
                return Answer::Stop;
            }
        };
        match (key, default) {
            (b'y' | b'Y', _) => break Answer::Yes,
            (b'n' | b'N', _) => break Answer::No,
            (b'a' | b'A', _) => break Answer::All,
            (b'q' | b'Q' | INTERRUPT, _) => break Answer::Stop,
            (b'\n' | b'\r' | b' ', Some(answer)) => break answer,
            (b'?', _) => {
                let keys = "y: yes   n: no   a: yes to all   q: quit, nothing is written   ?: this text";
                let _ = write!(output, "?\n{explanation}{keys}\n{question}").and_then(|()| output.flush());
            }
            // Other keys are passed over, as e2fsck does.
            _ => {}
        }
    };
    let _ = writeln!(output, "{}", answer.word()).and_then(|()| output.flush());
    answer
}

/// Standard input, with single keys if it is a terminal.
struct Keyboard {
    /// The terminal as it was.
    before: Option<Termios>,
    /// Becomes readable with a signal.
    signals: Option<UnixStream>,
    registered: Vec<SigId>,
}

impl Keyboard {
    fn new() -> Keyboard {
        let mut keyboard = Keyboard { before: None, signals: None, registered: Vec::new() };
        // First the signals: none may come between the terminal's change and its being put back.
        if let Ok((reader, writer)) = UnixStream::pair() {
            for signal in [SIGINT, SIGTERM] {
                let id = writer.try_clone().and_then(|writer| pipe::register(signal, writer));
                keyboard.registered.extend(id);
            }
            keyboard.signals = Some(reader);
        }
        let stdin = io::stdin();
        if stdin.is_terminal()
            && let Ok(before) = tcgetattr(&stdin)
        {
            let mut single = before.clone();
            single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            single.special_codes[SpecialCodeIndex::VMIN] = 1;
            single.special_codes[SpecialCodeIndex::VTIME] = 0;
            for key in [SpecialCodeIndex::VQUIT, SpecialCodeIndex::VSUSP] {
                single.special_codes[key] = 0;
            }
            if tcsetattr(&stdin, OptionalActions::Now, &single).is_ok() {
                keyboard.before = Some(before);
            }
        }
        keyboard
    }

    /// The next key. It is not read through the library's buffer, which would go on waiting after a signal; what was typed ahead stays with the
    /// terminal.
    fn next_key(&self, stop: &AtomicBool) -> Typed {
        let stdin = io::stdin();
        loop {
            if stop.load(Relaxed) {
                return Typed::Stop;
            }
            let mut wait = vec![PollFd::new(&stdin, PollFlags::IN)];
            wait.extend(self.signals.as_ref().map(|signals| PollFd::new(signals, PollFlags::IN)));
            match poll(&mut wait, Some(&PATIENCE)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(_) => return Typed::End,
            }
            let is_signalled = wait.get(1).is_some_and(|signals| !signals.revents().is_empty());
            let is_typed = !wait[0].revents().is_empty();
            if let Some(mut signals) = self.signals.as_ref().filter(|_| is_signalled) {
                // What the signal means is in `stop`; where it means nothing, the question stands on.
                let _ = signals.read(&mut [0]);
                continue;
            }
            if !is_typed {
                continue;
            }
            let mut byte = [0];
            match rustix::io::read(&stdin, &mut byte) {
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Ok(0) | Err(_) => return Typed::End,
                Ok(_) => return Typed::Key(byte[0]),
            }
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(keys: &[Typed], default: Option<Answer>) -> (Answer, String) {
        let mut typed = keys.iter().rev().copied().collect::<Vec<_>>();
        let mut output = Vec::new();
        let next = &mut || typed.pop().unwrap_or(Typed::End);
        let answer = ask_through(("Fix<y>? ", "It is wrong.\n"), default, next, &mut output);
        (answer, String::from_utf8_lossy(&output).into_owned())
    }

    fn answer(keys: &str, default: Option<Answer>) -> Answer {
        told(&keys.bytes().map(Typed::Key).collect::<Vec<_>>(), default).0
    }

    #[test]
    fn single_keys_answer() {
        let yes = Some(Answer::Yes);
        assert_eq!(["y", "Y", "\n", "\r", " "].map(|keys| answer(keys, yes)), [Answer::Yes; 5]);
        assert_eq!(["n", "N", "", "xzn"].map(|keys| answer(keys, yes)), [Answer::No; 4]);
        assert_eq!(["a", "A"].map(|keys| answer(keys, yes)), [Answer::All; 2]);
        assert_eq!(["q", "Q", "\u{3}"].map(|keys| answer(keys, yes)), [Answer::Stop; 3]);
        assert_eq!(answer("\n y", None), Answer::Yes, "without a default Enter is no answer");
    }

    #[test]
    fn a_question_mark_explains_and_asks_again() {
        let (answer, text) = told(&[Typed::Key(b'?'), Typed::Key(b'y')], None);
        assert_eq!(answer, Answer::Yes);
        assert_eq!(text.matches("Fix<y>? ").count(), 2, "{text}");
        assert!(text.contains("It is wrong.") && text.ends_with("yes\n"), "{text}");
    }

    #[test]
    fn a_stop_is_no_answer() {
        assert_eq!(told(&[Typed::Stop], Some(Answer::Yes)).0, Answer::Stop);
        assert_eq!(Keyboard::new().next_key(&AtomicBool::new(true)), Typed::Stop);
    }
}
