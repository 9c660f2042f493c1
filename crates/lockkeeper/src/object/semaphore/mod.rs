mod counting;
mod permit;

use std::sync::Arc;
use std::time::Duration;

pub use counting::CountingSemaphore;
pub use permit::SemaphorePermit;

use super::options::{Options, hold_options};
use crate::base::lease::Lease;
use crate::base::name::Name;
use crate::engine::{Action, Kind, Outcome, Target};
use crate::error::{Error, PermitsError};
use crate::service::core::Core;
use crate::service::gate::Gate;
use crate::service::operation::operate;
use crate::service::request::Request;
use crate::service::turn::Origin;
use crate::service::waiting::Polling;

/// The most permits in one hold: each has an id of its own, and one step takes or renews them all.
const MOST_HELD: u32 = 1_000;

/// The largest number of permits: Java counts them in 32 bits.
const MOST_PERMITS: u32 = i32::MAX.cast_unsigned();

/// A number of permits by name, shared by every process: at most that many are held at a time. Each is leased.
///
/// The number of permits is stored on the server, and somebody has to set it once: [`try_set_permits`](Self::try_set_permits).
/// Until then there are none, and who acquires waits. A permit that is held is renewed in the background, as a lock is; if its
/// holder dies, it is available again when its lease is over. This is Redisson's `RPermitExpirableSemaphore`, and Java services
/// share the permits.
///
/// Callers of one process stand in one line, first come first served, and only the first of them asks the server: who wants
/// many permits is not passed over by those who want few. Between processes there is no order.
///
/// # What it promises
/// No more permits are held than were set, by holders that go by their deadlines, as long as the server neither loses data nor
/// steps its clock, and whoever lowers the number waits until enough were given back. After a **failover** to a replica that
/// had not heard of a grant, a permit can be granted twice. There are no fencing tokens, since holds do not exclude each other.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::Keeper;
///
/// let keeper = Keeper::embedded();
/// let semaphore = keeper.semaphore("workers");
/// semaphore.try_set_permits(3).await?;
///
/// let permit = semaphore.acquire().await?;
/// let more = semaphore.acquire_many(2).await?;
/// assert!(semaphore.try_acquire().await.is_err());
/// drop(more);
/// permit.unlock().await?;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until a permit is acquired"]
pub struct Semaphore {
    place: Place,
    options: Options,
}

impl Semaphore {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        Self {
            place: Place::new(core, Kind::Permits, name),
            options: Options::default(),
        }
    }

    hold_options!();

    /// Acquires one permit, waiting for it if need be.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if the [wait](Self::wait) ended first ([`Error::Busy`] if the wait is zero); [`Error::Unreachable`] if the
    /// server did not answer within the wait, or, with no wait set, for ten seconds
    /// ([`KeeperBuilder::unreachable_after`](crate::KeeperBuilder::unreachable_after)); [`Error::WrongKind`] if the key is something
    /// else; [`Error::Refused`]; and [`Error::Name`] or [`Error::Lease`], before anything is sent.
    ///
    /// # Cancelling
    /// Dropping the future leaves the line. A grant that comes all the same is given back in the background.
    pub async fn acquire(&self) -> Result<SemaphorePermit, Error> {
        self.acquire_many(1).await
    }

    /// Acquires so many permits in one hold, all of them or none, waiting for them if need be. At most 1000 at a time.
    ///
    /// # Errors
    /// [`Error::Permits`] for none or too many, before anything is sent; else those of [`acquire`](Self::acquire).
    ///
    /// # Cancelling
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, permits: u32) -> Result<SemaphorePermit, Error> {
        self.take(permits, self.options.waiting()?).await
    }

    /// Acquires one permit if there is one now: exactly one full attempt.
    ///
    /// # Errors
    /// [`Error::Busy`] if none is available; else as [`acquire`](Self::acquire). An unreachable server is never "busy".
    ///
    /// # Cancelling
    /// A grant that comes all the same is given back in the background.
    pub async fn try_acquire(&self) -> Result<SemaphorePermit, Error> {
        self.try_acquire_many(1).await
    }

    /// Acquires so many permits in one hold if there are so many now.
    ///
    /// # Errors
    /// [`Error::Permits`] for none or too many, before anything is sent; else those of [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancelling
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<SemaphorePermit, Error> {
        self.take(permits, self.options.trying()?).await
    }

    async fn take(&self, permits: u32, request: Request) -> Result<SemaphorePermit, Error> {
        match permits {
            0 => return Err(PermitsError::None.into()),
            1..=MOST_HELD => {}
            wanted => {
                let most = MOST_HELD;
                return Err(PermitsError::TooMany { wanted, most }.into());
            }
        }
        let origin = Origin::Gate(Arc::clone(self.place.gate()?));
        let turn = origin.acquire(&Request { permits, ..request }).await?;
        Ok(SemaphorePermit::new(turn))
    }

    /// Sets the number of permits if it was never set; tells whether it did. What is set stays until it is
    /// [removed](Self::remove).
    ///
    /// # Errors
    /// [`Error::Permits`] for more than 2^31 - 1, before anything is sent; [`Error::WrongKind`] if the key is something else;
    /// [`Error::Unreachable`], [`Error::Refused`], [`Error::Name`].
    ///
    /// # Cancelling
    /// The number may or may not have been set.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        self.place.try_set(permits, None).await
    }

    /// As [`try_set_permits`](Self::try_set_permits), for a semaphore that ends by itself after `life`, whoever holds permits of
    /// it: for names that are used once.
    ///
    /// # Errors
    /// [`Error::Permits`] for a life below a millisecond or beyond a year; else those of [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancelling
    /// As [`try_set_permits`](Self::try_set_permits).
    pub async fn try_set_permits_for(&self, permits: u32, life: Duration) -> Result<bool, Error> {
        self.place.try_set(permits, Some(life)).await
    }

    /// Sets the number of permits, those that are held counted in. If more are held than that, the number that is available is
    /// below zero until enough were given back.
    ///
    /// # Errors
    /// Those of [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancelling
    /// The number may or may not have been set.
    pub async fn set_permits(&self, permits: u32) -> Result<(), Error> {
        let action = Action::SetPermits(checked(permits)?);
        self.place.change(action, "setting permits").await?;
        Ok(())
    }

    /// Adds permits, or takes some away if the number is negative. A semaphore that was never set counts as having none.
    ///
    /// # Errors
    /// Those of [`try_set_permits`](Self::try_set_permits); where the effect is possible, they may have been added.
    ///
    /// # Cancelling
    /// They may or may not have been added.
    pub async fn add_permits(&self, permits: i32) -> Result<(), Error> {
        self.place.add(permits.into()).await
    }

    /// Takes away all permits that are available now, and tells how many. They are nobody's: the semaphore has so many less,
    /// until some are [added](Self::add_permits) or [set](Self::set_permits). Those that are held stay so, and come back.
    ///
    /// # Errors
    /// Those of [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancelling
    /// They may or may not have been taken away.
    pub async fn drain_permits(&self) -> Result<u32, Error> {
        self.place.drain().await
    }

    /// How many permits are available; below zero if the number was lowered by more than were available.
    ///
    /// # Errors
    /// Those of [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancelling
    /// Nothing changes.
    pub async fn available_permits(&self) -> Result<i64, Error> {
        Ok(self.place.count().await?.0)
    }

    /// How many permits are held, by whichever process.
    ///
    /// # Errors
    /// Those of [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancelling
    /// Nothing changes.
    pub async fn acquired_permits(&self) -> Result<i64, Error> {
        Ok(self.place.count().await?.1)
    }

    /// How many permits there are, available and held together.
    ///
    /// # Errors
    /// Those of [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancelling
    /// Nothing changes.
    pub async fn permits(&self) -> Result<i64, Error> {
        let (available, acquired) = self.place.count().await?;
        Ok(available + acquired)
    }

    /// Removes the semaphore with all that is held of it; tells whether there was one. Holders learn that their permits are lost
    /// at their next renewal. Who waits goes on waiting, until permits are set again.
    ///
    /// # Errors
    /// Those of [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancelling
    /// It may or may not have been removed.
    pub async fn remove(&self) -> Result<bool, Error> {
        self.place.remove().await
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.place.core
    }
}

/// Where callers of this process meet for a semaphore of either kind, and what both can do beside being acquired.
#[derive(Clone, Debug)]
struct Place {
    core: Arc<Core>,
    /// Or why the name cannot be used: told by the first call, so that making a handle never fails.
    gate: Result<Arc<Gate>, Error>,
}

impl Place {
    fn new(core: &Arc<Core>, kind: Kind, name: &str) -> Self {
        Self {
            core: Arc::clone(core),
            gate: Name::new(name).map(|name| core.gate(kind, name)).map_err(Error::from),
        }
    }

    fn gate(&self) -> Result<&Arc<Gate>, Error> {
        self.gate.as_ref().map_err(Clone::clone)
    }

    fn target(&self) -> Result<&Arc<Target>, Error> {
        Ok(&self.gate()?.target)
    }

    async fn change(&self, action: Action, doing: &'static str) -> Result<i64, Error> {
        let outcome = operate(&self.core, self.target()?, action, doing).await?;
        Ok(outcome.number())
    }

    async fn try_set(&self, permits: u32, life: Option<Duration>) -> Result<bool, Error> {
        let permits = checked(permits)?;
        let life = match life.map(|life| u64::try_from(life.as_millis()).unwrap_or(u64::MAX)) {
            Some(life) if !(1..=LONGEST_LIFE).contains(&life) => return Err(PermitsError::Life.into()),
            life => life,
        };
        let set = self
            .change(Action::TrySetPermits { permits, life }, "setting permits")
            .await?;
        Ok(set == 1)
    }

    async fn add(&self, permits: i64) -> Result<(), Error> {
        let if_there = false;
        self.change(Action::AddPermits { permits, if_there }, "adding permits")
            .await?;
        Ok(())
    }

    async fn drain(&self) -> Result<u32, Error> {
        let taken = self.change(Action::DrainPermits, "draining permits").await?;
        Ok(u32::try_from(taken).unwrap_or(u32::MAX))
    }

    /// What is available, and what is held.
    async fn count(&self) -> Result<(i64, i64), Error> {
        match operate(&self.core, self.target()?, Action::CountPermits, "counting permits").await? {
            Outcome::Permits { available, acquired } => Ok((available, acquired)),
            Outcome::Number(number) => Ok((number, 0)),
        }
    }

    async fn remove(&self) -> Result<bool, Error> {
        let removed = self.change(Action::RemovePermits, "removing a semaphore").await?;
        Ok(removed == 1)
    }
}

/// The longest life of a semaphore in milliseconds: a year.
const LONGEST_LIFE: u64 = 365 * 24 * 60 * 60 * 1000;

/// A number of permits that Java can count too.
fn checked(permits: u32) -> Result<u64, PermitsError> {
    if permits > MOST_PERMITS {
        return Err(PermitsError::TooMany {
            wanted: permits,
            most: MOST_PERMITS,
        });
    }
    Ok(permits.into())
}
