//! Charts as SVG: bars and lines, coloured by the page's style sheet.
//!
//! Nothing is loaded and nothing runs. Colours, fonts and grid lines are classes, so that light,
//! dark and print are the page's business. Every mark has a title, which browsers show on hover.

use maud::{Markup, html};

use crate::experiment::{Axis, Bar, Chart, Line, number};

/// The width of every chart in its own units; the page scales it.
const WIDTH: f64 = 460.0;
/// The height of a bar with the gap below it.
const STEP: f64 = 26.0;
/// The thickness of a bar.
const THICKNESS: f64 = 16.0;

/// A chart as an SVG element. `own` names the bars and lines to stand out.
pub(crate) fn chart(chart: &Chart, own: &dyn Fn(&str) -> bool) -> Markup {
    match chart {
        Chart::Bars { title, unit, bars } => draw_bars(title, unit, bars, own),
        Chart::Lines { title, across, up, lines } => draw_lines(title, across, up, lines),
    }
}

/// A picture of a height, with a name for those who cannot see it.
fn picture(title: &str, height: f64, content: &Markup) -> Markup {
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height:.0}")) role="img" aria-label=(title) { (content) }
    }
}

/// A length or a place, to a tenth of a unit.
fn at(value: f64) -> String {
    format!("{value:.1}")
}

fn draw_bars(title: &str, unit: &str, bars: &[Bar], own: &dyn Fn(&str) -> bool) -> Markup {
    let longest = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * 7.4 + 12.0).clamp(60.0, 220.0);
    let room = WIDTH - left - 70.0;
    let end = |bar: &Bar| bar.spread.map_or(bar.value, |(_, high)| high.max(bar.value));
    let most = bars.iter().map(end).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let scale = |value: f64| if most > 0.0 { value / most * room } else { 0.0 };
    let height = bars.len() as f64 * STEP + 6.0;
    let content = html! {
        line class="axis" x1=(at(left)) y1="0" x2=(at(left)) y2=(format!("{height:.0}")) {}
        @for (index, bar) in bars.iter().enumerate() {
            (draw_bar(bar, unit, own(&bar.name), left, index as f64 * STEP + 4.0, &scale))
        }
    };
    picture(title, height, &content)
}

/// A bar with its name, its value and how far the value spreads.
fn draw_bar(
    bar: &Bar,
    unit: &str,
    is_own: bool,
    left: f64,
    top: f64,
    scale: &dyn Fn(f64) -> f64,
) -> Markup {
    let middle = top + THICKNESS / 2.0;
    let label = at(middle + 4.5);
    let shown = number(bar.value);
    let spread = bar.spread.filter(|_| bar.value.is_finite());
    let whisker = spread.map(|(low, high)| {
        let (from, to, over) = (at(left + scale(low)), at(left + scale(high)), at(middle - 3.0));
        format!("M{from} {}H{to}M{from} {over}v6M{to} {over}v6", at(middle))
    });
    let end = scale(bar.value).max(spread.map_or(0.0, |(_, high)| scale(high)));
    html! {
        g {
            title { (bar.name) ": " (shown) " " (unit) }
            text class="name" x=(at(left - 8.0)) y=(label) text-anchor="end" { (bar.name) }
            @if bar.value.is_finite() {
                path class=(if is_own { "bar own" } else { "bar" }) d=(rounded(left, top, scale(bar.value))) {}
                @if let Some(whisker) = whisker { path class="whisker" d=(whisker) {} }
                text class="value" x=(at(left + end + 6.0)) y=(label) { (shown) }
            }
        }
    }
}

/// A bar with its free end rounded.
fn rounded(left: f64, top: f64, length: f64) -> String {
    let radius = length.min(4.0);
    let straight = length - radius;
    format!(
        "M{left:.1} {top:.1}h{straight:.1}a{radius:.1} {radius:.1} 0 0 1 {radius:.1} {radius:.1}\
         v{:.1}a{radius:.1} {radius:.1} 0 0 1 -{radius:.1} {radius:.1}h-{straight:.1}z",
        THICKNESS - 2.0 * radius
    )
}

/// The place of a value between 0 and 1.
struct AxisScale {
    low: f64,
    high: f64,
    is_logarithmic: bool,
}

impl AxisScale {
    fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_logarithmic = axis.is_logarithmic && low > 0.0;
        if values.is_empty() || low == high {
            let middle = if values.is_empty() { 1.0 } else { low };
            return AxisScale { low: middle - 1.0, high: middle + 1.0, is_logarithmic: false };
        }
        AxisScale { low, high, is_logarithmic }
    }

    /// From zero on, as lengths must be, unless the scale is logarithmic.
    fn with_zero(mut self) -> Self {
        if !self.is_logarithmic {
            self.low = self.low.min(0.0);
            self.high *= 1.05;
        }
        self
    }

    fn at(&self, value: f64) -> f64 {
        let along = |value: f64| if self.is_logarithmic { value.ln() } else { value };
        (along(value) - along(self.low)) / (along(self.high) - along(self.low))
    }

    /// About five values worth a label.
    fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let decades = (self.high / self.low).log10();
            let steps: &[f64] = if decades < 1.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let first = self.low.log10().floor() as i32;
            let last = self.high.log10().ceil() as i32;
            let all = (first..=last)
                .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
            let (low, high) = (self.low * 0.999, self.high * 1.001);
            return all.filter(|value| (low..=high).contains(value)).collect();
        }
        let raw = (self.high - self.low) / 5.0;
        let power = 10_f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0];
        let step = steps.iter().map(|step| step * power).find(|step| *step >= raw);
        let step = step.unwrap_or(power * 10.0);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }
}

/// The edges of what is drawn of lines; names stand right of it.
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 130.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 250.0;

fn draw_lines(title: &str, across: &Axis, up: &Axis, lines: &[Line]) -> Markup {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let horizontal = AxisScale::of(across, points().map(|point| point.0));
    let vertical = AxisScale::of(up, points().map(|point| point.1)).with_zero();
    let x = |value: f64| LEFT + horizontal.at(value) * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - vertical.at(value) * (BOTTOM - TOP);
    let labels = spread_labels(lines, &y, TOP, BOTTOM);
    let content = html! {
        @for tick in vertical.ticks() {
            line class="grid" x1=(LEFT) y1=(at(y(tick))) x2=(RIGHT) y2=(at(y(tick))) {}
            text class="tick" x=(at(LEFT - 6.0)) y=(at(y(tick) + 4.0)) text-anchor="end" { (number(tick)) }
        }
        @for tick in horizontal.ticks() {
            line class="axis" x1=(at(x(tick))) y1=(BOTTOM) x2=(at(x(tick))) y2=(at(BOTTOM + 4.0)) {}
            text class="tick" x=(at(x(tick))) y=(at(BOTTOM + 18.0)) text-anchor="middle" { (number(tick)) }
        }
        line class="axis" x1=(LEFT) y1=(BOTTOM) x2=(RIGHT) y2=(BOTTOM) {}
        text class="tick" x=(at((LEFT + RIGHT) / 2.0)) y=(at(BOTTOM + 38.0)) text-anchor="middle" {
            (across.name)
        }
        text class="tick" x=(LEFT) y=(at(TOP - 2.0)) { (up.name) }
        @for (index, (line, label)) in lines.iter().zip(labels).enumerate() {
            (draw_line(line, &format!("s{}", index % 8), label, &x, &y))
        }
    };
    picture(title, 300.0, &content)
}

/// A line with its points, and its name at the height `label`.
fn draw_line(
    line: &Line,
    class: &str,
    label: f64,
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
) -> Markup {
    let points: Vec<(f64, f64)> =
        line.points.iter().copied().filter(|point| point.1.is_finite()).collect();
    let path: Vec<String> =
        points.iter().map(|point| format!("{:.1} {:.1}", x(point.0), y(point.1))).collect();
    html! {
        path class={ "line " (class) } d={ "M" (path.join("L")) } {}
        @for point in points {
            circle class={ "dot " (class) } cx=(at(x(point.0))) cy=(at(y(point.1))) r="4" {
                title { (line.name) ": " (number(point.1)) " at " (number(point.0)) }
            }
        }
        rect class={ "key " (class) } x=(at(RIGHT + 12.0)) y=(at(label - 9.0)) width="10" height="10" rx="2" {}
        text class="name" x=(at(RIGHT + 27.0)) y=(at(label)) { (line.name) }
    }
}

/// The heights of the names beside the ends of the lines, at least a line of text apart.
fn spread_labels(lines: &[Line], y: &dyn Fn(f64) -> f64, top: f64, bottom: f64) -> Vec<f64> {
    const APART: f64 = 17.0;
    let wanted = |line: &Line| line.points.last().map_or(bottom, |point| y(point.1) + 4.0);
    let mut order: Vec<(usize, f64)> = lines
        .iter()
        .map(wanted)
        .map(|at| if at.is_finite() { at } else { bottom })
        .enumerate()
        .collect();
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut least = top + 6.0;
    for (_, at) in &mut order {
        *at = at.max(least);
        least = *at + APART;
    }
    // What was pushed out at the bottom goes back up, in turn.
    let mut most = bottom + 4.0;
    for (_, at) in order.iter_mut().rev() {
        *at = at.min(most);
        most = *at - APART;
    }
    let mut heights = vec![0.0; lines.len()];
    order.into_iter().for_each(|(index, at)| heights[index] = at);
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(is_logarithmic: bool) -> Axis {
        Axis { name: "a <b>".to_owned(), is_logarithmic }
    }

    #[test]
    fn ticks_are_round_numbers_inside_the_range() {
        let linear = AxisScale::of(&axis(false), [0.0, 87.0].into_iter());
        assert_eq!(linear.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0]);
        let wide = AxisScale::of(&axis(true), [10.0, 10_000.0].into_iter());
        assert_eq!(wide.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        let narrow = AxisScale::of(&axis(true), [0.1, 1.0].into_iter());
        assert_eq!(narrow.ticks().len(), 4);
        assert_eq!(AxisScale::of(&axis(true), [3.0, 3.0].into_iter()).at(3.0), 0.5);
    }

    #[test]
    fn names_beside_lines_do_not_overlap_and_stay_inside() {
        let line = |end: f64| Line { name: String::new(), points: vec![(0.0, 1.0), (1.0, end)] };
        let lines: Vec<Line> = [5.0, 5.1, 5.2, 5.0, 99.0].map(line).into();
        let heights = spread_labels(&lines, &|value| 250.0 - value * 2.0, 12.0, 250.0);
        let mut sorted = heights.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] > 16.9), "{heights:?}");
        assert!(sorted[0] >= 12.0 && *sorted.last().unwrap() <= 254.1, "{heights:?}");
    }

    #[test]
    fn every_bar_and_point_has_a_title_and_all_is_escaped() {
        let bars = ["nbtree", "a<b"].map(|name| Bar {
            name: name.to_owned(),
            value: 2.0,
            spread: Some((1.0, 3.0)),
        });
        let bars =
            Chart::Bars { title: "t & t".to_owned(), unit: "dm".to_owned(), bars: bars.into() };
        let text = chart(&bars, &|name| name == "nbtree").into_string();
        assert_eq!(text.matches("<title>").count(), 2);
        assert_eq!(text.matches("bar own").count(), 1);
        assert!(text.contains("a&lt;b") && !text.contains("a<b") && text.contains("t &amp; t"));
        let points = vec![(1.0, 1.0), (2.0, f64::NAN), (4.0, 3.0)];
        let lines = vec![Line { name: "x".to_owned(), points }];
        let (across, up) = (axis(true), axis(false));
        let lines = Chart::Lines { title: "t".to_owned(), across, up, lines };
        let text = chart(&lines, &|_| false).into_string();
        assert_eq!(text.matches("<circle").count(), 2);
        assert!(!text.contains("NaN"), "{text}");
    }
}
