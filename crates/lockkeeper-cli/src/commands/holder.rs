//! The thread that gets, keeps and frees the lock, while the main thread supervises the command.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockkeeper::{Error, HoldHandle, HoldState, Unlocked};
use tokio::sync::oneshot;

use super::server::connect;
use super::taking::{Wish, take};
use crate::arguments::Server;
use crate::supervisor::{Hold, HoldEnvironment, Moment, Promise, Standing, Waker};

/// How long the end of the program waits for the server at most.
const PARTING: Duration = Duration::from_secs(5);

/// A lock that was acquired, as the main thread sees it.
pub(super) struct Held {
    pub(super) environment: HoldEnvironment,
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
    finish: Option<oneshot::Sender<bool>>,
    freed: mpsc::Receiver<Result<Unlocked, Error>>,
    thread: JoinHandle<()>,
}

impl Holder {
    /// Starts getting what was wished. `promise` is kept with it, with nothing if this period's run is somebody else's, or with
    /// the reason why not.
    pub(super) fn start(
        server: Server,
        wish: Wish,
        waker: Waker,
        promise: Promise<Result<Option<Held>, Error>>,
    ) -> std::io::Result<Self> {
        let (finish, finished) = oneshot::channel();
        let (tell, freed) = mpsc::channel();
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

    /// Gives it up, or ends the wait for it, and tells what became of it; `None` if it was never acquired or the server did not
    /// answer in time. `ran` tells whether the command was started.
    pub(super) fn finish(mut self, ran: bool) -> Option<Result<Unlocked, Error>> {
        if let Some(finish) = self.finish.take() {
            // Nobody listens any more if it was never acquired.
            let _ = finish.send(ran);
        }
        let outcome = self.freed.recv_timeout(PARTING).ok();
        if outcome.is_some() {
            drop(self.thread.join());
        }
        outcome
    }
}

async fn hold(
    server: Server,
    wish: Wish,
    waker: Waker,
    promise: Promise<Result<Option<Held>, Error>>,
    mut finished: oneshot::Receiver<bool>,
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
    let taken = tokio::select! {
        taken = take(&keeper, &wish) => taken,
        _ = &mut finished => {
            // A grant that came all the same is given back before the program ends.
            drop(tokio::time::timeout(PARTING, keeper.close()).await);
            return;
        }
    };
    let taken = match taken {
        Ok(Some(taken)) => taken,
        Ok(None) => return drop(promise.keep(Ok(None))),
        Err(error) => return drop(promise.keep(Err(error))),
    };
    let handle = taken.handle.clone();
    let held = Held {
        environment: HoldEnvironment {
            name: wish.name,
            token: taken.token,
            owner: taken.owner,
            deadline: Moment::now().after(handle.remaining()),
        },
        hold: SupervisedHold(handle.clone()),
    };
    // If the main thread has gone on without it, it is given up below all the same.
    let ran = promise.keep(Ok(Some(held))).is_ok();
    let ran = tokio::select! {
        _ = handle.lost() => {
            waker.wake();
            finished.await
        }
        ran = &mut finished => ran,
    }
    .unwrap_or(ran);
    drop(tell.send(within_time((taken.give_up)(ran)).await));
}

async fn within_time(giving_up: impl Future<Output = Result<Unlocked, Error>>) -> Result<Unlocked, Error> {
    match tokio::time::timeout(PARTING, giving_up).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::OutcomeUnknown {
            detail: format!("no answer within {PARTING:?}"),
        }),
    }
}
