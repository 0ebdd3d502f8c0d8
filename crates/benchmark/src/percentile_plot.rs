//! Latencies by percentile as a picture: how long the slowest tenth, hundredth, thousandth of all requests took.
//!
//! ```text
//!   ms   |                         ___/     the axis below: each step of the same width leaves out nine tenths
//!     10 |                    ____/         of what the step before it left: 0, 90, 99, 99.9 ... percent
//!      1 |      _____________/              the axis on the left: each step of 1, 2, 5, 10, 20 ... is about the same
//!        +------+------+------+------+
//!        0     90     99    99.9   99.99 %
//! ```
//!
//! Lines differ in color and in dashes, and are named beside their ends; the background is transparent, and ink and
//! grid follow a page that is dark or light.

use crate::cases::Case;
use crate::measured_run::Measured;
use crate::svg::{Anchor, Svg};
use hdrhistogram::Histogram;

const SIZE: (u32, u32) = (960, 540);
/// The plot's edges: left, top, right, bottom.
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
const RIGHT: f64 = 930.0;
const BOTTOM: f64 = 420.0;
/// Number of points of a line within a step of the axis below.
const POINTS_A_STEP: u32 = 25;
/// Colors that differ on dark and on light; lines beyond them have dashes.
const COLORS: [&str; 6] = ["#1f83d6", "#e0762b", "#2f9e58", "#b25bd0", "#c8433f", "#8a8f2a"];
const DASHES: [&str; 4] = ["none", "8 4", "2 3", "10 3 2 3"];
/// Number of columns of the names below the plot.
const COLUMNS: usize = 3;

/// One line of the picture.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    /// Numbers of its color and of its dashes.
    pub color: usize,
    pub dash: usize,
    /// Position on the axis below, in its steps, and milliseconds.
    points: Vec<(f64, f64)>,
}

impl Line {
    pub fn new(name: String, (color, dash): (usize, usize), latencies: &Histogram<u64>) -> Line {
        Line { name, color, dash, points: points(latencies) }
    }
}

/// Returns the picture of cases that ran one after the other, with the operations of those that have several.
pub fn of_cases(cases: &[(&Case, Measured)]) -> String {
    let mut lines = Vec::new();
    for (case, measured) in cases {
        lines.push(Line::new(case.title.clone(), style_of(lines.len()), &measured.latencies));
        if case.operations.len() > 1 {
            for (operation, latencies) in case.operations.iter().zip(&measured.operations) {
                lines.push(Line::new(operation.name.clone(), style_of(lines.len()), latencies));
            }
        }
    }
    plot("Latency by percentile", &lines)
}

/// Returns the look of a line by its number: all colors, then all of them with dashes.
fn style_of(number: usize) -> (usize, usize) {
    (number, number / COLORS.len())
}

/// Returns the points of a line, from the fastest request to the slowest.
fn points(latencies: &Histogram<u64>) -> Vec<(f64, f64)> {
    if latencies.is_empty() {
        return Vec::new();
    }
    let milliseconds = |microseconds: u64| microseconds.max(1) as f64 / 1000.0;
    let end = (latencies.len() as f64).log10();
    let step = |number: u32| f64::from(number) / f64::from(POINTS_A_STEP);
    let along = (0..).map(step).take_while(|along| *along < end);
    let value = |along: f64| latencies.value_at_quantile(1.0 - 10f64.powf(-along));
    let mut points: Vec<_> = along.map(|along| (along, milliseconds(value(along)))).collect();
    points.push((end, milliseconds(latencies.max())));
    points
}

/// Returns the whole picture.
pub fn plot(title: &str, lines: &[Line]) -> String {
    let scale = Scale::of(lines);
    let names: Vec<_> = lines.iter().map(|line| line.name.as_str()).collect();
    let described = format!("Milliseconds by percentile of requests: {}", names.join("; "));
    let mut svg = Svg::new(SIZE, &style(), title, &described);
    svg.text("heading", (LEFT, TOP - 22.0), Anchor::Start, title);
    svg.text("unit", (LEFT - 8.0, TOP - 16.0), Anchor::End, "ms");
    for (value, label) in scale.marks_left() {
        let y = scale.y(value);
        svg.line("grid", (LEFT, y), (RIGHT, y));
        svg.text("mark", (LEFT - 8.0, y + 4.0), Anchor::End, &label);
    }
    for (along, label) in scale.marks_below() {
        let x = scale.x(along);
        svg.line("grid", (x, TOP), (x, BOTTOM));
        svg.text("mark", (x, BOTTOM + 18.0), Anchor::Middle, &label);
    }
    svg.text("unit", (RIGHT, BOTTOM + 36.0), Anchor::End, "percentile of requests");
    for (number, line) in lines.iter().enumerate() {
        let class = format!("series color{} dash{}", line.color % COLORS.len(), line.dash % DASHES.len());
        let points: Vec<_> = line.points.iter().map(|(along, value)| (scale.x(*along), scale.y(*value))).collect();
        svg.polyline(&class, &points);
        let (column, row) = (number % COLUMNS, number / COLUMNS);
        let x = LEFT + column as f64 * (RIGHT - LEFT) / COLUMNS as f64;
        let y = BOTTOM + 58.0 + row as f64 * 18.0;
        svg.polyline(&class, &[(x, y - 4.0), (x + 30.0, y - 4.0)]);
        svg.text("name", (x + 36.0, y), Anchor::Start, &shortened(&line.name));
    }
    svg.finish()
}

/// Cuts a name to a column.
fn shortened(name: &str) -> String {
    const MAX: usize = 34;
    if name.chars().count() <= MAX {
        return name.to_owned();
    }
    name.chars().take(MAX - 1).chain(['…']).collect()
}

fn style() -> String {
    let mut style = String::from(
        "text { font: 12px system-ui, sans-serif; fill: #444; }\n.heading { font-size: 16px; font-weight: 600; }\n\
         .grid { stroke: #8884; stroke-width: 1; }\n.series { fill: none; stroke-width: 2; stroke-linejoin: round; }\n\
         @media (prefers-color-scheme: dark) { text { fill: #ccc; } }\n",
    );
    for (number, color) in COLORS.iter().enumerate() {
        style.push_str(&format!(".color{number} {{ stroke: {color}; }}\n"));
    }
    for (number, dash) in DASHES.iter().enumerate() {
        style.push_str(&format!(".dash{number} {{ stroke-dasharray: {dash}; }}\n"));
    }
    style
}

/// Scale that maps values to positions in the picture.
struct Scale {
    /// Number of steps of the axis below.
    steps: f64,
    low: f64,
    high: f64,
}

impl Scale {
    fn of(lines: &[Line]) -> Scale {
        let points = || lines.iter().flat_map(|line| &line.points);
        let steps = points().map(|(along, _)| along.ceil()).fold(1.0, f64::max);
        let low = points().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
        let high = points().map(|(_, value)| *value).fold(0.0, f64::max);
        let (low, high) = if high > 0.0 { (low, high) } else { (0.1, 1.0) };
        let (below, above) = (round_below(low), round_above(high));
        Scale { steps, low: below, high: if above > below { above } else { below * 10.0 } }
    }

    fn x(&self, along: f64) -> f64 {
        LEFT + along / self.steps * (RIGHT - LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value / self.low).log10() / (self.high / self.low).log10();
        BOTTOM - share * (BOTTOM - TOP)
    }

    fn marks_below(&self) -> Vec<(f64, String)> {
        let half = (2f64.log10(), "50%".to_owned());
        let whole = (0..=self.steps as u32).map(|step| {
            let label = match step {
                0 => "0%".to_owned(),
                1 => "90%".to_owned(),
                2 => "99%".to_owned(),
                more => format!("99.{}%", "9".repeat(more as usize - 2)),
            };
            (f64::from(step), label)
        });
        whole.chain([half]).collect()
    }

    fn marks_left(&self) -> Vec<(f64, String)> {
        let mut marks = Vec::new();
        let mut value = self.low;
        while value <= self.high * 1.001 {
            marks.push((value, label(value)));
            value = round_above(value * 1.5);
        }
        marks
    }
}

fn label(milliseconds: f64) -> String {
    let places = if milliseconds >= 0.99 { 0 } else { 3 };
    let text = format!("{milliseconds:.places$}");
    if places > 0 { text.trim_end_matches('0').to_owned() } else { text }
}

/// Returns the largest of 1, 2, 5, 10, 20 ... that is not above.
fn round_below(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor());
    let fits = |factor: f64| unit * factor <= value * 1.000_001;
    unit * [5.0, 2.0].into_iter().find(|factor| fits(*factor)).unwrap_or(1.0)
}

/// Returns the smallest of them that is not below.
fn round_above(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor());
    let fits = |factor: f64| unit * factor >= value * 0.999_999;
    unit * [1.0, 2.0, 5.0].into_iter().find(|factor| fits(*factor)).unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_counts::new_histogram;
    use crate::svg::is_well_formed;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut latencies = new_histogram();
        values.into_iter().for_each(|value| latencies.record(value).unwrap());
        latencies
    }

    #[test]
    fn a_line_goes_from_the_fastest_to_the_slowest() {
        let points = points(&of(1..=1000));
        assert_eq!(points[0], (0.0, 0.001));
        let at = |along: f64| points.iter().find(|(at, _)| (at - along).abs() < 1e-9).unwrap().1;
        assert_eq!((at(1.0), at(2.0), at(3.0)), (0.9, 0.99, 1.0));
        assert!(points.is_sorted());
        assert!(super::points(&new_histogram()).is_empty());
    }

    #[test]
    fn marks_are_round_numbers() {
        let scale = Scale::of(&[Line::new(String::new(), (0, 0), &of([130, 4200, 9000]))]);
        let labels: Vec<_> = scale.marks_left().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0.1", "0.2", "0.5", "1", "2", "5", "10"]);
        let below: Vec<_> = Scale { steps: 4.0, ..scale }.marks_below().into_iter().map(|(_, label)| label).collect();
        assert_eq!(below, ["0%", "90%", "99%", "99.9%", "99.99%", "50%"]);
    }

    #[test]
    fn lines_lie_within_the_plot() {
        for values in [vec![1], vec![60_000_000], vec![1, 60_000_000], (1..5000).collect()] {
            let line = Line::new(String::new(), (0, 0), &of(values));
            let scale = Scale::of(std::slice::from_ref(&line));
            for (along, value) in &line.points {
                let (x, y) = (scale.x(*along), scale.y(*value));
                assert!((LEFT - 0.1..=RIGHT + 0.1).contains(&x) && (TOP - 0.1..=BOTTOM + 0.1).contains(&y), "{x} {y}");
            }
        }
    }

    #[test]
    fn a_picture_names_its_lines() {
        let lines: Vec<_> = ["GET <&>", "a name that is much longer than a column of the picture", ""]
            .into_iter()
            .enumerate()
            .map(|(at, name)| Line::new(name.to_owned(), style_of(at * 7), &of([10, 20, 30])))
            .collect();
        let picture = plot("A & B", &lines);
        assert!(is_well_formed(&picture), "{picture}");
        assert!(picture.contains("GET &lt;&amp;&gt;</text>") && picture.contains("longer than a…</text>"), "{picture}");
        assert!(picture.contains("class=\"series color1 dash1\""), "{picture}");
        assert!(is_well_formed(&plot("nothing", &[])));
    }
}
