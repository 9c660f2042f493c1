//! Figures, and the tables they stand in.

pub(crate) mod markdown;
pub(crate) mod terminal;

use crate::samples::Samples;

/// How a figure is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    PerSecond,
    Percent,
    Count,
}

impl Unit {
    pub(crate) fn show(self, value: f64) -> String {
        if value.is_nan() {
            return "–".to_owned();
        }
        match self {
            Self::Nanoseconds => format!("{value:.0} ns"),
            Self::Microseconds => format!("{value:.1} µs"),
            Self::Milliseconds => format!("{value:.2} ms"),
            Self::PerSecond => format!("{} /s", grouped(value)),
            Self::Percent => format!("{value:.2} %"),
            Self::Count => grouped(value),
        }
    }
}

/// A whole number with a thin separator every three digits, or one decimal where it matters.
fn grouped(value: f64) -> String {
    if value.fract() > 0.0 && value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A goal: the bound, and on which side of it the value must be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }

    fn sign(self) -> (&'static str, f64) {
        match self {
            Self::AtMost(bound) => ("≤", bound),
            Self::AtLeast(bound) => ("≥", bound),
        }
    }
}

/// One line of a table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    what: String,
    value: f64,
    range: Option<(f64, f64)>,
    unit: Unit,
    ratio: Option<(f64, &'static str)>,
    goal: Option<(String, bool)>,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, unit: Unit, samples: &Samples) -> Self {
        Self {
            what: what.into(),
            value: samples.median(),
            range: Some((samples.smallest(), samples.largest())).filter(|(low, high)| low < high),
            unit,
            ratio: None,
            goal: None,
        }
    }

    /// What a line cannot do is shown as a dash.
    pub(crate) fn dash(what: impl Into<String>) -> Self {
        Self::new(what, Unit::Count, &Samples::default())
    }

    /// Sets the ratio, and to what.
    pub(crate) fn ratio(mut self, ratio: f64, to: &'static str) -> Self {
        self.ratio = Some((ratio, to));
        self
    }

    /// Holds the ratio against a goal.
    pub(crate) fn ratio_goal(mut self, goal: Goal) -> Self {
        if let Some((ratio, _)) = self.ratio {
            let (sign, bound) = goal.sign();
            self.goal = Some((format!("ratio {sign} {bound:.2}"), goal.is_met(ratio)));
        }
        self
    }

    /// Holds the value against a goal.
    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        let (sign, bound) = goal.sign();
        self.goal = Some((format!("{sign} {}", self.unit.show(bound)), goal.is_met(self.value)));
        self
    }

    /// The cells: what, figure, range, ratio, goal, met.
    fn cells(&self) -> [String; 6] {
        let range = self.range.map_or_else(String::new, |(low, high)| {
            format!("{} to {}", self.unit.show(low), self.unit.show(high))
        });
        let ratio = self.ratio.map_or_else(String::new, |(ratio, to)| {
            let digits = if ratio < 0.1 { 4 } else { 2 };
            format!("{ratio:.digits$} × {to}")
        });
        let (goal, met) = match &self.goal {
            Some((goal, met)) => (goal.clone(), if *met { "yes" } else { "**no**" }),
            None => (String::new(), ""),
        };
        [
            self.what.clone(),
            self.unit.show(self.value),
            range,
            ratio,
            goal,
            met.to_owned(),
        ]
    }
}

const HEADINGS: [&str; 6] = ["", "median", "range", "ratio", "goal", "met"];

/// The figures of one kind of work.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// How it was measured, in a sentence or two.
    pub(crate) note: String,
    pub(crate) rows: Vec<Row>,
}

#[cfg(test)]
mod tests {
    use super::{Goal, Unit};

    #[test]
    fn figures_are_readable() {
        assert_eq!(Unit::PerSecond.show(1_234_567.8), "1,234,568 /s");
        assert_eq!(Unit::Count.show(999.0), "999");
        assert_eq!(Unit::Count.show(12.5), "12.5");
        assert_eq!(Unit::Microseconds.show(f64::NAN), "–");
    }

    #[test]
    fn a_goal_has_a_side_and_a_missing_value_meets_none() {
        assert!(Goal::AtMost(1.1).is_met(1.1) && !Goal::AtMost(1.1).is_met(1.11));
        assert!(Goal::AtLeast(0.85).is_met(0.9) && !Goal::AtLeast(0.85).is_met(0.8));
        assert!(!Goal::AtMost(1.0).is_met(f64::NAN) && !Goal::AtLeast(1.0).is_met(f64::NAN));
    }
}
