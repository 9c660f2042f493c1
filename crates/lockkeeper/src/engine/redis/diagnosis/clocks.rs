//! The rules on the server's clock.

use super::facts::{Facts, Reading};
use super::rules::add;
use super::{Finding, Severity};

/// A clock that differs by less is well kept.
const OFFSET: u64 = 1_000_000;
/// By how many microseconds the server's clock may seem to have moved against ours beside what the line makes unsure.
const STEP: u64 = 5_000;
/// By how many microseconds the server's clock is ahead of this machine's, as far as the line allows to tell.
fn offset(readings: &[Reading]) -> Option<i64> {
    let best = readings.iter().min_by_key(|reading| reading.received - reading.sent)?;
    let half = i64::try_from((best.received - best.sent) / 2).ok()?;
    let apart = i64::try_from(best.server)
        .ok()?
        .checked_sub(i64::try_from(best.wall).ok()?)?;
    // What is less than the way there and back is nothing.
    Some(if apart.abs() <= half { 0 } else { apart })
}

/// The largest move of the server's clock against ours from one reading to the next that the line cannot explain.
fn largest_step(readings: &[Reading]) -> i64 {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let moves = readings.windows(2).map(|pair| {
        let [before, after] = pair else { return 0 };
        let server = signed(after.server) - signed(before.server);
        // Between these two the true time that passed lies.
        let (least, most) = (
            signed(after.sent) - signed(before.received),
            signed(after.received) - signed(before.sent),
        );
        if server < least {
            server - least
        } else {
            (server - most).max(0)
        }
    });
    moves.max_by_key(|step| step.abs()).unwrap_or(0)
}

pub(super) fn clocks(facts: &Facts, findings: &mut Vec<Finding>) {
    let seconds = |micros: i64| format!("{}.{:03} s", micros.abs() / 1_000_000, micros.abs() / 1000 % 1000);
    let step = largest_step(&facts.readings);
    if step.unsigned_abs() > STEP {
        let way = if step > 0 { "forward" } else { "back" };
        add(
            findings,
            Severity::Serious,
            "clock-steps",
            format!(
                "the server's clock went {way} by {} while it was watched",
                seconds(step)
            ),
            "The server ends leases by its wall clock: a step forward ends them early, while their holders believe in them.",
            "Let its clock be slewed and never stepped (chrony or ntpd), and do not suspend or move the machine.",
        );
    }
    if let Some(apart) = offset(&facts.readings).filter(|apart| apart.unsigned_abs() > OFFSET) {
        let way = if apart > 0 { "ahead of" } else { "behind" };
        add(
            findings,
            Severity::Warning,
            "clock-offset",
            format!("the server's clock is {} {way} this machine's", seconds(apart)),
            "Locks do not mind, but one of the two clocks is wrong: it may be stepped, and a replica with another clock ends leases at other times.",
            "Synchronize the clocks of all machines.",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: u64, server: u64, wall: u64) -> Reading {
        Reading {
            sent: at,
            received: at + 1_000,
            server,
            wall,
        }
    }

    #[test]
    fn a_clock_that_moves_with_ours_has_no_step_and_one_that_jumps_has() {
        const BEGIN: u64 = 5_000_000_000;
        let steady: Vec<_> = (0..5).map(|i| reading(i * 80_000, BEGIN + i * 80_090, 0)).collect();
        assert_eq!(largest_step(&steady), 0);
        for jump in [-3_600_000_000_i64, -20_000, 20_000, 60_000_000] {
            let mut readings = steady.clone();
            for later in &mut readings[3..] {
                later.server = later.server.saturating_add_signed(jump);
            }
            let step = largest_step(&readings);
            assert!(
                step.signum() == jump.signum() && step.unsigned_abs() > STEP,
                "{jump}: {step}"
            );
        }
    }

    #[test]
    fn an_offset_is_what_the_line_cannot_explain() {
        assert_eq!(offset(&[]), None);
        assert_eq!(offset(&[reading(0, 10_000_400, 10_000_000)]), Some(0));
        assert_eq!(offset(&[reading(0, 13_000_000, 10_000_000)]), Some(3_000_000));
        assert_eq!(offset(&[reading(0, 7_000_000, 10_000_000)]), Some(-3_000_000));
    }
}
