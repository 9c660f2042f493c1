//! What several rounds told of one figure.

/// The values of the rounds, one each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    fn sorted(&self) -> Vec<f64> {
        let mut values = self.0.clone();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The middle value, or NaN if there is none.
    pub(crate) fn median(&self) -> f64 {
        let values = self.sorted();
        let middle = values.len() / 2;
        match values.len() {
            0 => f64::NAN,
            odd if odd % 2 == 1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        }
    }

    pub(crate) fn smallest(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    pub(crate) fn largest(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }

    /// The ratio to another line, round by round, so that both sides of each had the same noise.
    pub(crate) fn relative_to(&self, other: &Self) -> f64 {
        let ratios = self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs);
        Self(ratios.collect()).median()
    }
}

#[cfg(test)]
mod tests {
    use super::Samples;

    #[test]
    fn the_median_is_the_middle() {
        let samples = |values: &[f64]| Samples(values.to_vec());
        assert!(samples(&[]).median().is_nan());
        assert_eq!(samples(&[3.0, 9.0, 1.0]).median(), 3.0);
        assert_eq!(samples(&[4.0, 1.0, 2.0, 9.0]).median(), 3.0);
    }

    #[test]
    fn a_ratio_compares_within_rounds() {
        // The second round was slow for both: that tells nothing of either.
        let (ours, theirs) = (Samples(vec![2.0, 20.0, 2.0]), Samples(vec![1.0, 10.0, 1.0]));
        assert_eq!(ours.relative_to(&theirs), 2.0);
        assert_eq!((ours.smallest(), ours.largest()), (2.0, 20.0));
    }
}
