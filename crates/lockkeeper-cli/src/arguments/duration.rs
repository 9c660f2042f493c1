//! Durations as people type them.

use std::time::Duration;

/// Reads `250ms`, `10s`, `5m`, `1h30m` or `0`.
///
/// # Errors
///
/// A sentence for the user, when the text is no duration or too large for one.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|problem| {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("a unit is missing: say {text}ms, {text}s, {text}m or {text}h")
        } else {
            format!("{problem} (durations look like 250ms, 10s, 5m, 1h30m or 0)")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::parse_duration;
    use std::time::Duration;

    #[test]
    fn the_documented_forms_are_read() {
        let forms = [
            ("250ms", 250),
            ("10s", 10_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("0", 0),
            ("0s", 0),
        ];
        for (text, milliseconds) in forms {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn others_are_refused_with_a_hint() {
        for text in ["", "ten", "-5s", "5 parsecs", "99999999999999999999s"] {
            let refusal = parse_duration(text).expect_err(text);
            assert!(refusal.contains("250ms"), "{text}: {refusal}");
        }
        assert!(parse_duration("5").expect_err("no unit").contains("5ms, 5s"));
    }
}
