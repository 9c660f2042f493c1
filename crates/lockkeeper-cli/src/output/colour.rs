//! Colour: on a terminal only, and never with `NO_COLOR`.

use std::fmt::Display;
use std::io::{self, IsTerminal};

/// Whether to colour a stream. `NO_COLOR` counts unless it is empty, as no-color.org has it.
#[must_use]
pub fn colour_wanted(is_terminal: bool) -> bool {
    let variable = |name| std::env::var_os(name);
    decide(
        is_terminal,
        variable("NO_COLOR").is_some_and(|text| !text.is_empty()),
        variable("TERM").as_deref(),
    )
}

fn decide(is_terminal: bool, no_colour: bool, terminal: Option<&std::ffi::OsStr>) -> bool {
    is_terminal && !no_colour && terminal.is_none_or(|kind| kind != "dumb")
}

/// A box of paints, or an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    /// Colours if asked.
    #[must_use]
    pub fn new(coloured: bool) -> Self {
        Self(coloured)
    }

    /// As standard output can take it.
    #[must_use]
    pub fn for_output() -> Self {
        Self(colour_wanted(io::stdout().is_terminal()))
    }

    /// Whether it has any paint.
    #[must_use]
    pub fn is_coloured(self) -> bool {
        self.0
    }

    /// Good news.
    pub fn green(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    /// Bad news.
    pub fn red(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    /// Something to look at.
    pub fn yellow(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    /// Headings.
    pub fn bold(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        if self.0 {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Paint, decide};

    #[test]
    fn only_a_capable_terminal_without_a_veto_gets_colour() {
        assert!(decide(true, false, Some("xterm".as_ref())));
        assert!(decide(true, false, None));
        assert!(!decide(false, false, Some("xterm".as_ref())));
        assert!(!decide(true, true, Some("xterm".as_ref())));
        assert!(!decide(true, false, Some("dumb".as_ref())));
        assert_eq!(Paint::new(false).red("x"), "x");
        assert_eq!(Paint::new(true).red("x"), "\u{1b}[31mx\u{1b}[0m");
    }
}
