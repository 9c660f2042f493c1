//! Renewal in batches: one script for up to a hundred holds.

use std::sync::Arc;

use futures_util::future::join_all;
use redis::{Cmd, Value};
use tokio::time::Instant;

use super::hold::Window;
use super::link::Link;
use super::mutex::record_life;
use super::reply::{Status, not_understood, number, refused, told};
use super::rwlock;
use super::script::{self, Script};
use super::semaphore;
use super::session::{Failure, Session};
use crate::base::clock::Moment;
use crate::engine::{Answer, Cause, Kind, Layout, Renew, Renewed, Reply, StepError};

/// The most holds in one script, so that it does not keep the server from others for long.
const BATCH: usize = 100;

/// The kinds that are renewed by one script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    /// A hash with a field of the owner.
    Hash,
    /// A string that is the owner.
    Plain,
    /// A key of the owner's own, beside a hash of all readers.
    Read,
    /// Permits with ends of their own, in a sorted set.
    Permits,
}

impl Family {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Mutex(Layout::Plain) | Kind::Periodic(Layout::Plain) => Self::Plain,
            Kind::Read => Self::Read,
            Kind::Permits => Self::Permits,
            Kind::Mutex(Layout::Redisson)
            | Kind::Election
            | Kind::Periodic(Layout::Redisson)
            | Kind::Spin
            | Kind::Fenced
            | Kind::Fair
            | Kind::Write
            | Kind::Latch
            | Kind::Counter => Self::Hash,
        }
    }

    fn script(self) -> &'static Script {
        match self {
            Self::Hash => &script::MUTEX_RENEW,
            Self::Plain => &script::PLAIN_RENEW,
            Self::Read => &script::RWLOCK_RENEW_READ,
            Self::Permits => &script::PERMITS_RENEW,
        }
    }
}

/// What the entries of one batch have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Terms {
    family: Family,
    lease: u64,
    longest: u64,
}

impl Terms {
    fn of(entry: &Renew) -> Self {
        Self {
            family: Family::of(entry.target.kind),
            lease: entry.lease,
            longest: entry.longest.max(entry.lease),
        }
    }
}

/// What came of one batch: which of its entries are gone, and when.
struct Told {
    gone: Vec<usize>,
    sent: Moment,
    server_time: u64,
}

/// Renews all entries. The batches travel together, and none waits for another or suffers from its failure.
pub(super) async fn renew(link: &Arc<Link>, entries: &[Renew], until: Instant) -> Result<Answer, StepError> {
    let session = link.session(until).await?;
    let batches = batches(entries);
    let told = join_all(batches.iter().map(|batch| renew_batch(&session, entries, batch, until))).await;

    let now = session.node().now();
    let mut results: Vec<Result<Renewed, StepError>> = vec![Ok(Renewed::Held); entries.len()];
    // A hold is confirmed from the sending of its copy: with several batches, from the first.
    let (mut sent, mut server_time) = (now, u64::MAX);
    for (batch, told) in batches.iter().zip(told) {
        match told {
            Ok(told) => {
                sent = sent.min(told.sent);
                server_time = server_time.min(told.server_time);
                for place in told.gone {
                    results[batch[place]] = Ok(Renewed::Gone);
                }
            }
            Err(error) => {
                for place in batch {
                    results[*place] = Err(error.clone());
                }
            }
        }
    }
    Ok(Answer {
        reply: Reply::Renewed(results),
        sent,
        server_time: if server_time == u64::MAX {
            session.offset().server_time(now)
        } else {
            server_time
        },
    })
}

/// The places of the entries, batch by batch. Those whose token record is refreshed come first in each.
fn batches(entries: &[Renew]) -> Vec<Vec<usize>> {
    let mut places: Vec<usize> = (0..entries.len()).collect();
    places.sort_by_key(|place| (Terms::of(&entries[*place]), !entries[*place].refresh_token));
    places
        .chunk_by(|one, next| Terms::of(&entries[*one]) == Terms::of(&entries[*next]))
        .flat_map(|alike| alike.chunks(BATCH))
        .map(<[usize]>::to_vec)
        .collect()
}

async fn renew_batch(session: &Session, entries: &[Renew], batch: &[usize], until: Instant) -> Result<Told, StepError> {
    let first = renew_once(session, entries, batch, until).await;
    match first {
        // The refusal told the server's time: the next copy has a use-by that fits.
        Err(StepError { cause: Cause::Late, .. }) => renew_once(session, entries, batch, until).await,
        outcome => outcome,
    }
}

async fn renew_once(session: &Session, entries: &[Renew], batch: &[usize], until: Instant) -> Result<Told, StepError> {
    let sent = session.node().now();
    let window = Window::of(session, sent, until);
    let (script, command) = renew_call(entries, batch, window);
    let tickets: Vec<_> = batch
        .iter()
        .map(|place| entries[*place].copies.sending(sent, window.use_by))
        .collect();
    let outcome = match session.evaluate(script, &command, until).await {
        Ok(value) => read(session, &value, batch.len(), sent),
        Err(failure) => Err(failure),
    };
    let settled = outcome.as_ref().map_or_else(|failure| failure.settled, |_| true);
    if settled {
        tickets.into_iter().for_each(|ticket| ticket.answered());
    }
    outcome.map_err(|failure| failure.error)
}

fn read(session: &Session, value: &Value, entries: usize, sent: Moment) -> Result<Told, Failure> {
    let told = told(value).ok_or_else(not_understood)?;
    session.offset().learn(told.server_time, sent, session.node().now());
    if let Some(error) = refused(&told) {
        return Err(Failure { error, settled: true });
    }
    // The server counts from 1.
    let place = |value| {
        let place = usize::try_from(number(value)?).ok()?.checked_sub(1)?;
        (place < entries).then_some(place)
    };
    let gone: Option<Vec<usize>> = told.rest.iter().map(place).collect();
    match (told.status, gone) {
        (Status::Done, Some(gone)) => Ok(Told {
            gone,
            sent,
            server_time: told.server_time,
        }),
        _ => Err(not_understood()),
    }
}

pub(super) fn renew_call(entries: &[Renew], batch: &[usize], window: Window) -> (&'static Script, Cmd) {
    let terms = Terms::of(&entries[batch[0]]);
    if terms.family == Family::Read {
        return rwlock::renew_read_call(entries, batch, window);
    }
    if terms.family == Family::Permits {
        return semaphore::renew_call(batch.iter().map(|place| &entries[*place]), window);
    }
    let script = terms.family.script();
    let batched = || batch.iter().map(|place| &entries[*place]);
    let records = batched().filter(|entry| entry.refresh_token).count();
    let mut command = script.call(batch.len() + records, 5 + batch.len(), batch.len() * 96);
    for entry in batched() {
        command.arg(entry.target.name.as_str());
    }
    for entry in batched().filter(|entry| entry.refresh_token) {
        command.arg(&entry.target.token_key);
    }
    command
        .arg(window.use_by)
        .arg(window.limit)
        .arg(terms.lease)
        .arg(terms.longest)
        .arg(record_life(terms.lease));
    for entry in batched() {
        command.arg(entry.owner.as_str());
    }
    (script, command)
}
