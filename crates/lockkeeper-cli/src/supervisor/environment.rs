//! What a command is told about its hold.

use super::moment::Moment;
use std::ffi::OsString;

/// The hold as it stood at the start. `lockkeeper run --help` describes the variables.
#[derive(Clone, Debug)]
pub struct HoldEnvironment {
    /// The lock's name.
    pub name: String,
    /// The fencing token, where the hold excludes others.
    pub token: Option<u64>,
    /// The owner text on the server.
    pub owner: String,
    /// When the hold ends unless renewed.
    pub deadline: Moment,
}

impl HoldEnvironment {
    /// The variables, as of now.
    #[must_use]
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        let remaining = Moment::now().until(self.deadline).as_millis();
        let token = self.token.map(|token| ("LOCKKEEPER_TOKEN", token.to_string()));
        [
            ("LOCKKEEPER_NAME", self.name.clone()),
            ("LOCKKEEPER_OWNER", self.owner.clone()),
            (
                "LOCKKEEPER_DEADLINE",
                self.deadline.time_since_boot().as_millis().to_string(),
            ),
            ("LOCKKEEPER_REMAINING", remaining.to_string()),
        ]
        .into_iter()
        .chain(token)
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
    }
}
