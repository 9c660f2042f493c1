//! Fencing tokens: they rise in the order of grants, follow the server's time, and come in blocks for local hand-over.

use std::time::Duration;

use super::keyspace::{Keyspace, Now, Value};
use crate::base::owner::Owner;
use crate::engine::{Cause, StepError, Target};
use crate::error::Refusal;

/// Tokens stay below this, so that they are exact in every language.
const END: u64 = 1 << 53;

/// How much longer than the lease a record lives, in milliseconds. Longer than any clock of a server steps back.
const RECORD_OUTLIVES_LEASE: u64 = 10 * 60 * 1000;

/// Our own record of a name's tokens: the last one, and the block that the present owner was given.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct TokenRecord {
    last: u64,
    owner: Owner,
    block: Block,
}

/// Tokens set aside for one hold: the first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) first: u64,
    pub(super) size: u32,
}

/// A new block for a new hold: above every token on record and not below the server's time.
pub(super) fn new_block(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &Owner,
    lease: u64,
    size: u32,
) -> Result<Block, StepError> {
    let peer = peer_token(keyspace, now, target)?;
    let block = next_block(keyspace, now, target, size)?;
    let last = block.first + u64::from(block.size) - 1;
    let record = TokenRecord {
        last,
        owner: owner.clone(),
        block,
    };
    let expiry = now
        .at
        .plus(Duration::from_millis(lease.saturating_add(RECORD_OUTLIVES_LEASE)));
    keyspace.put(&target.token_key, Value::Token(record), Some(expiry), now);
    if peer.is_some()
        && let Some(entry) = keyspace.get(&target.peer_token_key, now)
    {
        // Redisson's key is a floor, raised where it exists, with its expiry untouched.
        entry.value = Value::Text(last.to_string());
    }
    Ok(block)
}

/// The block behind every token on record, which is not below the server's time.
fn next_block(keyspace: &mut Keyspace, now: Now, target: &Target, size: u32) -> Result<Block, StepError> {
    let recorded = recorded(keyspace, now, target)?.map(|record| record.last);
    let previous = recorded.max(peer_token(keyspace, now, target)?).unwrap_or(0);
    let block = Block {
        first: (previous + 1).max(now.server_time),
        size: size.max(1),
    };
    if block.first + u64::from(block.size) > END {
        return Err(exhausted(target));
    }
    Ok(block)
}

/// Whether a block of this size can be had.
pub(super) fn check(keyspace: &mut Keyspace, now: Now, target: &Target, size: u32) -> Result<(), StepError> {
    next_block(keyspace, now, target, size).map(drop)
}

/// The token of a new hold of the fenced mutex, which is on Redisson's key alone, and stays there for ever.
pub(super) fn new_fence(keyspace: &mut Keyspace, now: Now, target: &Target) -> Result<Block, StepError> {
    let block = next_block(keyspace, now, target, 1)?;
    keyspace.put(&target.peer_token_key, Value::Text(block.first.to_string()), None, now);
    Ok(block)
}

/// The token of the hold that this owner has: the last one, since nobody was granted another meanwhile.
pub(super) fn same_fence(keyspace: &mut Keyspace, now: Now, target: &Target) -> Result<Block, StepError> {
    match peer_token(keyspace, now, target)? {
        Some(first) if first > 0 => Ok(Block { first, size: 1 }),
        _ => new_fence(keyspace, now, target),
    }
}

/// The block of the hold that this owner has: the one it was given, or a new one if the record was lost.
pub(super) fn same_block(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &Owner,
    lease: u64,
    size: u32,
) -> Result<Block, StepError> {
    match recorded(keyspace, now, target)? {
        Some(record) if record.owner == *owner => {
            let block = record.block;
            refresh(keyspace, now, target, lease);
            Ok(block)
        }
        _ => new_block(keyspace, now, target, owner, lease, size),
    }
}

/// Lets the record, if there is one, outlive a lease that begins now.
pub(super) fn refresh(keyspace: &mut Keyspace, now: Now, target: &Target, lease: u64) {
    if let Some(entry) = keyspace.get(&target.token_key, now) {
        entry.live_for(now, lease.saturating_add(RECORD_OUTLIVES_LEASE));
    }
}

/// The last token that either key tells of, if one does.
pub(super) fn last_known(keyspace: &mut Keyspace, now: Now, target: &Target) -> Option<u64> {
    let recorded = recorded(keyspace, now, target).ok().flatten().map(|record| record.last);
    let peer = peer_token(keyspace, now, target).ok().flatten();
    recorded.max(peer)
}

/// The record of the last token, if there is one.
fn recorded<'a>(keyspace: &'a mut Keyspace, now: Now, target: &Target) -> Result<Option<&'a TokenRecord>, StepError> {
    match keyspace.get(&target.token_key, now).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Value::Token(record)) => Ok(Some(record)),
        Some(_) => Err(exhausted(target)),
    }
}

/// The token in Redisson's key, if that exists.
fn peer_token(keyspace: &mut Keyspace, now: Now, target: &Target) -> Result<Option<u64>, StepError> {
    match keyspace.get(&target.peer_token_key, now).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Value::Text(digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse() {
            Ok(token) if token < END => Ok(Some(token)),
            _ => Err(exhausted(target)),
        },
        Some(_) => Err(exhausted(target)),
    }
}

fn exhausted(target: &Target) -> StepError {
    StepError::none(Cause::Refused(
        Refusal::TokenExhausted,
        format!(
            "the tokens of \"{}\" have reached 2^53, or their key holds no token",
            target.name
        ),
    ))
}
