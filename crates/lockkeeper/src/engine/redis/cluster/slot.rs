//! Which of the 16384 slots a key is in.

use crc::{CRC_16_XMODEM, Crc};

use crate::engine::Step;

const CHECKSUM: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

pub(super) const SLOTS: u16 = 16_384;

/// Redis' own rule: what lies between the first `{` and the first `}` behind it, if not empty, else the whole key.
pub(super) fn slot_of(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty());
    CHECKSUM.checksum(tag.unwrap_or(key).as_bytes()) % SLOTS
}

/// The slot of a step that is about one name; a renewal may be about several.
pub(super) fn slot_of_step(step: &Step) -> Option<u16> {
    step.name().map(|name| slot_of(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::slot_of;

    #[test]
    fn slots_are_those_of_the_server() {
        // CLUSTER KEYSLOT told these.
        for (key, slot) in [
            ("foo", 12_182),
            ("{user1000}.following", 3_443),
            ("foo{}{bar}", 8_363),
            ("", 0),
        ] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
        assert_eq!(slot_of("redisson_lock__channel:{order:1}"), slot_of("order:1"));
    }
}
