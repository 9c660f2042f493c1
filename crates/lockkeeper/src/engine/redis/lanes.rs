use std::sync::{Arc, PoisonError, RwLock};

use tokio::runtime::{Handle, Id};

use super::link::Link;
use super::node::Node;
use crate::engine::Lane;

/// The links to one node: one on the keeper's own runtime, and one on each runtime from which the keeper is used.
///
/// A connection is driven by the runtime it was made on, and may hang or end with it. So a foreground call takes the
/// link of its own runtime and changes no thread, and everything that must go on regardless takes the keeper's.
#[derive(Debug)]
pub(super) struct Lanes {
    node: Arc<Node>,
    keeper: Handle,
    background: Arc<Link>,
    foreground: RwLock<Vec<(Id, Arc<Link>)>>,
}

impl Lanes {
    pub(super) fn new(node: &Arc<Node>, keeper: Handle) -> Self {
        Self {
            node: Arc::clone(node),
            background: Link::new(node, keeper.clone()),
            keeper,
            foreground: RwLock::default(),
        }
    }

    pub(super) fn keeper(&self) -> &Handle {
        &self.keeper
    }

    pub(super) fn background(&self) -> &Arc<Link> {
        &self.background
    }

    /// The link for a call that is made on the runtime `current`.
    pub(super) fn choose(&self, lane: Lane, current: &Handle) -> Arc<Link> {
        let id = current.id();
        if lane == Lane::Background || id == self.keeper.id() {
            return Arc::clone(&self.background);
        }
        let links = self.foreground.read().unwrap_or_else(PoisonError::into_inner);
        let found = links.iter().find(|(of, _)| *of == id).map(|(_, link)| Arc::clone(link));
        drop(links);
        found.unwrap_or_else(|| self.add(id, current))
    }

    fn add(&self, id: Id, current: &Handle) -> Arc<Link> {
        let mut links = self.foreground.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, link)) = links.iter().find(|(of, _)| *of == id) {
            return Arc::clone(link);
        }
        // Links of runtimes that ended are found out here: their connections ended with them.
        links.retain(|(_, link)| !link.is_down());
        let link = Link::new(&self.node, current.clone());
        links.push((id, Arc::clone(&link)));
        link
    }

    #[cfg(test)]
    pub(super) fn foreground_links(&self) -> usize {
        self.foreground.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}
