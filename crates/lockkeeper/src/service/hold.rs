use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;

use crate::base::clock::Moment;
use crate::base::lease::{Terms, whole_milliseconds};
use crate::base::owner::Owner;
use crate::engine::{Copies, Rest, Target};
use crate::error::LossReason;
use crate::service::meters::Meters;

/// What a holder may believe about its hold, by its own clock and without asking anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldState {
    /// Nobody else can hold it.
    Held,
    /// A renewal is overdue, and time is still left: work can pause until it is held again or lost.
    Doubtful,
    /// It must not be believed any more. Once lost, always lost.
    Lost(LossReason),
}

/// A grant as the engine gave it.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) target: Arc<Target>,
    pub(crate) owner: Owner,
    pub(crate) copies: Arc<Copies>,
    pub(crate) terms: Terms,
    /// The life in milliseconds that was asked for: the lease, and with a block of tokens the time of the local turns.
    pub(crate) asked: u64,
    /// How long after the request the hold may be believed.
    pub(crate) trusted: Duration,
    pub(crate) first_token: u64,
    pub(crate) block: u32,
    /// When the oldest copy of the request left.
    pub(crate) granted: Moment,
    /// The server's time in microseconds at the grant; at times a little later, never earlier.
    pub(crate) server_time: u64,
    pub(crate) longest: Option<Duration>,
}

/// One grant by the engine to one owner. Local guards take turns under it and share its state and deadline.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) target: Arc<Target>,
    pub(crate) owner: Owner,
    pub(crate) copies: Arc<Copies>,
    /// The terms that the local turns agree on.
    pub(crate) terms: Terms,
    pub(crate) first_token: u64,
    /// How many tokens the engine set aside; more than one means that turns may pass on locally.
    pub(crate) block: u32,
    /// When the request that was granted left.
    pub(crate) granted: Moment,
    /// The server's time in microseconds when it was granted.
    pub(crate) server_time: u64,
    /// Until when the name stays taken after the hold, however that ends; set when a run begins.
    rest: OnceLock<Rest>,
    rest_forgone: AtomicBool,
    /// When the time of the local turns began. A slow line must not use it up before the first turn; a fixed lease counts
    /// from the request, so that each of its turns has all of it.
    pub(crate) turns_from: Moment,
    /// The moment at which a hold with a longest total time ends.
    pub(crate) longest_until: Moment,
    /// Only here may the hold be used: a forked child shares the memory, not the lock.
    process: u32,
    deadline: AtomicU64,
    overdue: AtomicU64,
    /// The longest lease that was ever asked for, in milliseconds.
    longest_lease: AtomicU64,
    end: AtomicU8,
    claimed: AtomicBool,
    /// It is being exchanged for another hold, so that the server may know it no more although it is not lost.
    converting: AtomicBool,
    changed: Notify,
    meters: Arc<Meters>,
    /// Where the renewal service keeps this hold: the moment of its next renewal; 0 while it is not there.
    pub(crate) renewal_due: AtomicU64,
    pub(crate) renewal_serial: AtomicU64,
    token_refreshed: AtomicU64,
}

const LIVE: u8 = 0;
const RELEASED: u8 = 1;

impl Hold {
    pub(crate) fn new(grant: Grant, now: Moment, meters: Arc<Meters>) -> Self {
        let Grant { terms, granted, .. } = grant;
        let longest_until = grant.longest.map_or(Moment::FAR, |span| granted.plus(span));
        let hold = Self {
            target: grant.target,
            owner: grant.owner,
            copies: grant.copies,
            terms,
            first_token: grant.first_token,
            block: grant.block,
            granted,
            server_time: grant.server_time,
            rest: OnceLock::new(),
            rest_forgone: AtomicBool::new(false),
            turns_from: if terms.lease.is_renewed() { now } else { granted },
            longest_until,
            process: std::process::id(),
            deadline: AtomicU64::new(granted.plus(grant.trusted).min(longest_until).as_nanos()),
            overdue: AtomicU64::new(u64::MAX),
            longest_lease: AtomicU64::new(grant.asked),
            end: AtomicU8::new(LIVE),
            claimed: AtomicBool::new(true),
            converting: AtomicBool::new(false),
            changed: Notify::new(),
            meters,
            renewal_due: AtomicU64::new(0),
            renewal_serial: AtomicU64::new(0),
            token_refreshed: AtomicU64::new(granted.as_nanos()),
        };
        hold.expect_renewal_after(granted);
        hold
    }

    /// The state at `now` for whoever asks from outside: in a forked child nothing is held.
    pub(crate) fn state_here(&self, now: Moment) -> HoldState {
        if self.is_of_this_process() {
            self.state(now)
        } else {
            HoldState::Lost(LossReason::Forked)
        }
    }

    /// The state at `now`. A deadline that has passed ends the hold here and for good.
    pub(crate) fn state(&self, now: Moment) -> HoldState {
        match self.end.load(Ordering::Acquire) {
            LIVE => {}
            // A released hold is nobody's: whoever still asks has lost it.
            RELEASED => return HoldState::Lost(LossReason::DeadlinePassed),
            code => return HoldState::Lost(reason_of(code)),
        }
        if now >= self.deadline() {
            self.lose(if now >= self.longest_until {
                LossReason::LongestHoldReached
            } else {
                LossReason::DeadlinePassed
            });
            return match self.end.load(Ordering::Acquire) {
                RELEASED => HoldState::Lost(LossReason::DeadlinePassed),
                code => HoldState::Lost(reason_of(code)),
            };
        }
        if now.as_nanos() >= self.overdue.load(Ordering::Acquire) {
            return HoldState::Doubtful;
        }
        HoldState::Held
    }

    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Whether this process is the one that was granted the hold.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    pub(crate) fn is_live(&self) -> bool {
        self.end.load(Ordering::Acquire) == LIVE
    }

    pub(crate) fn is_released(&self) -> bool {
        self.end.load(Ordering::Acquire) == RELEASED
    }

    /// Ends the hold as lost; true if it was this call that did.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        self.finish(code_of(reason))
    }

    /// Ends the hold because it is given up; true if it was live until now.
    pub(crate) fn give_up(&self) -> bool {
        self.finish(RELEASED)
    }

    fn finish(&self, code: u8) -> bool {
        let ended = self
            .end
            .compare_exchange(LIVE, code, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if ended {
            self.changed.notify_waiters();
            if code != RELEASED {
                self.meters.lost(self, reason_of(code));
            }
        }
        ended
    }

    /// A renewal that was asked for at `sent` is confirmed, and may be trusted for so long from then. Deadlines only rise,
    /// and never after a loss.
    pub(crate) fn confirm(&self, sent: Moment, trusted: Duration, now: Moment) {
        if !matches!(self.state(now), HoldState::Lost(_)) {
            let deadline = sent.plus(trusted).min(self.longest_until);
            self.deadline.fetch_max(deadline.as_nanos(), Ordering::AcqRel);
            self.expect_renewal_after(sent);
            self.changed.notify_waiters();
        }
    }

    /// Notes a lease that is about to be asked for, and tells the longest so far.
    pub(crate) fn longest_lease(&self, asked: u64) -> u64 {
        self.longest_lease.fetch_max(asked, Ordering::AcqRel).max(asked)
    }

    /// Whether the life of the token record is to be refreshed with the next renewal, `every` so often.
    pub(crate) fn token_refresh_is_due(&self, now: Moment, every: Duration) -> bool {
        let last = Moment::from_nanos(self.token_refreshed.load(Ordering::Acquire));
        let due = now.since(last) >= every;
        if due {
            self.token_refreshed.store(now.as_nanos(), Ordering::Release);
        }
        due
    }

    fn expect_renewal_after(&self, sent: Moment) {
        if self.terms.lease.is_renewed() {
            let overdue = sent.plus(self.terms.lease.duration() / 2);
            self.overdue.store(overdue.as_nanos(), Ordering::Release);
        }
    }

    /// A turn that its waiter has not taken yet is not renewed.
    pub(crate) fn set_claimed(&self, claimed: bool) {
        self.claimed.store(claimed, Ordering::Release);
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed.load(Ordering::Acquire)
    }

    /// While it is being exchanged for another hold a renewal that does not find it says nothing.
    pub(crate) fn set_converting(&self, converting: bool) {
        self.converting.store(converting, Ordering::Release);
    }

    pub(crate) fn is_converting(&self) -> bool {
        self.converting.load(Ordering::Acquire)
    }

    /// From now on, when the hold ends its name stays taken until so long after the grant.
    pub(crate) fn rest_for(&self, span: Duration) {
        let longest = whole_milliseconds(span);
        let until = self.server_time.div_ceil(1_000).saturating_add(longest);
        // Only the first word counts, and there is only one.
        let _ = self.rest.set(Rest { until, longest });
    }

    /// The name is to be free at the end of the hold after all.
    pub(crate) fn forgo_rest(&self) {
        self.rest_forgone.store(true, Ordering::Release);
    }

    pub(crate) fn rest(&self) -> Option<Rest> {
        let forgone = self.rest_forgone.load(Ordering::Acquire);
        self.rest.get().copied().filter(|_| !forgone)
    }

    /// Told when the hold ends or its deadline moves.
    pub(crate) fn changes(&self) -> &Notify {
        &self.changed
    }
}

const REASONS: [LossReason; 5] = [
    LossReason::DeadlinePassed,
    LossReason::GoneOnServer,
    LossReason::LongestHoldReached,
    LossReason::Forked,
    LossReason::KeeperClosed,
];

fn code_of(reason: LossReason) -> u8 {
    let index = REASONS.iter().position(|known| *known == reason).unwrap_or(0);
    u8::try_from(index).unwrap_or(0) + 2
}

fn reason_of(code: u8) -> LossReason {
    REASONS
        .get(usize::from(code.saturating_sub(2)))
        .copied()
        .unwrap_or(LossReason::DeadlinePassed)
}
