use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::operation::operate_within;
use super::waiting::{recheck_after, sleep_until};
use crate::base::clock::Moment;
use crate::engine::{Action, Busy, Outcome, Subscription, Target};
use crate::error::Error;

/// Waits for something that a look at the server tells, without taking anything: look, subscribe, look again, and then
/// sleep until a message or a re-check.
///
/// Each waiter looks for itself; all of a process share one subscription.
#[derive(Debug)]
pub(crate) struct Watch {
    core: Arc<Core>,
    target: Arc<Target>,
    started: Moment,
    deadline: Option<Moment>,
    subscription: Option<Subscription>,
}

/// What had been heard when a look began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    signals: u64,
    messages: u64,
}

impl Watch {
    /// A watch that ends after `limit`, if there is one. Without any time it looks once.
    pub(crate) fn new(core: &Arc<Core>, target: &Arc<Target>, limit: Option<Duration>) -> Self {
        let started = core.now();
        Self {
            core: Arc::clone(core),
            target: Arc::clone(target),
            started,
            deadline: limit.map(|limit| started.plus(limit)),
            subscription: None,
        }
    }

    /// What has been heard so far, once it listens; to be read before a look is sent, so that no message that overtakes its
    /// answer is missed.
    pub(crate) fn heard(&self) -> Option<Heard> {
        self.subscription.as_ref().map(|subscription| Heard {
            signals: subscription.channel().count(),
            messages: subscription.channel().messages(),
        })
    }

    /// The number that the last message since then brought.
    pub(crate) fn message_since(&self, heard: Heard) -> Option<i64> {
        let channel = self.subscription.as_ref()?.channel();
        (channel.messages() != heard.messages)
            .then(|| channel.last_message())
            .flatten()
    }

    /// One look, whose answer comes within what is left of the time; tells the server's time in microseconds too.
    pub(crate) async fn look(&self, action: Action) -> Result<(Outcome, u64), Error> {
        let settings = &self.core.settings;
        let limit = match self.deadline {
            None => settings.unreachable_after,
            Some(deadline) => match deadline.since(self.core.clock_now()) {
                // The wait of a single look is that for its answer.
                Duration::ZERO => settings.response_limit,
                left => left.min(settings.unreachable_after),
            },
        };
        operate_within(&self.core, &self.target, action, "waiting", limit).await
    }

    /// Waits until it is worth looking again. The first time that is as soon as the subscription is confirmed.
    ///
    /// # Errors
    /// [`Error::TimedOut`] once the time is over, [`Error::Closed`].
    pub(crate) async fn pause(&mut self, heard: Option<Heard>) -> Result<(), Error> {
        self.pause_while(heard, Busy::until(None)).await
    }

    /// The same, and no longer than what was seen can last.
    pub(crate) async fn pause_while(&mut self, heard: Option<Heard>, seen: Busy) -> Result<(), Error> {
        let Some(heard) = heard else {
            self.check_time()?;
            let subscription = self.core.engine.subscribe(&self.target.channel);
            self.until(
                self.core.settings.recheck_unheard,
                subscription.channel().becomes_live(),
            )
            .await;
            self.subscription = Some(subscription);
            return self.core.check_open();
        };
        let live = self.subscription.as_ref().is_some_and(|one| one.channel().is_live());
        let pause = recheck_after(&self.core, self.target.kind, seen, live);
        self.signalled(heard, pause).await?;
        self.check_time()
    }

    /// Waits for a signal that is not among those heard, at most for `longest`.
    pub(crate) async fn signalled(&self, heard: Heard, longest: Duration) -> Result<(), Error> {
        match &self.subscription {
            Some(subscription) => self.until(longest, subscription.channel().changed(heard.signals)).await,
            None => self.until(longest, std::future::pending()).await,
        }
        self.core.check_open()
    }

    async fn until(&self, longest: Duration, event: impl Future<Output = ()>) {
        let mut event = pin!(event);
        let mut closes = pin!(self.core.closes());
        let end = self.core.clock_now().plus(longest);
        let end = self.deadline.map_or(end, |deadline| deadline.min(end));
        while self.core.clock_now() < end {
            tokio::select! {
                () = &mut event => return,
                () = &mut closes => return,
                // Timers only wake, the clock decides.
                () = sleep_until(&self.core, end) => {}
            }
        }
    }

    fn check_time(&self) -> Result<(), Error> {
        let now = self.core.clock_now();
        match self.deadline {
            Some(deadline) if now >= deadline => Err(Error::TimedOut {
                name: self.target.name.to_string(),
                waited: now.since(self.started),
            }),
            _ => Ok(()),
        }
    }
}
