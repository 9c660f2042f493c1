//! The thread that gets, keeps and frees the lock, while the main thread supervises the command.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockkeeper::{Error, HoldHandle, HoldState, Lease, MutexGuard, Unlocked};
use tokio::sync::oneshot;

use super::server::connect;
use crate::arguments::{RunArguments, Server};
use crate::supervisor::{Hold, HoldEnvironment, Moment, Promise, Standing, Waker};

/// How long the end of the program waits for the server at most.
const PARTING: Duration = Duration::from_secs(5);

/// A lock that was acquired, as the main thread sees it.
pub(super) struct Held {
    pub(super) environment: HoldEnvironment,
    /// When it was granted.
    pub(super) since: Moment,
    pub(super) hold: SupervisedHold,
}

/// The hold that the supervisor asks.
#[derive(Debug)]
pub(super) struct SupervisedHold(HoldHandle);

impl Hold for SupervisedHold {
    fn standing(&self) -> Standing {
        let now = Moment::now();
        let margin = self.0.margin();
        match self.0.state() {
            // Since when it has been lost is not told; after the deadline at most the margin is left.
            HoldState::Lost(_) => Standing::Lost {
                kill_at: now.after(margin.mul_f64(0.8)),
            },
            _ => {
                let stop_at = now.after(self.0.remaining());
                Standing::Held {
                    stop_at,
                    kill_at: stop_at.after(margin.mul_f64(0.8)),
                }
            }
        }
    }
}

/// The thread and the word that ends it.
pub(super) struct Holder {
    finish: Option<oneshot::Sender<()>>,
    freed: mpsc::Receiver<Result<Unlocked, Error>>,
    thread: JoinHandle<()>,
}

impl Holder {
    /// Starts getting the lock. `promise` is kept with it, or with the reason why not.
    pub(super) fn start(
        server: Server,
        arguments: &RunArguments,
        waker: Waker,
        promise: Promise<Result<Held, Error>>,
    ) -> std::io::Result<Self> {
        let (finish, finished) = oneshot::channel();
        let (tell, freed) = mpsc::channel();
        let wish = Wish::of(arguments);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("holder".to_owned()).spawn(move || {
            runtime.block_on(hold(server, wish, waker, promise, finished, tell));
        })?;
        Ok(Self {
            finish: Some(finish),
            freed,
            thread,
        })
    }

    /// Frees the lock, or ends the wait for it, and tells what became of it; `None` if it was never acquired or the
    /// server did not answer in time.
    pub(super) fn finish(mut self) -> Option<Result<Unlocked, Error>> {
        // Dropped or sent, the word is the same.
        drop(self.finish.take());
        let outcome = self.freed.recv_timeout(PARTING).ok();
        if outcome.is_some() {
            drop(self.thread.join());
        }
        outcome
    }
}

struct Wish {
    name: String,
    lease: Lease,
    wait: Option<Duration>,
    max_hold: Option<Duration>,
    layout: lockkeeper::Layout,
}

impl Wish {
    fn of(arguments: &RunArguments) -> Self {
        Self {
            name: arguments.name.clone(),
            lease: if arguments.fixed {
                Lease::fixed(arguments.lease)
            } else {
                Lease::renewed(arguments.lease)
            },
            wait: arguments.wait,
            max_hold: arguments.max_hold,
            layout: arguments.layout.into(),
        }
    }
}

async fn hold(
    server: Server,
    wish: Wish,
    waker: Waker,
    promise: Promise<Result<Held, Error>>,
    mut finished: oneshot::Receiver<()>,
    tell: mpsc::Sender<Result<Unlocked, Error>>,
) {
    let keeper = tokio::select! {
        keeper = connect(&server) => keeper,
        _ = &mut finished => return,
    };
    let keeper = match keeper {
        Ok(keeper) => keeper,
        Err(error) => return drop(promise.keep(Err(error))),
    };
    let mut mutex = keeper.mutex(&wish.name).lease(wish.lease).layout(wish.layout);
    if let Some(wait) = wish.wait {
        mutex = mutex.wait(wait);
    }
    if let Some(longest) = wish.max_hold {
        mutex = mutex.longest_hold(longest);
    }
    let guard = tokio::select! {
        guard = mutex.lock() => guard,
        _ = &mut finished => {
            // A grant that came all the same is given back before the program ends.
            drop(tokio::time::timeout(PARTING, keeper.close()).await);
            return;
        }
    };
    let guard = match guard {
        Ok(guard) => guard,
        Err(error) => return drop(promise.keep(Err(error))),
    };
    let handle = guard.handle();
    let held = Held {
        environment: HoldEnvironment {
            name: wish.name,
            token: guard.token().get(),
            owner: guard.owner().to_owned(),
            deadline: Moment::now().after(guard.remaining()),
        },
        since: Moment::now(),
        hold: SupervisedHold(handle.clone()),
    };
    // If the main thread has gone on without it, the lock is freed below all the same.
    drop(promise.keep(Ok(held)));
    tokio::select! {
        _ = handle.lost() => {
            waker.wake();
            drop(finished.await);
        }
        _ = &mut finished => {}
    }
    drop(tell.send(give_up(guard).await));
}

async fn give_up(guard: MutexGuard) -> Result<Unlocked, Error> {
    match tokio::time::timeout(PARTING, guard.unlock()).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::OutcomeUnknown {
            detail: format!("no answer within {PARTING:?}"),
        }),
    }
}
