//! `lockkeeper elect`.

use std::time::Duration;

use super::complain;
use super::holder::{Held, Holder};
use super::run::failed;
use super::server::{exit_for, resolve};
use super::taking::{What, Wish};
use crate::arguments::{ElectArguments, Server};
use crate::exit::Exit;
use crate::supervisor::{How, Moment, Supervisor, Waited};

/// The time between two terms, so that others come first and a command that fails at once is no busy loop.
const BETWEEN_TERMS: Duration = Duration::from_secs(1);

/// What follows a term.
enum Next {
    Term,
    End(Exit),
}

/// Leads and runs the command, term after term.
pub(super) fn elect(arguments: &ElectArguments) -> Exit {
    let server = match resolve(&arguments.server) {
        Ok(server) => server,
        Err(exit) => return exit,
    };
    let mut supervisor = match Supervisor::prepare() {
        Ok(supervisor) => supervisor,
        Err(problem) => return failed(problem),
    };
    let mut terms = Terms {
        arguments,
        server,
        candidate: arguments.candidate(),
        led: false,
    };
    loop {
        match terms.next(&mut supervisor) {
            Next::Term => {}
            Next::End(exit) => return exit,
        }
        match supervisor.pause_until(Moment::now().after(BETWEEN_TERMS)) {
            Ok(Waited::Interrupted(signal)) => return Exit::Signalled(signal),
            Ok(_) => {}
            Err(problem) => return failed(problem),
        }
    }
}

struct Terms<'a> {
    arguments: &'a ElectArguments,
    server: Server,
    candidate: String,
    /// Whether it has led before: from then on an outage of the server is waited out.
    led: bool,
}

impl Terms<'_> {
    /// Waits for one term and works through it.
    fn next(&mut self, supervisor: &mut Supervisor) -> Next {
        let (promise, outcome) = supervisor.promise();
        let holder = match Holder::start(self.server.clone(), self.wish(), supervisor.waker(), promise) {
            Ok(holder) => holder,
            Err(problem) => return Next::End(failed(problem)),
        };
        let mut was_held = false;
        let next = match supervisor.wait_for(&outcome) {
            Ok(Waited::Done(Ok(Some(held)))) => {
                (self.led, was_held) = (true, true);
                self.lead(supervisor, &held)
            }
            Ok(Waited::Done(Err(error))) => {
                complain(&error);
                if self.led && error.is_retryable() {
                    Next::Term
                } else {
                    Next::End(exit_for(&error))
                }
            }
            Ok(Waited::Interrupted(signal)) => Next::End(Exit::Signalled(signal)),
            Ok(Waited::Done(Ok(None)) | Waited::Gone) => Next::End(failed("the thread that leads ended")),
            Err(problem) => Next::End(failed(problem)),
        };
        let given_up = holder.finish(true);
        if was_held && !matches!(given_up, Some(Ok(_) | Err(lockkeeper::Error::Lost(_)))) {
            complain("the term ends with its lease: the server did not confirm its end");
        }
        next
    }

    fn lead(&self, supervisor: &mut Supervisor, held: &Held) -> Next {
        let variables = held.environment.variables();
        let ended = match supervisor.run(&self.arguments.work.words(), &variables, &held.hold) {
            Ok(ended) => ended,
            Err(problem) => return Next::End(failed(problem)),
        };
        if ended.lost {
            complain("the leadership was lost, and the command stopped");
        }
        let is_over = self.arguments.once || ended.asked_to_end || matches!(ended.how, How::NotStarted(_));
        if is_over { Next::End(ended.exit()) } else { Next::Term }
    }

    fn wish(&self) -> Wish {
        Wish {
            name: self.arguments.name.clone(),
            what: What::Leadership {
                candidate: self.candidate.clone(),
            },
            lease: self.arguments.work.whole_lease(),
            wait: None,
            max_hold: self.arguments.work.max_hold,
        }
    }
}
