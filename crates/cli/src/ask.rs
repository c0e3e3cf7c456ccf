//! Questions at a terminal.

use std::io::{self, BufRead, IsTerminal, Write};

/// Whether there is somebody to ask.
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
}

/// Asks until there is an answer; Enter stands for `default`, if there is one; the end of input means no.
pub fn ask(question: &str, default: Option<Answer>) -> Answer {
    ask_through(question, default, &mut io::stdin().lock(), &mut io::stdout().lock())
}

fn ask_through(
    question: &str,
    default: Option<Answer>,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Answer {
    loop {
        let _ = write!(output, "{question}").and_then(|()| output.flush());
        let mut line = String::new();
        match input.read_line(&mut line) {
            Ok(0) | Err(_) => return Answer::No,
            Ok(_) => {}
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(typed: &str) -> Answer {
        ask_through("Fix<y>? ", Some(Answer::Yes), &mut typed.as_bytes(), &mut Vec::new())
    }

    #[test]
    fn what_can_be_typed() {
        assert_eq!([answers("\n"), answers("y\n"), answers("YES\n")], [Answer::Yes; 3]);
        assert_eq!([answers("n\n"), answers(""), answers("what\nno\n")], [Answer::No; 3]);
        assert_eq!(answers("maybe\na\n"), Answer::All);
        assert_eq!(ask_through("?", None, &mut &b"\ny\n"[..], &mut Vec::new()), Answer::Yes);
    }
}
