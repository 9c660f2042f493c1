//! What a server promises, and what weakens that.
//!
//! [`facts`] asks the server, [`probe`] tries what this user may do, and [`rules`] and [`clocks`] judge: they ask nobody, so that every
//! rule can be tried with facts of any kind. [`row`] says which row of the promise table the server is in, [`versions`] which versions have
//! known faults.

mod clocks;
mod facts;
mod probe;
mod row;
mod rules;
mod versions;

use std::fmt;
use std::sync::Arc;

use super::config::RedisConfig;
use super::node::Node;
use crate::base::clock::SystemClock;
use crate::base::name::Name;
use crate::error::{Error, Refusal};
use facts::Facts;
pub use row::Row;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Good to know.
    Note,
    /// It weakens what is promised.
    Warning,
    /// Locks are lost, granted twice or not to be had at all.
    Serious,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Serious => "serious",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is, in a word or two that stay the same.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is so.
    pub found: String,
    /// Why it matters.
    pub why: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// What is known of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// Its address, without credentials.
    pub server: String,
    /// Program and version, as it says itself.
    pub version: String,
    /// What it promises at best; `None` where it could not be found out.
    pub row: Option<Row>,
    /// What weakens that, the worst first.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// The worst of the findings.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Looks a server over: which row of the promise table it is in, and what weakens it. Nothing is written. What this user may do is
/// tried on keys that are named after `name`, which should be one that the user may use.
///
/// It takes about a second, in which the server's clock is watched. Must be called on a runtime of tokio's.
///
/// # Errors
/// Those of [`Keeper::connect`](crate::Keeper::connect); a server that is too old is a finding, and no error.
///
/// # Cancelling
/// Nothing is left behind.
///
/// ```no_run
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::redis::{RedisConfig, diagnose};
///
/// let diagnosis = diagnose(RedisConfig::from_url("redis://127.0.0.1:6379")?, "shop:order").await?;
/// for finding in &diagnosis.findings {
///     println!("{}: {} {}", finding.severity, finding.found, finding.remedy);
/// }
/// # Ok(()) }
/// ```
pub async fn diagnose(config: RedisConfig, name: &str) -> Result<Diagnosis, Error> {
    let name = Name::new(name)?;
    let server = config.server();
    let node = Arc::new(Node::new(config, Arc::new(SystemClock))?);
    let facts = match Facts::gather(&node, &name).await {
        Ok(facts) => facts,
        Err(error) => {
            return match super::connecting_error(error) {
                Error::Refused {
                    refusal: Refusal::TooOld,
                    detail,
                    ..
                } => Ok(Diagnosis {
                    server,
                    version: "unknown".to_owned(),
                    row: None,
                    findings: vec![versions::too_old(detail)],
                }),
                error => Err(error),
            };
        }
    };
    let mut findings = rules::judge(&facts);
    // Those of one severity stay in the order of the rules.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(Diagnosis {
        server,
        version: facts.version.clone(),
        row: row::of(&facts),
        findings,
    })
}

#[cfg(test)]
mod tests;
