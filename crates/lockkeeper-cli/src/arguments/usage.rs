//! Parsing, and what bad usage looks like.

use super::{Arguments, Command, Kind, Layout, RunArguments};
use crate::exit::Exit;
use crate::output::colour_wanted;
use clap::error::ErrorKind;
use clap::{ColorChoice, CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::io::{self, IsTerminal};

/// Why there is nothing to run: bad usage, or `--help` and `--version`.
#[derive(Debug)]
pub struct UsageProblem(clap::Error);

impl UsageProblem {
    /// Bad usage that only shows once all arguments are known.
    fn conflict(subcommand: &str, message: &str) -> Self {
        let mut root = command();
        root.build();
        let place = root.find_subcommand_mut(subcommand);
        Self(match place {
            Some(place) => place.error(ErrorKind::ArgumentConflict, message),
            None => root.error(ErrorKind::ArgumentConflict, message),
        })
    }

    /// The exit code for it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        if self.0.use_stderr() {
            Exit::Usage
        } else {
            Exit::Success
        }
    }

    /// Prints the problem (standard error) or the help asked for (standard output).
    #[must_use]
    pub fn report(&self) -> Exit {
        match (self.exit(), self.0.print()) {
            (Exit::Success, Err(_)) => Exit::Failure,
            (exit, _) => exit,
        }
    }
}

/// The command line's description, for parsing, completions and the man page.
#[must_use]
pub fn command() -> clap::Command {
    let coloured = colour_wanted(io::stdout().is_terminal()) && colour_wanted(io::stderr().is_terminal());
    Arguments::command().color(if coloured {
        ColorChoice::Auto
    } else {
        ColorChoice::Never
    })
}

/// Reads the command line; the first word is the program's own name.
///
/// # Errors
///
/// Bad usage, or a request for help or the version.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, UsageProblem> {
    let matches = command().try_get_matches_from(words).map_err(UsageProblem)?;
    let arguments = Arguments::from_arg_matches(&matches).map_err(UsageProblem)?;
    check(&arguments)?;
    Ok(arguments)
}

const NO_LEASE: &str = "--lease must not be 0";

/// What does not go together, as far as the description cannot tell.
fn check_run(run: &RunArguments) -> Result<(), &'static str> {
    if run.kind != Kind::Mutex {
        if run.at_least.is_some() {
            return Err("--at-least makes a run of its own kind; it goes with --as mutex alone");
        }
        if run.layout != Layout::Redisson {
            return Err("--layout plain has no locks but the mutex");
        }
    }
    if run.permits.is_some() && run.kind != Kind::Permit {
        return Err("--permits goes with --as permit");
    }
    Ok(())
}

fn check(arguments: &Arguments) -> Result<(), UsageProblem> {
    match &arguments.command {
        Command::Demo(demo) if demo.processes > 1 && demo.redis.is_none() => Err(UsageProblem::conflict(
            "demo",
            "--processes above 1 needs --redis: the engine inside one process is not shared with others",
        )),
        Command::Run(run) if run.work.lease.is_zero() => Err(UsageProblem::conflict("run", NO_LEASE)),
        Command::Elect(elect) if elect.work.lease.is_zero() => Err(UsageProblem::conflict("elect", NO_LEASE)),
        Command::Run(run) => check_run(run).map_err(|problem| UsageProblem::conflict("run", problem)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::arguments::{Arguments, Command, Kind, Layout, RunArguments, Strategy, command};
    use crate::exit::Exit;
    use std::time::Duration;

    fn read(line: &str) -> Result<Arguments, Exit> {
        let words = std::iter::once("lockkeeper").chain(line.split(' '));
        parse(words.map(Into::into)).map_err(|problem| problem.exit())
    }

    fn run(line: &str) -> RunArguments {
        match read(line).expect(line).command {
            Command::Run(run) => *run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_description_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn run_takes_a_name_and_a_command() {
        let run = run("run --wait 250ms --lease 1h30m --layout plain --at-least 5m jobs:nightly -- tar -c --wait x");
        assert_eq!(run.name, "jobs:nightly");
        assert_eq!(run.work.command, ["tar", "-c", "--wait", "x"]);
        assert_eq!(run.wait, Some(Duration::from_millis(250)));
        assert_eq!(run.work.lease, Duration::from_secs(5_400));
        assert_eq!(run.at_least, Some(Duration::from_secs(300)));
        assert_eq!(
            (run.layout, run.work.fixed, run.work.shell, run.work.max_hold),
            (Layout::Plain, false, false, None)
        );
    }

    #[test]
    fn no_wait_is_for_ever_and_zero_is_once() {
        assert_eq!(run("run n -- true").wait, None);
        assert_eq!(run("run --wait 0 n -- true").wait, Some(Duration::ZERO));
    }

    #[test]
    fn the_kind_is_a_mutex_unless_told() {
        assert_eq!(run("run n -- true").kind, Kind::Mutex);
        for (word, kind) in [
            ("fair", Kind::Fair),
            ("read", Kind::Read),
            ("write", Kind::Write),
            ("permit", Kind::Permit),
        ] {
            assert_eq!(run(&format!("run --as {word} n -- true")).kind, kind);
        }
        assert_eq!(run("run --as permit --permits 3 n -- true").permits, Some(3));
    }

    #[test]
    fn elect_takes_a_candidate_or_makes_one_up() {
        let elect = |line: &str| match read(line).expect(line).command {
            Command::Elect(elect) => *elect,
            other => panic!("{other:?}"),
        };
        let named = elect("elect --candidate node-7 --once --lease 5s jobs -- work --fast");
        assert_eq!((named.name.as_str(), named.candidate().as_str()), ("jobs", "node-7"));
        assert!(named.once && named.work.lease == Duration::from_secs(5));
        assert_eq!(named.work.words(), ["work", "--fast"]);
        let own = elect("elect jobs -- work").candidate();
        assert!(own.ends_with(&format!(":{}", std::process::id())), "{own}");
    }

    #[test]
    fn a_shell_gets_the_script_first_and_the_rest_as_arguments() {
        assert_eq!(
            run("run --shell n -- script a b").work.words(),
            ["/bin/sh", "-c", "script", "sh", "a", "b"]
        );
        assert_eq!(run("run n -- script a").work.words(), ["script", "a"]);
    }

    #[test]
    fn bad_usage_is_64_and_help_is_0() {
        for line in [
            "",
            "fly",
            "run",
            "run n",
            "run n --",
            "run n true",
            "run --wait 5 n -- true",
            "run --lease 0 n -- true",
            "run --fixed --max-hold 5s n -- true",
            "run --layout other n -- true",
            "run --as other n -- true",
            "run --as fair --layout plain n -- true",
            "run --as fair --at-least 5m n -- true",
            "run --permits 3 n -- true",
            "run --as permit --permits 0 n -- true",
            "elect n",
            "elect --lease 0 n -- true",
            "elect --wait 5s n -- true",
            "show",
            "unlock n",
            "demo --processes 2",
            "demo --strategy other",
            "demo --stock 0",
            "completions other",
        ] {
            assert_eq!(read(line).expect_err(line), Exit::Usage, "{line}");
        }
        for line in ["--help", "--version", "run --help", "elect --help", "demo -h"] {
            assert_eq!(read(line).expect_err(line), Exit::Success, "{line}");
        }
    }

    #[test]
    fn strategies_repeat_and_default_to_all() {
        for (line, expected) in [
            ("demo", Strategy::ALL.to_vec()),
            (
                "demo --strategy mutex --strategy none",
                vec![Strategy::None, Strategy::Mutex],
            ),
        ] {
            let Command::Demo(demo) = read(line).expect(line).command else {
                panic!("{line}")
            };
            assert_eq!(demo.chosen(), expected);
        }
    }
}
