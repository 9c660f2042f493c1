//! Lockkeeper as it comes.

use lockkeeper::{Keeper, Layout, Mutex, MutexGuard};

use super::{Client, Lock};

#[derive(Clone, Debug)]
pub(crate) struct Lockkeeper {
    keeper: Keeper,
    layout: Layout,
}

impl Lockkeeper {
    pub(crate) async fn connect(url: &str, layout: Layout, hand_over: bool) -> Self {
        let builder = Keeper::builder();
        // Said only where it is not the default: what a user gets who sets nothing is what counts.
        let builder = if hand_over { builder } else { builder.hand_over(false) };
        Self {
            keeper: builder.connect(url).await.expect("the server answers"),
            layout,
        }
    }
}

impl Client for Lockkeeper {
    type Lock = Mutex;

    fn lock_named(&self, name: &str) -> Mutex {
        self.keeper.mutex(name).layout(self.layout)
    }
}

impl Lock for Mutex {
    type Held = MutexGuard;

    async fn take(&self) -> MutexGuard {
        self.lock().await.expect("the lock is granted")
    }

    async fn give_back(&self, held: MutexGuard) {
        held.unlock().await.expect("the lock is given up");
    }
}
