//! Figures with their goals, as a table for docs/performance.md.

/// Limit and aim of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Goal {
    /// Limit: a change that misses it is not accepted.
    pub(super) wanted: f64,
    /// Long-term target, if it is beyond the limit.
    pub(super) aim: Option<f64>,
    sense: Sense,
}

/// Direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sense {
    AtMost,
    AtLeast,
}

impl Goal {
    /// Lower is better.
    pub(super) const fn at_most(wanted: f64, aim: Option<f64>) -> Self {
        Self { wanted, aim, sense: Sense::AtMost }
    }

    /// Higher is better.
    pub(super) const fn at_least(wanted: f64, aim: Option<f64>) -> Self {
        Self { wanted, aim, sense: Sense::AtLeast }
    }

    fn reached(self, figure: f64, limit: f64) -> bool {
        match self.sense {
            Sense::AtMost => figure <= limit,
            Sense::AtLeast => figure >= limit,
        }
    }

    /// True if the figure is within the limit.
    pub(super) fn is_met(self, figure: f64) -> bool {
        self.reached(figure, self.wanted)
    }

    /// Verdict in one word or two.
    pub(super) fn verdict(self, figure: Option<f64>) -> &'static str {
        match figure {
            None => "not known",
            Some(figure) if self.aim.is_some_and(|aim| self.reached(figure, aim)) => "aim reached",
            Some(figure) if self.is_met(figure) => "met",
            Some(_) => "MISSED",
        }
    }
}

/// A figure and its goal.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    /// `None`: not measured.
    pub(super) figure: Option<f64>,
    /// Suffix of the numbers, including a space where needed: ` GB`, ` ×`.
    pub(super) unit: &'static str,
    pub(super) goal: Goal,
    /// Figure of the same run for the unavoidable part of the work; `None` if not measured.
    pub(super) floor: Option<f64>,
}

impl Row {
    fn line(&self) -> String {
        let number =
            |number: Option<f64>| number.map_or("-".to_owned(), |n| format!("{}{}", three(n), self.unit));
        let Self { name, figure, goal, .. } = self;
        let [figure_text, wanted, aim, floor] =
            [*figure, Some(goal.wanted), goal.aim, self.floor].map(number);
        let missed = figure.is_some_and(|figure| !goal.is_met(figure));
        let limit = missed && self.floor.is_some_and(|floor| !goal.is_met(floor));
        let why = if limit { "; so does its floor" } else { "" };
        format!("| {name} | {figure_text} | {floor} | {wanted} | {aim} | {}{why} |", goal.verdict(*figure))
    }
}

/// Three significant digits, or all digits of an integer.
fn three(number: f64) -> String {
    let digits = match number {
        whole if whole.fract() == 0.0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$}")
}

/// Prints the table, and the number of rows that miss their limit.
pub(super) fn print(rows: &[Row]) {
    println!("\n| row | measured | floor | wanted | aim | |");
    println!("|---|---|---|---|---|---|");
    for row in rows {
        println!("{}", row.line());
    }
    let missed = rows.iter().filter(|row| row.figure.is_some_and(|figure| !row.goal.is_met(figure))).count();
    let known = rows.iter().filter(|row| row.figure.is_some()).count();
    println!("\n{missed} of {known} rows missed what is wanted");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(figure: Option<f64>, goal: Goal) -> String {
        Row { name: "x".into(), figure, unit: " ×", goal, floor: figure.map(|figure| figure / 2.0) }.line()
    }

    #[test]
    fn a_missed_row_is_at_its_limit_where_the_floor_misses_too() {
        let goal = Goal::at_least(0.9, None);
        let of = |figure, floor| Row { name: "x".into(), figure, unit: "", goal, floor }.line();
        assert_eq!(of(Some(0.8), Some(0.85)), "| x | 0.80 | 0.85 | 0.90 | - | MISSED; so does its floor |");
        assert_eq!(of(Some(0.8), Some(0.95)), "| x | 0.80 | 0.95 | 0.90 | - | MISSED |");
        assert_eq!(of(Some(0.91), Some(0.85)), "| x | 0.91 | 0.85 | 0.90 | - | met |");
    }

    #[test]
    fn a_row_says_whether_it_is_as_wanted() {
        let small = Goal::at_most(0.4, Some(0.25));
        assert_eq!(line(Some(0.2), small), "| x | 0.20 × | 0.10 × | 0.40 × | 0.25 × | aim reached |");
        assert_eq!(line(Some(0.4), small), "| x | 0.40 × | 0.20 × | 0.40 × | 0.25 × | met |");
        assert_eq!(line(Some(0.41), small), "| x | 0.41 × | 0.20 × | 0.40 × | 0.25 × | MISSED |");
        assert_eq!(line(None, Goal::at_least(100.0, None)), "| x | - | - | 100 × | - | not known |");
        assert_eq!(line(Some(213.4), Goal::at_least(100.0, None)), "| x | 213 × | 107 × | 100 × | - | met |");
        assert_eq!(
            line(Some(12.34), Goal::at_least(100.0, None)),
            "| x | 12.3 × | 6.17 × | 100 × | - | MISSED; so does its floor |"
        );
    }
}
