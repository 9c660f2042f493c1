/// What every guard for threads offers; it needs a field `guard`, the one for async code.
macro_rules! blocking_hold_methods {
    () => {
        /// The name of the object.
        #[must_use]
        pub fn name(&self) -> &str {
            self.guard.name()
        }

        /// The text that marks the hold on the server; keep it out of logs.
        #[must_use]
        pub fn owner(&self) -> &str {
            self.guard.owner()
        }

        /// How long the hold may still be believed.
        #[must_use]
        pub fn remaining(&self) -> Duration {
            self.guard.remaining()
        }

        /// Held, doubtful or lost, without asking anybody.
        #[must_use]
        pub fn state(&self) -> HoldState {
            self.guard.state()
        }

        /// A view of the hold for others, which does not keep it.
        #[must_use]
        pub fn handle(&self) -> HoldHandle {
            self.guard.handle()
        }

        /// Lengthens the hold; see [`lockkeeper::MutexGuard::extend`](crate::MutexGuard::extend).
        ///
        /// # Errors
        /// Those of the async form, and [`Error::BlockingInAsync`].
        pub fn extend(&self, duration: Duration) -> Result<(), Error> {
            block_on(self.guard.turn.core(), self.guard.extend(duration))?
        }

        /// Gives the hold up; see [`lockkeeper::MutexGuard::unlock`](crate::MutexGuard::unlock).
        ///
        /// # Errors
        /// Those of the async form. Inside async code [`Error::BlockingInAsync`], and it is given up in the background.
        pub fn unlock(self) -> Result<Unlocked, Error> {
            let core = Arc::clone(self.guard.turn.core());
            block_on(&core, self.guard.unlock())?
        }
    };
}
pub(super) use blocking_hold_methods;
