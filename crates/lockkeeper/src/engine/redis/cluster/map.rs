//! Which master has which slots, as one node told it.

use redis::Value;

use super::super::reply::{number, text};

/// Host and port of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Ranges of slots with their masters, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotMap(Vec<(u16, u16, Address)>);

impl SlotMap {
    /// Reads the reply to `CLUSTER SLOTS`; a node that does not know its own host is the one that was asked.
    pub(super) fn read(reply: &Value, asked: &str) -> Option<Self> {
        let mut ranges = Vec::new();
        for range in reply.as_sequence()? {
            let [first, last, master, ..] = range.as_sequence()? else {
                return None;
            };
            let [host, port, ..] = master.as_sequence()? else {
                return None;
            };
            let host = text(host)
                .filter(|host| !host.is_empty() && *host != "?")
                .unwrap_or(asked);
            ranges.push((
                u16::try_from(number(first)?).ok()?,
                u16::try_from(number(last)?).ok()?,
                Address {
                    host: host.to_owned(),
                    port: u16::try_from(number(port)?).ok()?,
                },
            ));
        }
        ranges.sort_unstable();
        Some(Self(ranges))
    }

    pub(super) fn master_of(&self, slot: u16) -> Option<&Address> {
        let after = self.0.partition_point(|(first, ..)| *first <= slot);
        let (_, last, address) = self.0.get(after.checked_sub(1)?)?;
        (slot <= *last).then_some(address)
    }

    pub(super) fn masters(&self) -> impl Iterator<Item = &Address> {
        self.0.iter().map(|(_, _, address)| address)
    }

    /// The one slot is somewhere else than was known.
    pub(super) fn moved(&mut self, slot: u16, to: Address) {
        let mut ranges = Vec::with_capacity(self.0.len() + 2);
        for (first, last, address) in self.0.drain(..) {
            if (first..=last).contains(&slot) {
                if first < slot {
                    ranges.push((first, slot - 1, address.clone()));
                }
                if slot < last {
                    ranges.push((slot + 1, last, address));
                }
            } else {
                ranges.push((first, last, address));
            }
        }
        ranges.push((slot, slot, to));
        ranges.sort_unstable();
        self.0 = ranges;
    }
}

/// Where a node sends a client on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// For good.
    Moved { slot: u16, to: Address },
    /// For this request only: the slot is on its way.
    Ask(Address),
}

impl Redirect {
    /// Reads the text of a refusal: `MOVED 3999 127.0.0.1:6381`. Without a host it is the node that was asked.
    pub(super) fn read(refusal: &str, asked: &str) -> Option<Self> {
        let mut words = refusal.split(' ');
        let kind = words.next()?;
        let slot = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let to = Address {
            host: if host.is_empty() { asked } else { host }.to_owned(),
            port: port.parse().ok()?,
        };
        match kind {
            "MOVED" => Some(Self::Moved { slot, to }),
            "ASK" => Some(Self::Ask(to)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Address {
        Address {
            host: "h".to_owned(),
            port,
        }
    }

    #[test]
    fn a_slot_that_moved_is_taken_out_of_its_range() {
        let mut map = SlotMap(vec![(0, 99, at(1)), (100, 199, at(2))]);
        map.moved(50, at(2));
        map.moved(100, at(1));
        let master = |slot| map.master_of(slot).unwrap().port;
        assert_eq!([0, 49, 50, 51, 99, 100, 101, 199].map(master), [1, 1, 2, 1, 1, 1, 2, 2]);
        assert_eq!(map.master_of(200), None);
    }

    #[test]
    fn redirects_are_read() {
        assert_eq!(
            Redirect::read("MOVED 3999 h:6381", "asked"),
            Some(Redirect::Moved {
                slot: 3999,
                to: at(6381)
            })
        );
        assert_eq!(
            Redirect::read("ASK 3999 h:6381", "asked"),
            Some(Redirect::Ask(at(6381)))
        );
        assert!(matches!(
            Redirect::read("MOVED 3999 :6381", "asked"),
            Some(Redirect::Moved { to, .. }) if to.host == "asked"
        ));
        assert_eq!(Redirect::read("CROSSSLOT Keys in request", "asked"), None);
    }
}
