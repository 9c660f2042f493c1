//! What is held while a command runs: one way to take it, whatever kind of object it is.

use std::pin::Pin;
use std::time::Duration;

use lockkeeper::{Error, HoldHandle, Keeper, Lease, Unlocked};

use super::complain;

/// How long a standby waits after trouble with the server before it campaigns again.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);

/// What is to be held.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) name: String,
    pub(super) what: What,
    pub(super) lease: Lease,
    pub(super) wait: Option<Duration>,
    pub(super) max_hold: Option<Duration>,
}

/// The kind of object, with what only it knows.
#[derive(Clone, Debug)]
pub(super) enum What {
    Mutex(lockkeeper::Layout),
    Fair,
    Read,
    Write,
    /// One permit; how many there are, if nobody has set that.
    Permit(Option<u32>),
    Periodic {
        layout: lockkeeper::Layout,
        at_least: Duration,
    },
    Leadership {
        candidate: String,
    },
}

/// What was taken.
pub(super) struct Taken {
    pub(super) handle: HoldHandle,
    pub(super) owner: String,
    /// Where the hold excludes others.
    pub(super) token: Option<u64>,
    /// Gives it up. It is told whether the command ran: a run that did not take place leaves the period to others.
    pub(super) give_up: Box<dyn FnOnce(bool) -> GivingUp>,
}

type GivingUp = Pin<Box<dyn Future<Output = Result<Unlocked, Error>>>>;

/// Puts the settings that all have on a handle.
macro_rules! with_settings {
    ($handle:expr, $wish:expr) => {{
        let mut handle = $handle.lease($wish.lease);
        if let Some(wait) = $wish.wait {
            handle = handle.wait(wait);
        }
        if let Some(longest) = $wish.max_hold {
            handle = handle.longest_hold(longest);
        }
        handle
    }};
}

/// A guard as something taken; how it is given up may depend on whether the command ran.
macro_rules! taken {
    ($taken:expr, |$guard:ident, $ran:ident| $end:expr) => {{
        let $guard = $taken;
        let handle = $guard.handle();
        Some(Taken {
            owner: $guard.owner().to_owned(),
            token: Some(handle.token().get()).filter(|token| *token > 0),
            handle,
            give_up: Box::new(move |$ran| Box::pin(async move { $end })),
        })
    }};
    ($taken:expr) => {
        taken!($taken, |guard, _ran| guard.unlock().await)
    };
}

/// Takes it, waiting as long as was wished; `None` if somebody else has done this period's run.
pub(super) async fn take(keeper: &Keeper, wish: &Wish) -> Result<Option<Taken>, Error> {
    let name = &wish.name;
    Ok(match &wish.what {
        What::Mutex(layout) => {
            let mutex = with_settings!(keeper.mutex(name), wish).layout(*layout);
            taken!(mutex.lock().await?)
        }
        What::Fair => taken!(with_settings!(keeper.fair_mutex(name), wish).lock().await?),
        What::Read => taken!(with_settings!(keeper.rwlock(name), wish).read().await?),
        What::Write => taken!(with_settings!(keeper.rwlock(name), wish).write().await?),
        What::Permit(permits) => {
            let semaphore = with_settings!(keeper.semaphore(name), wish);
            if let Some(permits) = permits {
                // Whoever comes first sets it; the others find it set.
                semaphore.try_set_permits(*permits).await?;
            }
            taken!(semaphore.acquire().await?)
        }
        What::Periodic { layout, at_least } => {
            let periodic = with_settings!(keeper.periodic(name), wish);
            match periodic.layout(*layout).at_least(*at_least).try_start().await? {
                None => None,
                Some(guard) => taken!(guard, |guard, ran| if ran {
                    guard.unlock().await
                } else {
                    guard.abandon().await
                }),
            }
        }
        What::Leadership { candidate } => {
            let election = with_settings!(keeper.election(name), wish).candidate(candidate);
            taken!(campaign(&election).await?)
        }
    })
}

/// Campaigns until it leads. A standby outlives its server's troubles: it is there for the time after them.
async fn campaign(election: &lockkeeper::Election) -> Result<lockkeeper::Leadership, Error> {
    loop {
        match election.campaign().await {
            Err(error) if error.is_retryable() && !error.is_contention() => {
                complain(format_args!("{error}; campaigning again"));
                tokio::time::sleep(AFTER_TROUBLE).await;
            }
            outcome => return outcome,
        }
    }
}
