//! Questions at a terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How often to check whether the run was stopped while waiting for an answer.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The longest answer; what follows counts as another one.
const LINE_MAX: usize = 4096;

/// Whether a question can be asked.
pub fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
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
    /// None: the run was stopped (Ctrl-C) while the question stood there.
    Stop,
}

/// What came from the keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Typed {
    /// A line.
    Line(String),
    /// Nothing more will come.
    End,
    /// The run was stopped first.
    Stop,
}

/// Asks until there is an answer; Enter stands for `default`, if there is one; the end of input means no. Once `stop` is set it does not wait
/// for an answer any more.
pub fn ask(question: &str, default: Option<Answer>, stop: &AtomicBool) -> Answer {
    ask_through(question, default, &mut || line_of_terminal(stop), &mut io::stdout().lock())
}

fn ask_through(
    question: &str,
    default: Option<Answer>,
    next_line: &mut dyn FnMut() -> Typed,
    output: &mut dyn Write,
) -> Answer {
    loop {
        let _ = write!(output, "{question}").and_then(|()| output.flush());
        let line = match next_line() {
            Typed::Line(line) => line,
            Typed::End => return Answer::No,
            Typed::Stop => {
                let _ = writeln!(output);
                return Answer::Stop;
            }
        };
        match (line.trim().to_ascii_lowercase().as_str(), default) {
            ("", Some(answer)) => return answer,
            ("y" | "yes", _) => return Answer::Yes,
            ("n" | "no", _) => return Answer::No,
            ("a" | "all", _) => return Answer::All,
            _ => {
                let _ = writeln!(output, "Please answer y (yes), n (no) or a (yes to all).");
            }
        }
    }
}

/// The next line that is typed. It is not read through the library's buffer, which would go on waiting after a signal; what was typed ahead
/// stays with the terminal, which hands out a line at a time.
fn line_of_terminal(stop: &AtomicBool) -> Typed {
    let (stdin, mut line) = (io::stdin(), Vec::new());
    while line.len() < LINE_MAX {
        if stop.load(Relaxed) {
            return Typed::Stop;
        }
        let mut wait = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut wait, Some(&PATIENCE)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return Typed::End,
        }
        let mut byte = [0];
        match rustix::io::read(&stdin, &mut byte) {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Ok(0) | Err(_) => return Typed::End,
            Ok(_) if matches!(byte, [b'\n' | b'\r']) => break,
            Ok(_) => line.push(byte[0]),
        }
    }
    Typed::Line(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers_of(mut typed: Vec<Typed>, default: Option<Answer>) -> Answer {
        typed.reverse();
        ask_through("Fix<y>? ", default, &mut || typed.pop().unwrap_or(Typed::End), &mut Vec::new())
    }

    fn answers(typed: &[&str]) -> Answer {
        let lines = typed.iter().map(|line| Typed::Line((*line).to_owned()));
        answers_of(lines.collect(), Some(Answer::Yes))
    }

    #[test]
    fn what_can_be_typed() {
        assert_eq!([answers(&[""]), answers(&["y"]), answers(&["YES"])], [Answer::Yes; 3]);
        assert_eq!([answers(&["n"]), answers(&[]), answers(&["what", "no"])], [Answer::No; 3]);
        assert_eq!(answers(&["maybe", "a"]), Answer::All);
        let lines = ["", "y"].map(|line| Typed::Line(line.to_owned()));
        assert_eq!(answers_of(lines.into(), None), Answer::Yes, "without a default Enter is no answer");
    }

    #[test]
    fn a_stop_is_no_answer() {
        assert_eq!(answers_of(vec![Typed::Stop], Some(Answer::Yes)), Answer::Stop);
        assert_eq!(line_of_terminal(&AtomicBool::new(true)), Typed::Stop);
    }
}
