use std::fmt;
use std::sync::Arc;

use crate::error::NameError;

/// The longest name accepted, in bytes.
pub(crate) const LONGEST_NAME: usize = 512;

/// A validated object name, and the rule by which keys and channels are derived from it.
///
/// Helper keys carry the name in braces (Redisson's rule), so that a cluster puts them into the slot of the name. A
/// name whose own braces would break that is refused here, on every topology: the same service may move to a cluster.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name(Arc<str>);

impl Name {
    pub(crate) fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > LONGEST_NAME {
            return Err(NameError::TooLong {
                length: text.len(),
                longest: LONGEST_NAME,
            });
        }
        if !braces_keep_one_slot(text) {
            return Err(NameError::Braces);
        }
        Ok(Self(text.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) const fn text(&self) -> &Arc<str> {
        &self.0
    }

    /// `prefix:{name}`, or `prefix:name` where the name brings a hash tag of its own.
    pub(crate) fn prefixed(&self, prefix: &str) -> String {
        if self.has_tag() {
            format!("{prefix}:{}", self.0)
        } else {
            format!("{prefix}:{{{}}}", self.0)
        }
    }

    /// `{name}:suffix`, or `name:suffix` where the name brings a hash tag of its own.
    pub(crate) fn suffixed(&self, suffix: &str) -> String {
        if self.has_tag() {
            format!("{}:{suffix}", self.0)
        } else {
            format!("{{{}}}:{suffix}", self.0)
        }
    }

    fn has_tag(&self) -> bool {
        self.0.contains('{')
    }
}

/// Whether the name's hash slot and that of its helper keys agree: either no brace at all, or a proper tag.
fn braces_keep_one_slot(text: &str) -> bool {
    match text.split_once('{') {
        None => !text.contains('}'),
        Some((before, rest)) => !before.contains('}') && rest.split_once('}').is_some_and(|(tag, _)| !tag.is_empty()),
    }
}

/// Names come from users and may hold anything: control characters are escaped, so that no log line can be forged.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Redis' own rule: what lies between the first `{` and the first `}` behind it, if not empty, else the whole key.
    fn slot_text(key: &str) -> &str {
        key.split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .map(|(tag, _)| tag)
            .filter(|tag| !tag.is_empty())
            .unwrap_or(key)
    }

    #[test]
    fn keys_follow_redissons_rule() {
        let plain = Name::new("order:1").unwrap();
        assert_eq!(
            plain.prefixed("redisson_lock__channel"),
            "redisson_lock__channel:{order:1}"
        );
        let tagged = Name::new("{orders}:42").unwrap();
        assert_eq!(
            tagged.prefixed("redisson_lock__channel"),
            "redisson_lock__channel:{orders}:42"
        );
    }

    #[test]
    fn names_that_would_split_are_refused() {
        for bad in ["a{b", "a}b", "}x", "{}", "{}a{b}", "x{"] {
            assert_eq!(Name::new(bad), Err(NameError::Braces), "{bad}");
        }
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert!(matches!(
            Name::new(&"x".repeat(513)),
            Err(NameError::TooLong { length: 513, .. })
        ));
        assert!(Name::new(&"x".repeat(512)).is_ok());
    }

    #[test]
    fn control_characters_cannot_forge_a_log_line() {
        let name = Name::new("a\r\nERROR x\0").unwrap();
        assert_eq!(name.to_string(), "a\\r\\nERROR x\\u{0}");
    }

    proptest! {
        #[test]
        fn every_accepted_name_keeps_its_keys_in_one_slot(text in "[a-c{}:é\\r ]{1,12}") {
            if let Ok(name) = Name::new(&text) {
                let key = name.prefixed("lockkeeper_token");
                prop_assert_eq!(slot_text(name.as_str()), slot_text(&key));
            }
        }

        /// Redisson's rule lets `x` and `{x}` share helper keys, and no other two names.
        #[test]
        fn distinct_names_have_distinct_keys(a in "[a-c{}:]{1,8}", b in "[a-c{}:]{1,8}") {
            if let (Ok(first), Ok(second)) = (Name::new(&a), Name::new(&b)) {
                let wrapped = a == format!("{{{b}}}") || b == format!("{{{a}}}");
                prop_assert_eq!(a == b || wrapped, first.prefixed("x") == second.prefixed("x"));
            }
        }
    }
}
