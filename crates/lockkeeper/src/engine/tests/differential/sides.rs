use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_testkit::RedisServer;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;

use crate::base::clock::SystemClock;
use crate::engine::embedded::EmbeddedEngine;
use crate::engine::embedded::tests::{Foreign, HandClock};
use crate::engine::redis::{RedisConfig, RedisEngine};

/// Each of these answers with the server's time behind its own reply, to set the embedded engine's clock by.
const TIME: &str = "local time = redis.call('TIME') local now = time[1] * 1000000 + time[2] ";
const LAPSE: &str = "for _, key in ipairs(redis.call('KEYS', '*')) do
    local left = redis.call('PTTL', key)
    if left >= 0 then redis.call('PEXPIRE', key, left - ARGV[1]) end
    if redis.call('TYPE', key).ok == 'zset' then
        local scores = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
        for i = 1, #scores, 2 do
            if tonumber(scores[i + 1]) > 0 and tonumber(scores[i + 1]) < 922337203685477 then
                redis.call('ZINCRBY', key, -ARGV[1], scores[i])
            end
        end
    end
end
return {now}";
const WRITE: &str = "redis.call('DEL', KEYS[1])
redis.call(ARGV[2], KEYS[1], unpack(ARGV, 3))
if ARGV[1] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {now}";
const REMOVE: &str = "redis.call('DEL', KEYS[1]) return {now}";
const LIVES: &str = "local reply = {now}
for _, key in ipairs(redis.call('KEYS', '*')) do
    reply[#reply + 1] = key
    reply[#reply + 1] = redis.call('PTTL', key)
end
return reply";

/// The two engines, the embedded one on the server's time, and what a test does to both beside the steps.
pub(super) struct Sides {
    pub(super) redis: Arc<RedisEngine>,
    pub(super) embedded: EmbeddedEngine,
    connection: MultiplexedConnection,
    clock: Arc<HandClock>,
    epoch: u64,
}

impl Sides {
    /// Both empty.
    pub(super) async fn begin(server: &RedisServer, database: u32) -> Self {
        let mut connection = server.connection_for_db(database).await;
        let () = redis::cmd("FLUSHDB").query_async(&mut connection).await.unwrap();
        let config = RedisConfig::from_url(&server.url_for_db(database)).unwrap();
        let redis = RedisEngine::connect(config, Arc::new(SystemClock), Handle::current());
        let redis = redis.await.unwrap_or_else(|error| panic!("{error}"));
        let (seconds, microseconds): (u64, u64) = redis::cmd("TIME").query_async(&mut connection).await.unwrap();
        let epoch = seconds * 1_000_000 + microseconds;
        let (embedded, clock) = EmbeddedEngine::by_hand(epoch);
        Self {
            redis,
            embedded,
            connection,
            clock,
            epoch,
        }
    }

    /// Moves the embedded engine on to this time of the server's.
    pub(super) fn set_time(&self, server_time: u64) {
        self.clock.set(server_time.saturating_sub(self.epoch));
    }

    async fn script<T: redis::FromRedisValue>(&mut self, source: &str, key: &str, arguments: &[&str]) -> T {
        let script = redis::Script::new(&format!("{TIME}{source}"));
        let mut call = script.prepare_invoke();
        call.key(key);
        for argument in arguments {
            call.arg(argument);
        }
        call.invoke_async(&mut self.connection).await.unwrap()
    }

    /// Lets time pass on both sides: a little more than `span` where else some key would end too close to now for both
    /// sides to be sure.
    pub(super) async fn lapse(&mut self, mut span: Duration, unsure: Duration) {
        let lives: Vec<_> = self
            .embedded
            .lives()
            .into_values()
            .flatten()
            .map(Duration::from_millis)
            .collect();
        while lives
            .iter()
            .any(|&left| left + unsure > span && left < span + unsure * 2)
        {
            span += unsure;
        }
        let milliseconds = span.as_millis().to_string();
        let [now]: [u64; 1] = self.script(LAPSE, "", &[&milliseconds]).await;
        self.set_time(now);
        self.embedded.lapse(span);
    }

    pub(super) async fn write(&mut self, key: &str, value: &Foreign, life: Option<u64>) {
        let (mut numbers, mut members) = (Vec::new(), Vec::new());
        let life_text = life.map_or_else(String::new, |life| life.to_string());
        let mut arguments = vec![life_text.as_str()];
        match value {
            Foreign::Text(text) => arguments.extend(["SET", text]),
            Foreign::List => arguments.extend(["RPUSH", "x"]),
            Foreign::Queue(members) => {
                arguments.push("RPUSH");
                arguments.extend(members.iter().map(String::as_str));
            }
            Foreign::Scores(scores) | Foreign::Permits(scores) => {
                numbers.extend(scores.iter().map(|(_, score)| score.to_string()));
                arguments.push("ZADD");
                let is_bytes = matches!(value, Foreign::Permits(_));
                members.extend(
                    scores
                        .iter()
                        .map(|(member, _)| if is_bytes { as_bytes(member) } else { member.clone() }),
                );
                for (member, score) in members.iter().zip(&numbers) {
                    arguments.extend([score.as_str(), member.as_str()]);
                }
            }
            Foreign::Hash(fields) => {
                arguments.push("HSET");
                arguments.extend(
                    fields
                        .iter()
                        .flat_map(|(field, value)| [field.as_str(), value.as_str()]),
                );
            }
        }
        let [now]: [u64; 1] = self.script(WRITE, key, &arguments).await;
        self.set_time(now);
        self.embedded.put_foreign(key, value.clone(), life);
    }

    pub(super) async fn remove(&mut self, key: &str) {
        let [now]: [u64; 1] = self.script(REMOVE, key, &[]).await;
        self.set_time(now);
        self.embedded.remove_key(key);
    }

    pub(super) async fn clear(&mut self) {
        let () = redis::cmd("FLUSHDB").query_async(&mut self.connection).await.unwrap();
        self.embedded.clear();
    }

    /// How many milliseconds every key of the server's has left, and the moment is set to that look.
    pub(super) async fn lives_on_redis(&mut self) -> BTreeMap<String, Option<u64>> {
        let reply: Vec<redis::Value> = self.script(LIVES, "", &[]).await;
        self.set_time(redis::from_redis_value(reply[0].clone()).unwrap());
        let pairs = reply[1..].chunks(2).map(|pair| {
            let key = redis::from_redis_value(pair[0].clone()).unwrap();
            let left: i64 = redis::from_redis_value(pair[1].clone()).unwrap();
            (key, u64::try_from(left).ok())
        });
        pairs.collect()
    }

    pub(super) async fn text_on_redis(&mut self, key: &str) -> Option<String> {
        let value: redis::RedisResult<Option<String>> =
            redis::cmd("GET").arg(key).query_async(&mut self.connection).await;
        value.ok().flatten()
    }
}

/// The bytes that an id in hex digits stands for, which are a text here.
fn as_bytes(id: &str) -> String {
    let byte = |place: usize| u8::from_str_radix(&id[place..place + 2], 16).expect("hex digits");
    (0..id.len()).step_by(2).map(|place| char::from(byte(place))).collect()
}
