//! The masters of a cluster, each with an engine of its own, and the map that says who has what.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::cmd;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::map::{Address, Redirect, SlotMap};
use super::{RedisConfig, RedisEngine};
use crate::base::clock::Clock;
use crate::engine::{Cause, Engine, StepError};
use crate::error::{Error, Refusal};

/// The map is asked for anew at most this often, whatever goes wrong.
const QUIET: Duration = Duration::from_millis(100);

/// And at least this often while something goes wrong.
const TROUBLE: Duration = Duration::from_millis(500);

/// How long one node may take to tell the map.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Shards {
    /// What every node's connections have in common.
    template: RedisConfig,
    seeds: Vec<Address>,
    clock: Arc<dyn Clock>,
    keeper: Handle,
    state: RwLock<State>,
    /// Counts the maps that were read, and tells whoever waits for the next.
    generation: watch::Sender<u64>,
    doubt: Notify,
}

#[derive(Default)]
struct State {
    map: SlotMap,
    engines: HashMap<Address, Arc<RedisEngine>>,
    /// Engines that say of each request that its slot is on the way.
    on_the_way: HashMap<Address, Arc<RedisEngine>>,
    /// Requests sent by engines that are no more.
    past_requests: u64,
}

impl Shards {
    pub(super) async fn connect(
        seeds: Vec<RedisConfig>,
        clock: Arc<dyn Clock>,
        keeper: Handle,
    ) -> Result<Arc<Self>, Error> {
        let addresses: Vec<_> = seeds
            .iter()
            .filter_map(|seed| seed.host_and_port())
            .map(|(host, port)| Address {
                host: host.to_owned(),
                port,
            })
            .collect();
        let mut failure = None;
        for seed in &seeds {
            let first = RedisEngine::connect(seed.clone(), Arc::clone(&clock), keeper.clone()).await;
            let found = match first {
                Ok(engine) => Self::begin(engine, seed, &addresses, &clock, &keeper).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(shards) => return Ok(shards),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| {
            Error::Url(crate::error::UrlError::Unreadable(
                "a cluster needs at least one host".to_owned(),
            ))
        }))
    }

    /// Reads the first map from one node.
    async fn begin(
        engine: Arc<RedisEngine>,
        seed: &RedisConfig,
        seeds: &[Address],
        clock: &Arc<dyn Clock>,
        keeper: &Handle,
    ) -> Result<Arc<Self>, Error> {
        let host = seed.host_and_port().map_or("", |(host, _)| host).to_owned();
        let asking = async move {
            let until = Instant::now() + PATIENCE * 2;
            let map = engine.ask(cmd("CLUSTER").arg("SLOTS"), until).await?;
            // A server that has the command takes an empty list of channels.
            let sharded = engine.ask(cmd("PUBSUB").arg("SHARDNUMSUB"), until).await.is_ok();
            Ok::<_, StepError>((map, sharded))
        };
        let (map, sharded) = match keeper.spawn(asking).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(super::super::connecting_error(error)),
            Err(_) => return Err(super::super::connecting_error(super::super::keeper_ended())),
        };
        let map = SlotMap::read(&map, &host).ok_or_else(|| {
            super::super::connecting_error(StepError::none(Cause::Unreachable(
                "the map of the cluster was not understood".to_owned(),
            )))
        })?;
        let mut template = seed.clone();
        template.sharded = sharded;
        let shards = Arc::new(Self {
            template,
            seeds: seeds.to_vec(),
            clock: Arc::clone(clock),
            keeper: keeper.clone(),
            state: RwLock::default(),
            generation: watch::Sender::new(0),
            doubt: Notify::new(),
        });
        shards.adopt(map);
        keeper.spawn(keep_up(Arc::downgrade(&shards)));
        Ok(shards)
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(super) const fn keeper(&self) -> &Handle {
        &self.keeper
    }

    pub(super) fn round_trips(&self) -> u64 {
        let state = self.read();
        let engines = state.engines.values().chain(state.on_the_way.values());
        state.past_requests + engines.map(|engine| engine.round_trips()).sum::<u64>()
    }

    /// Told whenever the map may be another.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// The engine of the master that has a slot. Without one the map is looked at anew, within the time there is.
    pub(super) async fn master_of(&self, slot: u16, until: Instant) -> Result<Arc<RedisEngine>, StepError> {
        let mut changes = self.changes();
        loop {
            if let Some(engine) = self.known_master(slot)? {
                return Ok(engine);
            }
            self.look_again();
            if tokio::time::timeout_at(until, changes.changed()).await.is_err() {
                return Err(StepError::none(Cause::Refused(
                    Refusal::NotReady,
                    format!("no master is known for slot {slot}"),
                )));
            }
        }
    }

    pub(super) fn known_master(&self, slot: u16) -> Result<Option<Arc<RedisEngine>>, StepError> {
        let address = match self.read().map.master_of(slot) {
            Some(address) => address.clone(),
            None => return Ok(None),
        };
        self.engine_at(&address).map(Some)
    }

    fn engine_at(&self, address: &Address) -> Result<Arc<RedisEngine>, StepError> {
        if let Some(engine) = self.read().engines.get(address) {
            return Ok(Arc::clone(engine));
        }
        let mut state = self.write();
        if let Some(engine) = state.engines.get(address) {
            return Ok(Arc::clone(engine));
        }
        let engine = self.make(address, false)?;
        state.engines.insert(address.clone(), Arc::clone(&engine));
        Ok(engine)
    }

    fn make(&self, address: &Address, asking: bool) -> Result<Arc<RedisEngine>, StepError> {
        let mut config = self.template.at(&address.host, address.port);
        config.asking = asking;
        RedisEngine::new(config, Arc::clone(&self.clock), self.keeper.clone())
            .map_err(|error| StepError::none(Cause::Unreachable(error.to_string())))
    }

    /// The engine for a slot that is on its way to a node.
    pub(super) fn on_the_way(&self, to: &Address) -> Result<Arc<RedisEngine>, StepError> {
        let mut state = self.write();
        if let Some(engine) = state.on_the_way.get(to) {
            return Ok(Arc::clone(engine));
        }
        let engine = self.make(to, true)?;
        state.on_the_way.insert(to.clone(), Arc::clone(&engine));
        Ok(engine)
    }

    /// A node said where a slot is now; the whole map is looked at as well.
    pub(super) fn moved(&self, slot: u16, to: Address) -> Result<Arc<RedisEngine>, StepError> {
        self.write().map.moved(slot, to.clone());
        self.generation.send_modify(|generation| *generation += 1);
        self.look_again();
        self.engine_at(&to)
    }

    /// Where an error sends the request on, if it does.
    pub(super) fn redirect(
        &self,
        engine: &Arc<RedisEngine>,
        error: &StepError,
    ) -> Result<Option<Arc<RedisEngine>>, StepError> {
        match &error.cause {
            Cause::Refused(Refusal::Slot, detail) => match Redirect::read(detail, &host_of(engine)) {
                Some(Redirect::Moved { slot, to }) => self.moved(slot, to).map(Some),
                Some(Redirect::Ask(to)) => self.on_the_way(&to).map(Some),
                None => Ok(None),
            },
            // What is unreachable, or not the master it was, may have another in its place.
            Cause::Unreachable(_) | Cause::Refused(Refusal::ReadOnly | Refusal::NotReady, _) => {
                self.look_again();
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The map may be wrong: it is asked for anew, though not too often.
    pub(super) fn look_again(&self) {
        self.doubt.notify_one();
    }

    /// Takes a map over. Engines of nodes that are no masters any more end.
    fn adopt(&self, map: SlotMap) {
        let mut ended = Vec::new();
        {
            let mut state = self.write();
            let masters: Vec<_> = map.masters().cloned().collect();
            let State {
                engines,
                on_the_way,
                past_requests,
                ..
            } = &mut *state;
            engines.retain(|address, engine| {
                let stays = masters.contains(address);
                if !stays {
                    *past_requests += engine.round_trips();
                    ended.push(Arc::clone(engine));
                }
                stays
            });
            for (_, engine) in on_the_way.drain() {
                *past_requests += engine.round_trips();
                ended.push(engine);
            }
            state.map = map;
        }
        // Outside the lock: their ends may wake others.
        drop(ended);
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// Asks every node that is known, at once; the first good map counts.
    async fn refresh(&self) -> bool {
        let mut addresses: Vec<_> = self.read().map.masters().cloned().collect();
        addresses.extend(self.seeds.iter().cloned());
        addresses.sort_unstable();
        addresses.dedup();
        let mut asked = tokio::task::JoinSet::new();
        for address in addresses {
            let Ok(engine) = self.asked_at(&address) else { continue };
            asked.spawn(async move {
                let until = Instant::now() + PATIENCE;
                let reply = engine.ask(cmd("CLUSTER").arg("SLOTS"), until).await.ok()?;
                SlotMap::read(&reply, &address.host)
            });
        }
        while let Some(found) = asked.join_next().await {
            if let Ok(Some(map)) = found {
                let changed = self.read().map != map;
                if changed {
                    self.adopt(map);
                }
                return true;
            }
        }
        false
    }

    /// An engine to ask a node by: the one there is, or one for this once.
    fn asked_at(&self, address: &Address) -> Result<Arc<RedisEngine>, StepError> {
        let known = self.read().engines.get(address).cloned();
        match known {
            Some(engine) => Ok(engine),
            None => self.make(address, false),
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host of a node, for redirects that name none.
pub(super) fn host_of(engine: &RedisEngine) -> String {
    let config = &engine.node.config;
    config
        .host_and_port()
        .map_or_else(String::new, |(host, _)| host.to_owned())
}

/// Looks at the map whenever somebody is in doubt, and again for a while after that: a failover takes its time.
async fn keep_up(shards: std::sync::Weak<Shards>) {
    /// So long after the last doubt the map is still looked at.
    const AFTERWARDS: Duration = Duration::from_secs(10);
    let mut doubted: Option<Instant> = None;
    loop {
        let Some(present) = shards.upgrade() else { return };
        let wait = if doubted.is_some_and(|since| since.elapsed() < AFTERWARDS) {
            TROUBLE
        } else {
            Duration::from_secs(3600)
        };
        let doubt = {
            let doubt = timeout(wait.min(Duration::from_secs(1)), present.doubt.notified())
                .await
                .is_ok();
            doubt || wait == TROUBLE
        };
        if doubt {
            if wait != TROUBLE {
                doubted = Some(Instant::now());
            }
            present.refresh().await;
            drop(present);
            tokio::time::sleep(QUIET).await;
        }
    }
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards")
            .field("template", &self.template)
            .finish_non_exhaustive()
    }
}
