//! What an experiment found, as plain data: for people, for JSON, for the report.

use everleaf_bench::report::Machine;
use everleaf_bench::statistics::Ratio;

use serde::{Deserialize, Serialize};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Small trees and few rounds: everything in minutes.
    Quick,
    /// Sizes as near to the papers' as an ordinary machine allows: everything in hours.
    Full,
}

impl Scale {
    /// One of two numbers.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Scale::Quick => quick,
            Scale::Full => full,
        }
    }

    /// The name used on command lines and in files.
    pub fn name(self) -> &'static str {
        self.pick("quick", "full")
    }
}

/// Whether our figure is the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", content = "why", rename_all = "lowercase")]
pub enum Judgement {
    /// It is.
    Agrees,
    /// It is not; the text says why, as far as it is known.
    Differs(String),
    /// There is nothing to compare it with.
    Shown,
}

/// On which side of the paper's a figure lies that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Ours is more.
    Above,
    /// Ours is less.
    Below,
}

/// Why a figure differs, as long as nobody knows.
const NOT_EXPLAINED: &str = "not explained";

/// A figure beside the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is a figure of.
    pub what: String,
    /// What the paper says; empty if nothing.
    pub claim: String,
    /// What we found.
    pub ours: String,
    /// The comparison.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// Where ours lies, if it is a number that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
}

impl Figure {
    fn new(what: impl Into<String>, claim: String, ours: String, agrees: bool) -> Self {
        let judgement = match agrees {
            true => Judgement::Agrees,
            false => Judgement::Differs(NOT_EXPLAINED.to_owned()),
        };
        Figure { what: what.into(), claim, ours, judgement, side: None }
    }

    /// The same, with the side on which it lies if it differs.
    pub(crate) fn on_side(self, is_above: bool) -> Self {
        let side = if is_above { Side::Above } else { Side::Below };
        Figure { side: self.differs().then_some(side), ..self }
    }

    /// A number of which the paper gives `claim`; it agrees if it is at most `tolerance` away, as a
    /// share of the claim.
    pub fn near(
        what: impl Into<String>,
        claim: f64,
        ours: f64,
        unit: &str,
        tolerance: f64,
    ) -> Self {
        let agrees = (ours - claim).abs() <= claim.abs() * tolerance + 1e-9;
        Self::new(what, with_unit(claim, unit), with_unit(ours, unit), agrees).on_side(ours > claim)
    }

    /// A number that the paper puts between two ends, widened by `tolerance` as a share of them.
    pub fn within(
        what: impl Into<String>,
        claim: (f64, f64),
        ours: f64,
        unit: &str,
        tolerance: f64,
    ) -> Self {
        let (low, high) = claim;
        let agrees = (low * (1.0 - tolerance)..=high * (1.0 + tolerance)).contains(&ours);
        let said = format!("{} to {}", number(low), with_unit(high, unit));
        Self::new(what, said, with_unit(ours, unit), agrees).on_side(ours > high)
    }

    /// A ratio that the paper puts above 1: it agrees if its whole interval lies there, and differs
    /// without a side if the interval holds 1.
    pub fn above_one(what: impl Into<String>, ours: &Ratio) -> Self {
        let figure = Self::new(what, "more than 1".to_owned(), ours.to_string(), ours.low > 1.0);
        match ours.is_even() {
            true => figure.because("no difference was shown: the interval holds 1"),
            false => figure.on_side(false),
        }
    }

    /// A statement of the paper, and whether it holds here; `ours` has the numbers.
    pub fn statement(
        what: impl Into<String>,
        claim: &str,
        ours: impl Into<String>,
        agrees: bool,
    ) -> Self {
        Self::new(what, claim.to_owned(), ours.into(), agrees)
    }

    /// A number that the paper does not have.
    pub fn shown(what: impl Into<String>, ours: f64, unit: &str) -> Self {
        let figure = Self::new(what, String::new(), with_unit(ours, unit), true);
        Figure { judgement: Judgement::Shown, ..figure }
    }

    /// The same without a verdict: ours and the paper's are not the same quantity, or nothing that
    /// could be found would contradict it.
    pub fn without_verdict(self) -> Self {
        Figure { judgement: Judgement::Shown, side: None, ..self }
    }

    /// The reason, if a statement does not hold. It may fail in one way only: of a number that lies
    /// on one side of the paper's the reason is that of the side, and this one is left out.
    pub fn because(self, why: &str) -> Self {
        self.explained(None, why)
    }

    /// The reason, if the figure differs by being more than the paper's.
    pub fn if_above(self, why: &str) -> Self {
        self.explained(Some(Side::Above), why)
    }

    /// The reason, if the figure differs by being less than the paper's.
    pub fn if_below(self, why: &str) -> Self {
        self.explained(Some(Side::Below), why)
    }

    fn explained(mut self, side: Option<Side>, why: &str) -> Self {
        if let Judgement::Differs(text) = &mut self.judgement
            && self.side == side
        {
            why.clone_into(text);
        }
        self
    }

    /// Whether it differs, and no reason is known.
    pub fn is_unexplained(&self) -> bool {
        matches!(&self.judgement, Judgement::Differs(why) if why == NOT_EXPLAINED)
    }

    /// Whether it differs from the paper's.
    pub fn differs(&self) -> bool {
        matches!(self.judgement, Judgement::Differs(_))
    }
}

fn with_unit(value: f64, unit: &str) -> String {
    if unit.is_empty() { number(value) } else { format!("{} {unit}", number(value)) }
}

/// A number with about three significant digits.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if value.is_nan() => "-".to_owned(),
        _ if value.fract() == 0.0 && size < 1e6 => format!("{value:.0}"),
        _ if size >= 100.0 => everleaf_bench::table::grouped_signed(value),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A table: the first column has names, the others numbers or words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// What it shows, with the unit.
    pub title: String,
    /// The heading of each column.
    pub columns: Vec<String>,
    /// The rows, as long as the heading.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// An empty table.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        Grid { title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row of a name and numbers.
    pub fn add(&mut self, name: impl Into<String>, numbers: impl IntoIterator<Item = f64>) {
        let cells = numbers.into_iter().map(number);
        self.rows.push(std::iter::once(name.into()).chain(cells).collect());
    }
}

/// A picture of numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Chart {
    /// One bar per name.
    Bars {
        /// What it shows.
        title: String,
        /// The unit of the numbers.
        unit: String,
        /// The bars, from top to bottom.
        bars: Vec<Bar>,
    },
    /// Lines over an axis.
    Lines {
        /// What it shows.
        title: String,
        /// The horizontal axis.
        across: Axis,
        /// The vertical axis.
        up: Axis,
        /// The lines, at most eight.
        lines: Vec<Line>,
    },
}

/// A bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// What it stands for.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// The ends of its spread, if it has one.
    pub spread: Option<(f64, f64)>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows, with the unit.
    pub name: String,
    /// Whether equal distances are equal factors.
    pub is_logarithmic: bool,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// What it stands for.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Numbers of one kind, measured several times: what two runs are compared by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What was measured; the same name in every run.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// Whether more is better.
    pub more_is_better: bool,
    /// Whether a count is exact, so that every difference is one.
    pub is_exact: bool,
    /// Whether the machine disturbed the measurement.
    pub is_disturbed: bool,
    /// The measurements.
    pub values: Vec<f64>,
}

impl Series {
    /// An exact count, of which less is better.
    pub fn count(name: impl Into<String>, unit: &str, value: f64) -> Self {
        Series {
            name: name.into(),
            unit: unit.to_owned(),
            more_is_better: false,
            is_exact: true,
            is_disturbed: false,
            values: vec![value],
        }
    }
}

/// What an experiment has to show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Figures beside the paper's.
    pub figures: Vec<Figure>,
    /// Tables.
    pub tables: Vec<Grid>,
    /// Pictures.
    pub charts: Vec<Chart>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// What two runs are compared by.
    pub series: Vec<Series>,
}

/// A finished experiment, as it is kept in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The experiment.
    pub id: String,
    /// The version of this program.
    pub version: String,
    /// How much was measured.
    pub scale: Scale,
    /// The seed of keys and operations.
    pub seed: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// Nanoseconds of a dependent miss before it.
    pub miss_before_ns: f64,
    /// Nanoseconds of a dependent miss after it.
    pub miss_after_ns: f64,
    /// The machine and the program.
    pub machine: Machine,
    /// What it has to show.
    #[serde(flatten)]
    pub outcome: Results,
}

impl Finding {
    /// How many figures differ from the paper's, and how many were compared.
    pub fn differences(&self) -> (usize, usize) {
        let figures = &self.outcome.figures;
        let compared = figures.iter().filter(|figure| figure.judgement != Judgement::Shown).count();
        (figures.iter().filter(|figure| figure.differs()).count(), compared)
    }

    /// How many figures differ from the paper's and nobody knows why.
    pub fn unexplained(&self) -> usize {
        self.outcome.figures.iter().filter(|figure| figure.is_unexplained()).count()
    }

    /// The verdict in a few words.
    pub fn verdict(&self) -> String {
        match (self.differences(), self.unexplained()) {
            ((_, 0), _) => "shown".to_owned(),
            ((0, _), _) => "agrees".to_owned(),
            ((differ, compared), 0) => format!("differs in {differ} of {compared}"),
            ((differ, compared), unexplained) => {
                format!("differs in {differ} of {compared}, {unexplained} not explained")
            }
        }
    }

    /// Whether the machine changed its speed by more than 15 % while the experiment ran.
    pub fn is_noisy(&self) -> bool {
        has_changed(self.miss_before_ns, self.miss_after_ns)
    }
}

/// Whether a dependent miss of memory took more than 15 % longer at one of two times.
pub(crate) fn has_changed(before_ns: f64, after_ns: f64) -> bool {
    (before_ns - after_ns).abs() > 0.15 * before_ns.min(after_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_agrees_within_its_tolerance_only() {
        assert_eq!(Figure::near("a", 4.2, 4.25, "lines", 0.02).judgement, Judgement::Agrees);
        let far = Figure::near("a", 4.2, 4.4, "lines", 0.02).if_above("other nodes");
        assert_eq!(far.judgement, Judgement::Differs("other nodes".to_owned()));
        assert_eq!((far.claim.as_str(), far.ours.as_str()), ("4.20 lines", "4.40 lines"));
        assert!(!Figure::within("a", (1.0, 2.0), 2.05, "", 0.05).differs());
        assert!(Figure::within("a", (1.0, 2.0), 2.2, "", 0.05).differs());
        assert!(!Figure::shown("a", 1.0, "").differs());
        // A reason given beforehand is no verdict.
        let near = Figure::near("a", 1.0, 1.0, "", 0.0).if_above("never").if_below("never");
        assert_eq!((near.judgement, near.side), (Judgement::Agrees, None));
    }

    #[test]
    fn a_reason_is_given_only_on_the_side_that_it_explains() {
        let figure = |ours| Figure::within("a", (1.0, 2.0), ours, "", 0.0);
        assert!(!figure(3.0).if_above("more").is_unexplained());
        assert!(figure(3.0).if_below("less").because("either").is_unexplained());
        assert!(!figure(0.5).if_above("more").if_below("less").is_unexplained());
        assert!(figure(0.5).if_above("more").is_unexplained());
        assert!(!figure(1.5).is_unexplained());
        let failed = Figure::statement("a", "yes", "no", false);
        assert!(failed.clone().if_above("more").if_below("less").is_unexplained());
        assert!(!failed.clone().because("so").is_unexplained());
        assert!(!failed.without_verdict().differs());
    }

    #[test]
    fn a_ratio_claimed_above_one_is_even_or_contradicted_below() {
        let figure = |low, high| Figure::above_one("a", &Ratio { ratio: 1.0, low, high });
        assert_eq!(figure(1.1, 1.2).judgement, Judgement::Agrees);
        let even = figure(0.9, 1.1).if_below("less");
        assert!(matches!(&even.judgement, Judgement::Differs(why) if why.contains("holds 1")));
        assert!(figure(0.8, 0.9).is_unexplained());
        assert_eq!(figure(0.8, 0.9).if_below("less").judgement, Judgement::Differs("less".into()));
    }

    #[test]
    fn numbers_are_short_and_readable() {
        let shown = [0.0, 0.05, 0.123, 1.0, 2.345, 45.67, 123.4, 1e6, -1234.0, f64::NAN]
            .map(number)
            .join(" ");
        assert_eq!(shown, "0 0.0500 0.12 1 2.35 45.7 123 1,000,000 -1234 -");
    }
}
