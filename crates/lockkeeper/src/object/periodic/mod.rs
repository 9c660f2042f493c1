mod guard;

use std::sync::Arc;
use std::time::Duration;

pub use guard::PeriodicGuard;

use super::mutex::{Ran, origin, run_under};
use super::options::{Options, lease_options};
use crate::base::lease::Lease;
use crate::base::name::Name;
use crate::engine::{Kind, Layout};
use crate::error::{Error, LeaseError};
use crate::object::hold_handle::HoldHandle;
use crate::service::core::Core;
use crate::service::turn::Origin;

/// The longest least time: beyond it a name that rests is forgotten.
const LONGEST_REST: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Work that is done at most once in a period, however many processes try: a scheduled job of a fleet.
///
/// Who comes while another is at work, or before the [least time](Self::at_least) since that one began is over, is told `None`:
/// somebody else does it in this period, and that is no error.
///
/// - [`at_least`](Self::at_least): after a run has begun, nobody else begins before so much time has passed, however short the
///   run was. The server's clock alone decides, so clocks of the fleet that differ make no second run.
/// - [`at_most`](Self::at_most): a run whose process dies keeps the others out no longer than this. Without it the lease is a
///   renewed one of 30 seconds, as of any lock: then a run may take as long as it needs, and one that dies costs 30 seconds.
///
/// It is an ordinary mutex on the server, and a [`Mutex`](crate::Mutex) of the same name excludes it and is excluded. When the
/// work ends early, whether by [`unlock`](PeriodicGuard::unlock), by a dropped guard, or since the hold was lost by its deadline,
/// the key stays for the rest of the least time, held by nobody: [`Inspection::resting`](crate::Inspection::resting) tells.
/// [`Mutex::force_unlock`](crate::Mutex::force_unlock) ends that early.
///
/// # What it promises
/// Nobody else begins within the least time, as long as the server neither loses data nor steps its clock and the process lives
/// until its run has ended. If the process dies, or cannot reach the server, before it could say that the run has ended, the
/// lease decides: where not even then a second run may begin within the period, set `at_most` no shorter than `at_least`. On a
/// **failover** to a replica that had not heard of the run, another one may begin.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use std::time::Duration;
///
/// let keeper = lockkeeper::Keeper::embedded();
/// let hourly = keeper
///     .periodic("send-reminders")
///     .at_least(Duration::from_secs(55 * 60))
///     .at_most(Duration::from_secs(10 * 60));
/// match hourly.run(|_| async { /* send them */ }).await? {
///     Some(ran) => assert!(ran.lost.is_none()),
///     None => println!("somebody else does it this hour"),
/// }
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until a run is started"]
pub struct Periodic {
    core: Arc<Core>,
    options: Options,
    least: Duration,
    /// Where callers of this process meet, or why the name cannot be used: told by the first call.
    origin: Result<Origin, Error>,
}

impl Periodic {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        Self {
            core: Arc::clone(core),
            options: Options::default(),
            least: Duration::ZERO,
            origin: Name::new(name)
                .map(|name| origin(core, Kind::Periodic(Layout::default()), name))
                .map_err(Error::from),
        }
    }

    /// Sets how long after a run has begun nobody else may begin; by default not longer than the run itself. At most 400 days.
    pub const fn at_least(mut self, least: Duration) -> Self {
        self.least = least;
        self
    }

    /// Sets how long a run may take, and so how long one that dies keeps others out: short for a fixed
    /// [`lease`](Self::lease). A run that is still at work then is told, before the lease ends, that it has lost its hold.
    pub const fn at_most(self, most: Duration) -> Self {
        self.lease(Lease::fixed(most))
    }

    lease_options!();

    /// Sets how long a call waits for its turn, be it for the end of another's run or of the least time; by default not at all.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Sets the layout on the server, as [`Mutex::layout`](crate::Mutex::layout) does.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.origin = self
            .origin
            .map(|known| origin(&self.core, Kind::Periodic(layout), known.target().name.clone()));
        self
    }

    /// Begins a run; `None` if somebody else is at work, or has been in this period. The run lasts until the guard is given up.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the server did not answer: that says nothing about others' runs. [`Error::WrongKind`] if the key
    /// is something else; [`Error::Refused`]; and [`Error::Name`] or [`Error::Lease`], which stands for a bad least time too,
    /// before anything is sent.
    ///
    /// # Cancelling
    /// A grant that comes all the same is given back in the background, and counts as no run.
    pub async fn try_start(&self) -> Result<Option<PeriodicGuard>, Error> {
        if self.least > LONGEST_REST {
            return Err(Error::Lease(LeaseError::TooLong {
                lease: self.least,
                longest: LONGEST_REST,
            }));
        }
        let request = match self.options.wait {
            Some(_) => self.options.waiting()?,
            None => self.options.trying()?,
        };
        let origin = self.origin.as_ref().map_err(Clone::clone)?;
        match origin.acquire(&request).await {
            Ok(turn) => {
                turn.hold.rest_for(self.least);
                Ok(Some(PeriodicGuard { turn }))
            }
            Err(error) if error.is_contention() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Runs `work`, unless somebody else is at work or has been in this period: then it is `None`, and the work was not started.
    ///
    /// The work is cancelled when the hold is lost; see [`Mutex::run`](crate::Mutex::run), which this is like.
    ///
    /// # Errors
    /// Those of [`try_start`](Self::try_start), if the work was not started.
    ///
    /// # Cancelling
    /// Dropping the future drops the work. The rest of the least time is kept all the same.
    pub async fn run<W, F>(&self, work: W) -> Result<Option<Ran<F::Output>>, Error>
    where
        W: FnOnce(HoldHandle) -> F,
        F: Future,
    {
        match self.try_start().await? {
            Some(guard) => Ok(Some(run_under(guard.turn, work).await)),
            None => Ok(None),
        }
    }
}
