use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::base::clock::Moment;

/// What was sent under one owner text: when the first copy left, and until when an unanswered one could still run.
///
/// A request that was sent cannot be called back. Each copy that could grant or renew carries a use-by in server time, so
/// after the latest use-by of the unanswered ones nothing of this owner can come to life any more, and its text may be
/// closed.
#[derive(Debug)]
pub(crate) struct Copies {
    first_sent: AtomicU64,
    latest_use_by: AtomicU64,
    in_flight: AtomicU32,
    /// Some copy was given up without an answer.
    abandoned: AtomicBool,
}

impl Copies {
    pub(crate) const fn new() -> Self {
        Self {
            first_sent: AtomicU64::new(u64::MAX),
            latest_use_by: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            abandoned: AtomicBool::new(false),
        }
    }

    /// Notes that a copy is about to be sent; call [`Ticket::answered`] once its reply is there. A copy whose ticket is
    /// dropped instead stays open until its use-by.
    pub(crate) fn sending(&self, now: Moment, use_by: u64) -> Ticket<'_> {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.first_sent.fetch_min(now.as_nanos(), Ordering::AcqRel);
        self.latest_use_by.fetch_max(use_by, Ordering::AcqRel);
        Ticket {
            copies: self,
            answered: false,
        }
    }

    /// Lets the next copy count as the first one, if every earlier one was answered and did nothing.
    pub(crate) fn forget_answered(&self) {
        if self.open_until() == 0 {
            self.first_sent.store(u64::MAX, Ordering::Release);
        }
    }

    /// When the oldest copy was sent.
    pub(crate) fn first_sent(&self) -> Option<Moment> {
        match self.first_sent.load(Ordering::Acquire) {
            u64::MAX => None,
            nanos => Some(Moment::from_nanos(nanos)),
        }
    }

    /// The latest use-by of an unanswered copy, in microseconds of the server's time; 0 if every copy was answered.
    pub(crate) fn open_until(&self) -> u64 {
        if self.in_flight.load(Ordering::Acquire) > 0 || self.abandoned.load(Ordering::Acquire) {
            self.latest_use_by.load(Ordering::Acquire)
        } else {
            0
        }
    }
}

/// One copy on its way.
#[derive(Debug)]
#[must_use = "a ticket that is dropped counts as a copy that was never answered"]
pub(crate) struct Ticket<'a> {
    copies: &'a Copies,
    answered: bool,
}

impl Ticket<'_> {
    /// The reply came, so this copy can do nothing more.
    pub(crate) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.copies.abandoned.store(true, Ordering::Release);
        }
        self.copies.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answered_copy_closes_and_a_dropped_one_stays_open() {
        let copies = Copies::new();
        copies.sending(Moment::from_nanos(5), 100).answered();
        assert_eq!(
            (copies.first_sent(), copies.open_until()),
            (Some(Moment::from_nanos(5)), 0)
        );
        drop(copies.sending(Moment::from_nanos(7), 200));
        copies.sending(Moment::from_nanos(9), 300).answered();
        assert_eq!(
            (copies.first_sent(), copies.open_until()),
            (Some(Moment::from_nanos(5)), 300)
        );
    }

    #[test]
    fn copies_may_be_on_their_way_together() {
        let copies = Copies::new();
        let renewal = copies.sending(Moment::from_nanos(5), 100);
        let extension = copies.sending(Moment::from_nanos(6), 150);
        renewal.answered();
        assert_eq!(copies.open_until(), 150);
        extension.answered();
        assert_eq!(copies.open_until(), 0);
    }
}
