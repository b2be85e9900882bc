//! The areas of the overview: what stands where, and how much room each part gets.

use ratatui::layout::Rect;

use crate::tui::widgets::panel::{BOXED, frame_height};

/// Lines that each part would fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WantedLines {
    pub(super) timeline: u16,
    pub(super) problems: u16,
    /// The same with evidence or blind spots.
    pub(super) problems_and_rest: u16,
    /// The problems' sentences alone.
    pub(super) sentences: u16,
    /// The same with place and cost of the worst and its first step; 0 where there is no step to show.
    pub(super) first_step: u16,
    /// Problems: a line each.
    pub(super) each: u16,
    pub(super) peers: u16,
    pub(super) links: u16,
    pub(super) events: u16,
}

/// The areas; one that is not shown is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Areas {
    /// True if parts are boxes.
    pub(super) boxed: bool,
    pub(super) timeline: Rect,
    pub(super) problems: Rect,
    pub(super) peers: Rect,
    pub(super) links: Rect,
    pub(super) steps: Rect,
    pub(super) events: Rect,
}

/// Lines of the timeline where there is little room: a line of throughput, six signals, the axis.
const TIMELINE: u16 = 8;
/// Lines of the timeline, and of a table with its titles, where there are more problems than the usual lines hold.
const LEAST_TIMELINE_LINES: u16 = 6;
const LEAST_TABLE: u16 = 3;
/// The same of the timeline where not every problem has a line otherwise: throughput with the first link, the worst
/// signal, the axis.
const FEWEST_TIMELINE_LINES: u16 = 4;
/// Lines of problems in which others keep their usual ones.
const USUAL_PROBLEMS: u16 = 5;
/// From this height on the timeline has a line for each signal.
const HIGH: u16 = 34;
/// From this height of the body on, that of 36 lines, six signals come before links on screens of medium width.
const LAYERED_HIGH: u16 = 30;
/// From this width on problems stand beside the timeline: on narrower screens both need the whole width, the timeline
/// for its columns and the problems for whole sentences.
const BESIDE: u16 = 140;

/// From this size on events stand beside peers and links: neither fills such a width.
const WIDE: u16 = 240;
const WIDE_HIGH: u16 = 40;

/// Columns of the problems, with their frame.
pub(super) fn problems_width(width: u16) -> u16 {
    if width < BESIDE { width } else { (width * 3 / 8).clamp(56, 110) }
}

/// Lines that are left for framed parts.
struct FreeLines(u16);

impl FreeLines {
    /// Those of a part with its frame; none where fewer than `least` lines of its own would be left.
    fn part(&mut self, lines: u16, least: u16) -> u16 {
        let frame = frame_height(true);
        let lines = (frame + lines).min(self.0);
        let lines = if lines < frame + least { 0 } else { lines };
        self.0 -= lines;
        lines
    }

    /// Gives a part that has any what it fills, as far as there are lines.
    fn grow(&mut self, own: &mut u16, lines: u16) {
        if *own > 0 {
            let more = (frame_height(true) + lines).saturating_sub(*own).min(self.0);
            *own += more;
            self.0 -= more;
        }
    }
}

/// Areas of these heights, one below the other.
fn below<const N: usize>(body: Rect, heights: [u16; N]) -> [Rect; N] {
    let mut y = body.y;
    heights.map(|height| {
        let area = Rect { y, height, ..body };
        y += height;
        area
    })
}

/// Least lines of the steps below the problems.
const STEPS: u16 = 5;
/// Least lines of a table with its titles.
const TABLE: u16 = 4;

impl Areas {
    /// The areas within `body`.
    pub(super) fn new(body: Rect, wanted: WantedLines) -> Self {
        match body.width {
            ..BOXED => Self::stacked(body, wanted),
            BOXED..BESIDE => Self::layered(body, wanted),
            WIDE.. if body.height >= WIDE_HIGH => Self::columns(body, wanted),
            _ => Self::beside(body, wanted),
        }
    }

    /// Without packets: problems, and below them what NICs count; the rest is left for `help`, which explains why.
    pub(super) fn counters(body: Rect, problems: u16, counters: u16, help: u16) -> Self {
        let boxed = body.width >= BOXED;
        let frame = frame_height(boxed);
        let framed = |lines: u16| if lines > 0 { frame.saturating_add(lines) } else { 0 };
        let least = framed(counters.min(TABLE)).min(body.height / 3);
        let problems = Rect { height: framed(problems).min(body.height - least), ..body };
        let left = body.height - problems.height;
        // The explanation gives way to the counters, but not its first lines.
        let links = framed(counters).min(left.saturating_sub(help.min(left / 3)));
        let links = if links > frame { links } else { 0 };
        let links = Rect { y: problems.bottom(), height: links, ..body };
        Self { boxed, problems, links, ..Self::default() }
    }

    /// Narrow screens: one part below the other.
    fn stacked(body: Rect, wanted: WantedLines) -> Self {
        let rule = frame_height(false);
        let mut left = body.height;
        let mut take = |lines: u16, least_left: u16| {
            let lines = lines.min(left.saturating_sub(least_left));
            left -= lines;
            lines
        };
        // On the smallest screens each part has its title and two lines.
        let small = body.height < 14;
        let many = body.height >= 17 && wanted.problems > USUAL_PROBLEMS;
        let (mut timeline, mut table) =
            if many { (LEAST_TIMELINE_LINES, LEAST_TABLE) } else { (TIMELINE, TABLE) };
        if many {
            // A line for each problem comes before the last signals and peers.
            let lines = body.height.saturating_sub(3 * rule + timeline + table);
            let missing = wanted.each.saturating_sub(lines);
            let fewer = missing.min(LEAST_TIMELINE_LINES - FEWEST_TIMELINE_LINES);
            timeline -= fewer;
            table -= (missing - fewer).min(LEAST_TABLE - 2);
        }
        let least_peers = rule + if small { 2 } else { table.min(wanted.peers) };
        let most = match () {
            () if small => 2,
            () if body.height < 17 => 3,
            () if many => body.height.saturating_sub(rule + timeline + least_peers + rule),
            () => USUAL_PROBLEMS,
        };
        let least_problems = rule + wanted.problems.clamp(1, most);
        let mut timeline = take(rule + timeline, least_problems + least_peers);
        let mut problems = take(least_problems, least_peers.min(body.height / 3));
        let mut peers = take(least_peers, 0);
        // Remaining lines: more problems, then peers, links and events, then a higher timeline.
        let more = take((rule + wanted.problems).saturating_sub(problems), 0);
        problems += more;
        let more = take((rule + wanted.peers).saturating_sub(peers).min(body.height / 4), 0);
        peers += more;
        let links = if left > rule + TABLE.min(wanted.links) { left.min(rule + wanted.links) } else { 0 };
        left -= links;
        let events = if left > rule + 2 { left.min(rule + wanted.events) } else { 0 };
        left -= events;
        timeline += left;
        // A title without a row below it says nothing.
        for (own, least) in [(&mut problems, 1), (&mut peers, 2)] {
            if *own < rule + least {
                timeline += std::mem::take(own);
            }
        }
        let [timeline, problems, peers, links, events] =
            below(body, [timeline, problems, peers, links, events]);
        Self { boxed: false, timeline, problems, peers, links, steps: Rect::default(), events }
    }

    /// Screens of medium width: boxes one below the other, steps beside the links.
    fn layered(body: Rect, wanted: WantedLines) -> Self {
        let height = body.height;
        let mut room = FreeLines(height);
        let mut part = |lines, least| room.part(lines, least);
        // The least of each, in the order of what matters: six signals before links and steps.
        let mut timeline = match height {
            ..16 => part(3, 1),
            16..LAYERED_HIGH => part(LEAST_TIMELINE_LINES, 1),
            _ => part(wanted.timeline.clamp(LEAST_TIMELINE_LINES, TIMELINE), 1),
        };
        // Place and cost of the first ones come before events.
        let listed = wanted.problems.min(wanted.sentences + 2);
        let most = (height * 2 / 5).max(1);
        // And so does what to do, where it has room.
        let listed = if wanted.first_step <= most { listed.max(wanted.first_step) } else { listed };
        let mut problems = part(listed.clamp(1, most), 1);
        let mut peers = part(wanted.peers.min(if height >= HIGH - 2 { 6 } else { 4 }), 2);
        let mut links = part(wanted.links.min(4), 2);
        let mut events = part(wanted.events.min(4), 2);
        // Then each as much as it fills.
        let mut grow = |own: &mut u16, lines| room.grow(own, lines);
        grow(&mut problems, wanted.problems.min(height / 3));
        grow(&mut timeline, wanted.timeline);
        grow(&mut peers, wanted.peers.min(height / 3));
        grow(&mut links, wanted.links);
        grow(&mut events, wanted.events.min(height / 4));
        timeline += room.0;
        let [timeline, problems, peers, links, events] =
            below(body, [timeline, problems, peers, links, events]);
        let right = body.width * 2 / 5;
        let steps = Rect { x: links.right() - right, width: right, ..links };
        let links = Rect { width: body.width - right, ..links };
        Self { boxed: true, timeline, problems, peers, links, steps, events }
    }

    /// Wide screens: problems beside the timeline, steps beside the links.
    fn beside(body: Rect, wanted: WantedLines) -> Self {
        let frame = frame_height(true);
        let right = problems_width(body.width);
        let height = body.height;
        let timeline = if height >= HIGH { wanted.timeline.max(TIMELINE) } else { TIMELINE };
        // Whole sentences come before events.
        let sentences = wanted.sentences.min(height * 9 / 20);
        let top_least = (frame + timeline.max(sentences)).min(height);
        let mut room = FreeLines(height - top_least);
        let mut part = |lines, least| room.part(lines, least);
        // The least that is worth a frame, in the order of what matters.
        let least_peers = wanted.peers.min(if height >= 40 { 9 } else { 5 });
        let mut peers = part(least_peers, 2);
        let mut links = part(wanted.links.min(4), 2);
        let mut events = part(wanted.events.min(4), 2);
        // Then each as much as it fills.
        let mut top = top_least;
        let mut grow = |own: &mut u16, lines| room.grow(own, lines);
        grow(&mut top, wanted.problems.max(timeline + 2).min(height * 2 / 5));
        grow(&mut peers, wanted.peers.min(height / 3));
        grow(&mut links, wanted.links);
        grow(&mut events, wanted.events);
        top += room.0;
        let [top, peers, wide_links, events] = below(body, [top, peers, links, events]);
        let divided = |line: Rect| {
            (
                Rect { width: body.width - right, ..line },
                Rect { x: body.right() - right, width: right, ..line },
            )
        };
        let (timeline, beside) = divided(top);
        let (narrow_links, beside_links) = divided(wide_links);
        // Few problems leave room below them for the steps, and the links have all of their line.
        let (problems, links, steps) = match Self::steps_below(beside, wanted) {
            Some((problems, steps)) => (problems, wide_links, steps),
            None => (beside, narrow_links, beside_links),
        };
        Self { boxed: true, timeline, problems, peers, links, steps, events }
    }

    /// The widest screens: problems beside the timeline, and events beside peers and links.
    fn columns(body: Rect, wanted: WantedLines) -> Self {
        let frame = frame_height(true);
        let height = body.height;
        let sentences = wanted.sentences.min(height * 9 / 20);
        let top_least = (frame + wanted.timeline.max(TIMELINE).max(sentences)).min(height * 3 / 5);
        let framed = |lines: u16| if lines > 0 { frame.saturating_add(lines) } else { 0 };
        let links = framed(wanted.links).min(height / 5);
        // There may be any number of events: they fill what the others do, or a part of the height.
        let own = framed(wanted.peers).saturating_add(links);
        let lower = own.max(framed(wanted.events).min(height * 2 / 5)).min(height - top_least);
        let half = if wanted.events > 0 { body.width / 2 } else { body.width };
        let (top, below) = (
            Rect { height: height - lower, ..body },
            Rect { y: body.bottom() - lower, height: lower, ..body },
        );
        let right = problems_width(body.width);
        let timeline = Rect { width: top.width - right, ..top };
        let beside = Rect { x: timeline.right(), width: right, ..top };
        let events = Rect { x: below.x + half, width: below.width - half, ..below };
        let links = links.min(lower);
        let peers = Rect { width: half, height: lower - links, ..below };
        let links = Rect { y: peers.bottom(), height: links, ..peers };
        let (problems, links, steps) = if let Some((problems, steps)) = Self::steps_below(beside, wanted) {
            (problems, links, steps)
        } else {
            let width = links.width * 2 / 5;
            let steps = Rect { x: links.right() - width, width, ..links };
            (beside, Rect { width: links.width - width, ..links }, steps)
        };
        Self { boxed: true, timeline, problems, peers, links, steps, events }
    }

    /// Problems and below them the steps, where the problems leave room for them.
    fn steps_below(area: Rect, wanted: WantedLines) -> Option<(Rect, Rect)> {
        let frame = frame_height(true);
        let below = |lines: u16| area.height >= frame + lines.max(1) + frame + STEPS;
        let few = if below(wanted.problems_and_rest) { wanted.problems_and_rest } else { wanted.problems };
        let few = frame + few.max(1);
        let steps = Rect { y: area.y + few, height: area.height.checked_sub(few)?, ..area };
        (steps.height >= frame + STEPS).then_some((Rect { height: few, ..area }, steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_fill_the_body_and_do_not_overlap() {
        for width in [60, 80, 99, 100, 120, 139, 140, 160, 300] {
            for height in 1..120 {
                for n in [0, 1, 3, 8, 40, 200] {
                    let body = Rect::new(0, 4, width, height);
                    let wanted = WantedLines {
                        timeline: 8 + n % 3,
                        problems: n,
                        problems_and_rest: n + n / 2,
                        sentences: n / 2,
                        first_step: n % 7,
                        each: n / 3,
                        peers: n,
                        links: n,
                        events: n,
                    };
                    let areas = Areas::new(body, wanted);
                    let Areas { timeline, problems, peers, links, steps, events, boxed } = areas;
                    let all = [timeline, problems, peers, links, steps, events];
                    let cells: u32 = all.iter().map(|area| area.area()).sum();
                    assert_eq!(cells, body.area(), "{width}x{height} {n}: {areas:?}");
                    let inside = |area: &Rect| area.is_empty() || body.intersection(*area) == *area;
                    assert!(all.iter().all(inside), "{width}x{height} {n}: {areas:?}");
                    assert_eq!(boxed, width >= 100);
                    for (at, one) in all.iter().enumerate() {
                        assert!(all.iter().skip(at + 1).all(|other| !one.intersects(*other)), "{areas:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_part_is_a_title_alone() {
        for (width, height) in [60, 80, 99, 100, 120, 139, 140, 160, 240, 300]
            .into_iter()
            .flat_map(|width| (8..90).map(move |height| (width, height)))
        {
            for n in [1, 2, 3, 5, 8, 40] {
                let wanted = WantedLines {
                    timeline: 10,
                    problems: 2 * n,
                    problems_and_rest: 3 * n,
                    sentences: 2 * n,
                    first_step: n % 7,
                    each: n,
                    peers: 1 + n,
                    links: 2 + n,
                    events: n,
                };
                let areas = Areas::new(Rect::new(0, 4, width, height), wanted);
                let Areas { timeline, problems, peers, links, steps, events, boxed } = areas;
                // Of tables the titles of columns are a row, too.
                let parts = [(timeline, 1), (problems, 1), (peers, 2), (links, 2), (steps, 1), (events, 1)];
                for (area, least) in parts.into_iter().filter(|(area, _)| !area.is_empty()) {
                    let rows = area.height.saturating_sub(frame_height(boxed));
                    assert!(rows >= least, "{width}x{height} {n}: {areas:?}");
                }
            }
        }
    }

    #[test]
    fn without_packets_problems_come_first_and_the_explanation_last() {
        let body = Rect::new(0, 4, 80, 19);
        let areas = Areas::counters(body, 30, 20, 9);
        assert!(areas.problems.height >= 12 && areas.links.height >= 3, "{areas:?}");
        for (problems, counters, help) in [(0, 0, 0), (1, 0, 9), (4, 3, 9), (90, 90, 90)] {
            for (width, height) in [(80, 0), (80, 1), (80, 9), (120, 3), (300, 90)] {
                let body = Rect::new(0, 4, width, height);
                let Areas { problems, links, .. } = Areas::counters(body, problems, counters, help);
                assert!(links.is_empty() || links.y == problems.bottom());
                assert!(problems.bottom() <= body.bottom() && links.bottom() <= body.bottom());
            }
        }
    }

    #[test]
    fn at_80x24_every_part_that_answers_a_question_is_there() {
        let areas = Areas::new(
            Rect::new(0, 4, 80, 19),
            WantedLines {
                timeline: 10,
                problems: 4,
                problems_and_rest: 4,
                sentences: 4,
                first_step: 0,
                each: 2,
                peers: 9,
                links: 3,
                events: 9,
            },
        );
        assert!(
            areas.timeline.height >= 7 && areas.problems.height >= 4 && areas.peers.height >= 4,
            "{areas:?}"
        );
    }

    /// Throughput, six signals and the clock, whatever else there is.
    #[test]
    fn from_36_lines_on_the_timeline_has_six_signals() {
        for height in 30..100 {
            for (problems, links) in [(3, 2), (9, 3), (40, 20)] {
                let wanted = WantedLines {
                    timeline: 10,
                    problems,
                    problems_and_rest: problems,
                    sentences: 4,
                    first_step: 9,
                    each: 4,
                    peers: 9,
                    links,
                    events: 9,
                };
                let areas = Areas::new(Rect::new(0, 5, 120, height), wanted);
                assert!(areas.timeline.height >= 10, "{height}: {areas:?}");
                assert!(height < 34 || problems > 9 || areas.links.height >= 4, "{height}: {areas:?}");
            }
        }
    }

    #[test]
    fn at_80x24_every_problem_has_a_line_before_other_parts_have_many() {
        let areas = |each: u16| {
            let (problems, sentences) = (2 * each + 1, 2 * each);
            let all = WantedLines {
                timeline: 10,
                problems,
                problems_and_rest: problems,
                sentences,
                first_step: 0,
                each,
                peers: 9,
                links: 3,
                events: 9,
            };
            Areas::new(Rect::new(0, 4, 80, 19), all)
        };
        for each in 1..=10 {
            assert!(areas(each).problems.height > each, "{each}: {:?}", areas(each));
        }
        let most = areas(40);
        assert!(most.timeline.height >= 5 && most.peers.height >= 3, "{most:?}");
    }
}
