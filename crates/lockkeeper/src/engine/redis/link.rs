use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use super::backoff::Backoff;
use super::node::Node;
use super::session::Session;
use crate::engine::{Cause, StepError};

type Dialling = Shared<BoxFuture<'static, Result<Arc<Session>, StepError>>>;

/// A connection that is made when it is first needed, and made again when it is over.
///
/// Its driver lives on one runtime. Whoever needs a connection while there is none shares the one attempt that is under
/// way; attempts that fail are spaced out.
pub(super) struct Link {
    node: Arc<Node>,
    runtime: Handle,
    state: RwLock<State>,
}

struct State {
    session: Option<Arc<Session>>,
    dialling: Option<Dialling>,
    backoff: Backoff,
    /// Before this no new attempt begins; with the reason why the last one failed.
    failed: Option<(Instant, StepError)>,
}

impl Link {
    pub(super) fn new(node: &Arc<Node>, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            node: Arc::clone(node),
            runtime,
            state: RwLock::new(State {
                session: None,
                dialling: None,
                backoff: Backoff::reconnecting(),
                failed: None,
            }),
        })
    }

    /// The present connection, or a new one if it can be had before `until`. A refused attempt is told at once. Nothing
    /// has been sent when this fails.
    pub(super) async fn session(self: &Arc<Self>, until: Instant) -> Result<Arc<Session>, StepError> {
        if let Some(session) = self.present() {
            return Ok(session);
        }
        let dialling = self.dial(until)?;
        match timeout_at(until, dialling).await {
            Ok(outcome) => outcome,
            Err(_) => Err(StepError::none(Cause::Unreachable(format!(
                "{}: no connection in time",
                self.node.config.server()
            )))),
        }
    }

    fn present(&self) -> Option<Arc<Session>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.session.as_ref().filter(|session| !session.is_over()).cloned()
    }

    /// Whether there is neither a connection nor an attempt to make one.
    pub(super) fn is_down(&self) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.session.as_ref().is_none_or(|session| session.is_over())
            && state.dialling.as_ref().is_none_or(|dialling| dialling.peek().is_some())
    }

    /// Joins the attempt that is under way, or begins one.
    fn dial(self: &Arc<Self>, until: Instant) -> Result<Dialling, StepError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = state.session.as_ref().filter(|session| !session.is_over()) {
            let session = Arc::clone(session);
            return Ok(futures_util::future::ready(Ok(session)).boxed().shared());
        }
        state.session = None;
        if let Some(dialling) = state.dialling.as_ref().filter(|dialling| dialling.peek().is_none()) {
            return Ok(dialling.clone());
        }
        let begin = match &state.failed {
            Some((not_before, error)) if *not_before > until => return Err(error.clone()),
            Some((not_before, _)) => *not_before,
            None => Instant::now(),
        };
        let attempt = self
            .runtime
            .spawn(attempt(Arc::downgrade(self), Arc::clone(&self.node), begin));
        let dialling = async move {
            attempt.await.unwrap_or_else(|_| {
                Err(StepError::none(Cause::Unreachable(
                    "the runtime of the connection has ended".to_owned(),
                )))
            })
        }
        .boxed()
        .shared();
        state.dialling = Some(dialling.clone());
        Ok(dialling)
    }

    fn finished(&self, outcome: &Result<Arc<Session>, StepError>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.dialling = None;
        match outcome {
            Ok(session) => {
                state.session = Some(Arc::clone(session));
                state.backoff.reset();
                state.failed = None;
            }
            Err(error) => {
                let pause = state.backoff.next();
                state.failed = Some((Instant::now() + pause, error.clone()));
            }
        }
    }
}

/// One attempt; it runs in a task of its own, so that nobody's impatience ends it for the others.
async fn attempt(link: Weak<Link>, node: Arc<Node>, begin: Instant) -> Result<Arc<Session>, StepError> {
    tokio::time::sleep_until(begin).await;
    let outcome = Session::open(&node, |_| {}).await.map(Arc::new);
    if let Err(error) = &outcome {
        tracing::debug!(server = %node.config.server(), ?error, "no connection");
    }
    if let Some(link) = link.upgrade() {
        link.finished(&outcome);
    }
    outcome
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("node", &self.node).finish_non_exhaustive()
    }
}
