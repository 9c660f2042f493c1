//! Rounds in which the lines take turns, so that what else the machine does hits all of them alike.

use std::collections::BTreeMap;

use crate::line::Line;
use crate::samples::Samples;

/// What each line had in each round.
#[derive(Debug)]
pub(crate) struct Race<T>(BTreeMap<Line, Vec<T>>);

impl<T> Race<T> {
    /// Runs `rounds` rounds. Each begins with another line than the one before.
    pub(crate) async fn run(lines: &[Line], rounds: u16, mut turn: impl AsyncFnMut(Line, u16) -> T) -> Self {
        let mut results: BTreeMap<Line, Vec<T>> = BTreeMap::new();
        for round in 0..rounds {
            let first = usize::from(round) % lines.len().max(1);
            for line in lines[first..].iter().chain(&lines[..first]) {
                let result = turn(*line, round).await;
                results.entry(*line).or_default().push(result);
            }
        }
        Self(results)
    }

    /// One figure of a line, round by round.
    pub(crate) fn samples(&self, line: Line, figure: impl Fn(&T) -> f64) -> Samples {
        let mut samples = Samples::default();
        for result in self.0.get(&line).into_iter().flatten() {
            samples.push(figure(result));
        }
        samples
    }
}
