use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::clock::Moment;

/// What was sent under one owner text: when the first copy left, and until when an unanswered one could still run.
///
/// A request that was sent cannot be called back. Each copy that could grant or renew carries a use-by in server time, so
/// after the latest use-by of the unanswered ones nothing of this owner can come to life any more, and its text may be
/// closed.
#[derive(Debug)]
pub(crate) struct Copies {
    first_sent: AtomicU64,
    /// The latest use-by of an unanswered copy, in microseconds of the server's time; 0 when all were answered.
    open_until: AtomicU64,
}

impl Copies {
    pub(crate) const fn new() -> Self {
        Self {
            first_sent: AtomicU64::new(u64::MAX),
            open_until: AtomicU64::new(0),
        }
    }

    /// Notes that a copy is about to be sent; answer with [`answered`](Self::answered) once its reply is there. A copy
    /// whose ticket is dropped instead stays open.
    pub(crate) fn sending(&self, now: Moment, use_by: u64) -> Ticket<'_> {
        self.first_sent.fetch_min(now.as_nanos(), Ordering::Relaxed);
        let before = self.open_until.fetch_max(use_by, Ordering::Relaxed);
        Ticket { copies: self, before }
    }

    /// When the oldest copy was sent.
    pub(crate) fn first_sent(&self) -> Option<Moment> {
        match self.first_sent.load(Ordering::Relaxed) {
            u64::MAX => None,
            nanos => Some(Moment::from_nanos(nanos)),
        }
    }

    /// The latest use-by of an unanswered copy, in microseconds of the server's time; 0 if every copy was answered.
    pub(crate) fn open_until(&self) -> u64 {
        self.open_until.load(Ordering::Relaxed)
    }
}

/// One copy on its way. Copies of one owner are sent one after another, never at once.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    copies: &'a Copies,
    before: u64,
}

impl Ticket<'_> {
    /// The reply came, so this copy can do nothing more.
    pub(crate) fn answered(self) {
        self.copies.open_until.store(self.before, Ordering::Relaxed);
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
            (Some(Moment::from_nanos(5)), 200)
        );
    }
}
