use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_testkit::{RedisServer, wait_until};

use super::Alteration;
use super::moves::{Move, Moves};
use super::sides::Sides;
use super::tally::Tally;
use crate::engine::{Acquired, Cause, Engine, Lane, Released, Reply, Step, StepError, Subscription, Target};

/// Times left may differ by this, and by as long as the call was held up: the server counts each expiry from the moment
/// of its command, which may come later than the moment that the script tells.
const TOLERANCE: Duration = Duration::from_millis(25);

/// When a key ends so close to a step, or within the time that the step was held up, either answer is right.
const UNSURE: Duration = Duration::from_millis(40);

/// After a call that took longer the embedded engine takes over the lives that the server has counted.
const QUICK: Duration = Duration::from_millis(10);

const HISTORY: usize = 40;

/// Where the two engines differ.
pub(super) struct Disagreement {
    what: String,
    history: VecDeque<String>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the last moves, and where they led:")?;
        for line in &self.history {
            writeln!(f, "  {line}")?;
        }
        write!(f, "{}", self.what)
    }
}

/// One walk on both sides.
pub(super) struct Walk {
    sides: Sides,
    altered: Alteration,
    history: VecDeque<String>,
    tally: Tally,
    heard: Vec<[Subscription; 2]>,
    counts: Vec<[u64; 2]>,
}

impl Walk {
    pub(super) async fn begin(server: &RedisServer, number: u32, targets: &[Arc<Target>], altered: Alteration) -> Self {
        let sides = Sides::begin(server, number).await;
        let mut heard = Vec::new();
        // Some channels have a listener and some have none.
        let channels: BTreeSet<_> = targets.iter().map(|target| &target.channel).collect();
        for channel in channels.into_iter().step_by(2) {
            let pair = [sides.redis.subscribe(channel), sides.embedded.subscribe(channel)];
            for subscription in &pair {
                let live = subscription.channel().becomes_live();
                tokio::time::timeout(Duration::from_secs(10), live)
                    .await
                    .expect("the subscription is confirmed");
            }
            heard.push(pair);
        }
        let counts = heard
            .iter()
            .map(|pair| pair.each_ref().map(|one| one.channel().count()))
            .collect();
        Self {
            sides,
            altered,
            history: VecDeque::new(),
            tally: Tally::default(),
            heard,
            counts,
        }
    }

    fn disagree(&self, what: String) -> Disagreement {
        Disagreement {
            what,
            history: self.history.clone(),
        }
    }

    pub(super) async fn make(&mut self, next: &Move, moves: &mut Moves) -> Result<(), Disagreement> {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(next.to_string());
        let began = Instant::now();
        if self.sides.embedded.is_near_an_expiry(UNSURE * 4) {
            self.sides.lapse(UNSURE * 8, UNSURE).await;
        }
        match next {
            Move::Step(step) => self.step(step, moves).await?,
            Move::Lapse(span) => self.sides.lapse(*span, UNSURE).await,
            Move::Write { key, value, life } => self.sides.write(key, value, *life).await,
            Move::Remove(key) => self.sides.remove(key).await,
            Move::LookAtAll => self.look_at_all(moves).await?,
        }
        if began.elapsed() > QUICK {
            self.catch_up(began.elapsed()).await;
        }
        Ok(())
    }

    /// After something was held up for `held_up`: takes over the server's expiries where that explains the difference.
    async fn catch_up(&mut self, held_up: Duration) {
        self.tally.caught_up += 1;
        for _ in 0..100 {
            let began = Instant::now();
            let lives = self.sides.lives_on_redis().await;
            if began.elapsed() < QUICK {
                if self.sides.embedded.is_near_an_expiry(UNSURE + held_up) {
                    self.start_over().await;
                }
                self.sides.embedded.adopt_lives(&lives, TOLERANCE + held_up);
                return;
            }
        }
        self.start_over().await;
    }

    /// Something ended just when this machine was held up: nobody can tell on which side of the moment.
    async fn start_over(&mut self) {
        self.tally.started_over += 1;
        self.sides.clear().await;
    }

    async fn step(&mut self, step: &Step, moves: &mut Moves) -> Result<(), Disagreement> {
        // What is compared is the answer, however long a busy machine takes for it.
        let limit = Duration::from_secs(60);
        let began = Instant::now();
        let told = self.sides.redis.perform(Lane::Foreground, step.clone(), limit).await;
        if let Ok(answer) = &told {
            self.sides.set_time(answer.server_time);
        }
        let held_up = began.elapsed();
        if self.sides.embedded.is_near_an_expiry(UNSURE + held_up) {
            self.start_over().await;
            return Ok(());
        }
        let mut expected_step = step.clone();
        (self.altered)(&mut expected_step);
        let expected = self.sides.embedded.perform_now(expected_step);
        let told = told.map(|answer| answer.reply);
        let expected = expected.map(|answer| answer.reply);
        if let (Step::Acquire(acquire) | Step::Convert { acquire, .. }, Ok(Reply::Acquired(Acquired::Granted { .. }))) =
            (step, &told)
        {
            moves.note_granted(&acquire.target, &acquire.owner);
        }
        self.tally.count(step, &told);
        if let Some(line) = self.history.back_mut() {
            *line += &format!(": {told:?}");
        }
        let (told, expected) = (self.without_times(told), self.without_times(expected));
        let (times, expected_times) = (told.1, expected.1);
        if told.0 != expected.0 || !self.times_agree(&times, &expected_times, held_up) {
            return Err(self.disagree(format!(
                "redis    {:?} {times:?}\nembedded {:?} {expected_times:?}",
                told.0, expected.0
            )));
        }
        Ok(())
    }

    /// Compares every key's life and every name's inspection, and Redisson's tokens by their text.
    async fn look_at_all(&mut self, moves: &mut Moves) -> Result<(), Disagreement> {
        let began = Instant::now();
        let on_redis = self.sides.lives_on_redis().await;
        let held_up = began.elapsed();
        let embedded = self.sides.embedded.lives();
        if self.sides.embedded.is_near_an_expiry(UNSURE + held_up) {
            self.start_over().await;
            return Ok(());
        }
        let keys_agree = on_redis.keys().eq(embedded.keys());
        let (times, expected): (Vec<_>, Vec<_>) = (
            on_redis.values().copied().collect(),
            embedded.values().copied().collect(),
        );
        if !keys_agree || !self.times_agree(&times, &expected, held_up) {
            return Err(self.disagree(format!("redis    {on_redis:?}\nembedded {embedded:?}")));
        }
        for target in moves.targets().to_vec() {
            let name = target.name.clone();
            self.step(&Step::Inspect { name }, moves).await?;
            let told = self.sides.text_on_redis(&target.peer_token_key).await;
            let expected = self.sides.embedded.text(&target.peer_token_key);
            if told != expected && !self.sides.embedded.is_near_an_expiry(UNSURE * 4) {
                return Err(self.disagree(format!("redis    {told:?}\nembedded {expected:?}")));
            }
        }
        Ok(())
    }

    /// Every signal that the embedded engine gave must have come from the server too, and no other.
    pub(super) async fn end(self) -> Result<Tally, Disagreement> {
        if self.tally.started_over > 0 {
            // What was skipped may have signalled on one side.
            return Ok(self.tally);
        }
        for (pair, counts) in self.heard.iter().zip(&self.counts) {
            let since = |side: usize| pair[side].channel().count() - counts[side];
            let expected = since(1);
            let what = format!("{expected} signals on {}", pair[1].channel().name());
            wait_until(&what, Duration::from_secs(10), async || {
                if since(0) >= expected { Ok(()) } else { Err(since(0)) }
            })
            .await;
            if since(0) != expected {
                return Err(self.disagree(format!("redis sent {} instead of {what}", since(0))));
            }
        }
        Ok(self.tally)
    }

    fn times_agree(&mut self, told: &[Option<u64>], expected: &[Option<u64>], held_up: Duration) -> bool {
        told.len() == expected.len()
            && told.iter().zip(expected).all(|pair| match pair {
                (Some(told), Some(expected)) => {
                    let difference = told.abs_diff(*expected);
                    self.tally.note_time(difference);
                    Duration::from_millis(difference) <= TOLERANCE + held_up
                }
                (told, expected) => told == expected,
            })
    }

    /// Takes the times left out of a reply, since those are compared with a tolerance; and what errors say to people.
    fn without_times(&self, mut outcome: Result<Reply, StepError>) -> (Result<Reply, StepError>, Vec<Option<u64>>) {
        let mut times = Vec::new();
        match &mut outcome {
            Ok(Reply::Acquired(Acquired::Busy(busy))) => {
                times.push(busy.time_left.take());
                times.push(busy.look_again.take());
            }
            Ok(Reply::Released(Released::Resting { time_left })) => times.push(time_left.take()),
            Ok(Reply::Inspected(inspection)) => {
                times.push(inspection.resting.take());
                inspection.holders.sort_by(|a, b| a.owner.cmp(&b.owner));
                times.extend(inspection.holders.iter_mut().map(|holder| holder.time_left.take()));
                times.extend(inspection.waiting.iter_mut().map(|waiter| waiter.time_left.take()));
            }
            Err(StepError {
                cause: Cause::Refused(_, detail),
                ..
            }) => detail.clear(),
            _ => {}
        }
        (outcome, times)
    }
}
