//! A small set of hops that explains the bad port pairs: chosen one after the other, without one that the others make
//! superfluous, and of few hops the smallest set. An answer says if a smaller set may exist.
//!
//! Each pair passes several hops: two links, two hosts, two switches, a path, a rail, a plane. A hop is a better
//! explanation the more bad pairs pass it that no earlier hop explains, and the fewer good pairs pass it.

use serde::Deserialize;
use serde_json::{Value, json};

use super::Row;
use super::fewest::{Search, Smaller};
use super::question::COMPARED;
use crate::util::map::{Map, Set};

/// Maximum number of hops in an answer: a search for one fault needs only the first, and noise adds any number of
/// others.
const MOST: usize = 100;

/// Metric of `loss` for the pairs whose losses no tap can see.
pub const RETRANSMITTED: &str = "retransmitted";

/// Metric of `loss` and `slow` for the retries that the NIC's own contexts of queue pairs show.
pub const RETRIES: &str = "retries (QP)";

/// A bad pair at one of its hops: a row of the SQL result.
#[derive(Clone, Debug, Deserialize)]
struct Pair {
    metric: String,
    scope: String,
    #[serde(deserialize_with = "number")]
    breadth: f64,
    side: String,
    hop: String,
    /// Number of bad pairs that pass the hop, and of all pairs that pass it.
    #[serde(deserialize_with = "number")]
    bad_pairs: f64,
    #[serde(deserialize_with = "number")]
    pairs: f64,
    #[serde(deserialize_with = "number")]
    hop_z: f64,
    job: Option<String>,
    direction: Option<String>,
    src: String,
    dst: String,
    #[serde(deserialize_with = "number")]
    weight: f64,
    #[serde(deserialize_with = "number")]
    figure: f64,
    #[serde(deserialize_with = "number")]
    usual: f64,
    /// Pairs of the job that it is compared with.
    #[serde(deserialize_with = "number")]
    peers: f64,
    /// 1 if more is lost than counted: a timeout follows a loss that leaves no gap.
    #[serde(deserialize_with = "number")]
    bounded: f64,
}

/// Deserialises a number that an engine may write as text.
fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let value = Value::deserialize(from)?;
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
    number.ok_or_else(|| serde::de::Error::custom(format!("{value} is not a number")))
}

/// A hop, with the bad pairs that pass it.
struct Hop {
    of: Pair,
    pairs: Vec<usize>,
    /// Bad pairs as a share of all pairs that pass it.
    share: f64,
}

/// Hops that explain the bad pairs.
#[derive(Debug)]
pub struct Explained {
    /// A row of the answer for each hop, best explanation first.
    pub rows: Vec<Row>,
    /// No smaller set explains the same pairs as well. False: it is not known.
    pub is_smallest: bool,
}

/// Explains the bad pairs by hops.
///
/// # Errors
/// If a row lacks a field.
pub fn explain(rows: Vec<Row>) -> Result<Explained, serde_json::Error> {
    let (hops, pairs) = hops(rows)?;
    let mut open: Vec<bool> = vec![true; pairs.len()];
    let mut chosen: Vec<&Hop> = Vec::new();
    while chosen.len() < MOST
        && let Some(best) = best(hops.iter(), &pairs, &open)
    {
        chosen.push(best);
        best.pairs.iter().for_each(|pair| open[*pair] = false);
    }
    leave_out(&mut chosen);
    let (chosen, is_smallest) = smaller(&hops, &pairs, chosen);
    open.fill(true);
    let mut rows = Vec::new();
    for hop in chosen {
        rows.push(answer(hop, &hops, &pairs, &open, score(hop, &pairs, &open)));
        hop.pairs.iter().for_each(|pair| open[*pair] = false);
    }
    Ok(Explained { rows, is_smallest })
}

/// Losses of the pairs at a hop that no other hop explains yet, the less the more of its pairs lose nothing.
fn score(hop: &Hop, pairs: &[Pair], open: &[bool]) -> f64 {
    hop.pairs.iter().filter(|pair| open[**pair]).map(|pair| worth(hop, &pairs[*pair])).sum()
}

/// Score of a hop as the explanation of one of its pairs.
fn worth(hop: &Hop, pair: &Pair) -> f64 {
    pair.weight.max(1.0) * hop.share * hop.share
}

/// The hop that explains most of what is open.
fn best<'a>(hops: impl Iterator<Item = &'a Hop>, pairs: &[Pair], open: &[bool]) -> Option<&'a Hop> {
    let scored = hops.map(|hop| (score(hop, pairs, open), hop)).filter(|(score, _)| *score > 0.0);
    // A lost packet can have any number of retransmissions.
    let known = |hop: &Hop| hop.of.metric != RETRANSMITTED;
    let best = scored.max_by(|(a, one), (b, other)| {
        let by_loss = known(one).cmp(&known(other));
        let narrower = || other.of.breadth.total_cmp(&one.of.breadth);
        let clearer = || one.of.hop_z.total_cmp(&other.of.hop_z);
        let names = || other.of.hop.cmp(&one.of.hop);
        by_loss.then_with(|| a.total_cmp(b)).then_with(narrower).then_with(clearer).then_with(names)
    });
    best.map(|(_, hop)| hop)
}

/// Leaves out hops whose pairs the others explain, the weakest first: a hop chosen early may be explained by later
/// ones.
fn leave_out(chosen: &mut Vec<&Hop>) {
    for at in (0..chosen.len()).rev() {
        let others = chosen.iter().enumerate().filter(|(other, _)| *other != at);
        let explained: Set<usize> = others.flat_map(|(_, hop)| hop.pairs.iter().copied()).collect();
        if chosen.len() > 1
            && chosen.get(at).is_some_and(|hop| hop.pairs.iter().all(|pair| explained.contains(pair)))
        {
            chosen.remove(at);
        }
    }
}

/// The smallest set known that explains the same pairs as well, best explanation first, and whether none is smaller.
fn smaller<'a>(hops: &'a [Hop], pairs: &[Pair], chosen: Vec<&'a Hop>) -> (Vec<&'a Hop>, bool) {
    let place = |hop: &&Hop| hops.iter().position(|other| std::ptr::eq(*hop, other));
    let greedy: Vec<usize> = chosen.iter().filter_map(place).collect();
    let of_hops: Vec<&[usize]> = hops.iter().map(|hop| hop.pairs.as_slice()).collect();
    let worth = |hop: usize, pair: usize| worth(&hops[hop], &pairs[pair]);
    let Smaller { hops: set, is_smallest } = Search::new(&of_hops, pairs.len(), &worth).smaller(&greedy);
    if set.len() == chosen.len() {
        return (chosen, is_smallest);
    }
    let mut left: Vec<&Hop> = set.into_iter().map(|hop| &hops[hop]).collect();
    let (mut ordered, mut open) = (Vec::new(), vec![true; pairs.len()]);
    while let Some(best) = best(left.iter().copied(), pairs, &open) {
        left.retain(|hop| !std::ptr::eq(*hop, best));
        best.pairs.iter().for_each(|pair| open[*pair] = false);
        ordered.push(best);
    }
    (ordered, is_smallest)
}

/// Identity of a pair: metric, job, direction, source and destination.
type Ports = (String, Option<String>, Option<String>, String, String);

/// The hops of the rows, and the pairs to which they refer by index.
fn hops(rows: Vec<Row>) -> Result<(Vec<Hop>, Vec<Pair>), serde_json::Error> {
    let (mut hops, mut pairs): (Vec<Hop>, Vec<Pair>) = (Vec::new(), Vec::new());
    let mut hop_of: Map<(String, String, String, String), usize> = Map::default();
    let mut pair_of: Map<Ports, usize> = Map::default();
    for row in rows {
        let row: Pair = serde_json::from_value(Value::Object(row))?;
        let key =
            (row.metric.clone(), row.job.clone(), row.direction.clone(), row.src.clone(), row.dst.clone());
        let pair = *pair_of.entry(key).or_insert_with(|| {
            pairs.push(row.clone());
            pairs.len() - 1
        });
        let key = (row.metric.clone(), row.scope.clone(), row.side.clone(), row.hop.clone());
        let hop = *hop_of.entry(key).or_insert_with(|| {
            let share = row.bad_pairs / row.pairs.max(1.0);
            hops.push(Hop { of: row, pairs: Vec::new(), share });
            hops.len() - 1
        });
        hops[hop].pairs.push(pair);
    }
    for hop in &mut hops {
        // A hop such as a rail may occur once for each end of a pair.
        hop.pairs.sort_unstable();
        hop.pairs.dedup();
    }
    Ok((hops, pairs))
}

/// Builds a row of the answer.
fn answer(best: &Hop, hops: &[Hop], pairs: &[Pair], open: &[bool], score: f64) -> Row {
    let explained =
        |hop: &Hop| -> Set<usize> { hop.pairs.iter().copied().filter(|pair| open[*pair]).collect() };
    let own = explained(best);
    let same = hops.iter().filter(|hop| !std::ptr::eq(*hop, best) && hop.of.metric == best.of.metric);
    let same: Vec<String> = (same.filter(|hop| hop.share >= best.share && explained(hop) == own))
        .map(|hop| format!("{} {}", hop.of.scope, place(&hop.of)))
        .collect();
    let mut by_excess: Vec<&Pair> = own.iter().map(|pair| &pairs[*pair]).collect();
    by_excess.sort_by(|a, b| (a.figure - a.usual).total_cmp(&(b.figure - b.usual)));
    let middle = by_excess.get(by_excess.len() / 2).copied().unwrap_or(&best.of);
    let count: f64 = own.iter().map(|pair| pairs[*pair].weight).sum();
    let mut jobs: Vec<&str> = by_excess.iter().filter_map(|pair| pair.job.as_deref()).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let job = match jobs.as_slice() {
        [] => Value::Null,
        [one] => json!(one),
        several => json!(format!("{} jobs", several.len())),
    };
    let counted = |metric: &str| (best.of.metric == metric).then_some(count);
    let usual = (middle.peers >= COMPARED).then_some(middle.usual);
    let times = usual.filter(|usual| *usual > 0.0).map(|usual| middle.figure / usual);
    let bounded = own.iter().any(|pair| pairs[*pair].bounded > 0.0);
    let row = json!({
        "metric": best.of.metric, "scope": best.of.scope, "side": best.of.side, "place": place(&best.of),
        "figure": middle.figure, "usual": usual, "times": times,
        "lost": counted("loss"), "lower_bound": bounded.then_some(true), "retransmitted": counted(RETRANSMITTED),
        "bad_pairs": best.of.bad_pairs, "pairs": best.of.pairs, "z": best.of.hop_z, "job": job,
        "or": (!same.is_empty()).then(|| same.join("; ")), "score": score,
    });
    match row {
        Value::Object(row) => row,
        _ => Row::new(),
    }
}

/// Name of the hop with its direction.
fn place(pair: &Pair) -> String {
    let side = if pair.side.is_empty() { String::new() } else { format!("{} ", pair.side) };
    format!("{side}{}", pair.hop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hop: scope, breadth, name, bad pairs and all pairs.
    type HopOfPair = (&'static str, u32, &'static str, u32, u32);

    /// Bad pairs, named `0 → 1`, at their hops.
    fn rows(pairs: &[(&str, &str, &[HopOfPair])]) -> Vec<Row> {
        let row = |src: &str, dst: &str, hop: &HopOfPair| {
            let (scope, breadth, name, bad, all) = hop;
            let value = json!({
                "metric": "loss", "scope": scope, "breadth": breadth, "side": "to", "hop": name, "bad_pairs": bad.to_string(),
                "pairs": all, "hop_z": 12.5, "job": "j", "direction": null, "src": src, "dst": dst, "readings": 60,
                "weight": "10.0", "bounded": 0, "peers": 4, "figure": 0.01, "usual": 0.0, "z": 13, "score": 1,
            });
            value.as_object().unwrap().clone()
        };
        pairs.iter().flat_map(|(src, dst, hops)| hops.iter().map(|hop| row(src, dst, hop))).collect()
    }

    fn places(answers: &[Row]) -> Vec<&str> {
        answers.iter().map(|row| row["place"].as_str().unwrap()).collect()
    }

    #[test]
    fn one_link_explains_what_its_host_and_senders_do_not() {
        let hops = |sender: &'static str| {
            [("link", 1, "b eth0", 2, 2), ("host", 2, "b", 2, 8), ("link", 1, sender, 1, 2)]
        };
        let (one, two) = (hops("a eth0"), hops("c eth0"));
        let answers = explain(rows(&[("a", "b", &one), ("c", "b", &two)])).unwrap().rows;
        assert_eq!(places(&answers), ["to b eth0"]);
        assert_eq!((&answers[0]["bad_pairs"], &answers[0]["lost"]), (&json!(2.0), &json!(20.0)));
        assert_eq!(answers[0]["or"], Value::Null);
    }

    #[test]
    fn two_faults_are_two_hops_the_greater_first() {
        let (one, two) = ([("link", 1, "x", 1, 1)], [("switch", 3, "s", 2, 2)]);
        let answers = explain(rows(&[("a", "b", &one), ("c", "d", &two), ("e", "f", &two)])).unwrap();
        assert_eq!((places(&answers.rows), answers.is_smallest), (vec!["to s", "to x"], true));
    }

    /// The switch explains most at first; the two links explain what is left, and all of the switch's pairs besides.
    #[test]
    fn a_hop_that_later_ones_explain_is_left_out() {
        let (x, y, s) = (("link", 1, "x", 3, 3), ("link", 1, "y", 3, 3), ("switch", 3, "s", 4, 4));
        let [both_x, both_y] = [[x, s], [y, s]];
        let (only_x, only_y) = ([x], [y]);
        let answers = explain(rows(&[
            ("a", "b", &both_x),
            ("c", "b", &both_x),
            ("e", "d", &both_y),
            ("g", "d", &both_y),
            ("a", "h", &only_x),
            ("e", "h", &only_y),
        ]));
        assert_eq!(places(&answers.unwrap().rows), ["to x", "to y"]);
    }

    /// The greedy choice begins with the six pairs of a switch, and needs three hops, none of them superfluous. Two
    /// links explain all pairs.
    #[test]
    fn two_hops_are_found_where_the_greedy_choice_takes_three() {
        let (x, y) = (("link", 1, "x", 5, 5), ("link", 1, "y", 5, 5));
        let (s, t) = (("switch", 3, "s", 6, 6), ("path", 4, "t", 3, 3));
        let (x_s, y_s, x_t, y_t, only_y) = ([x, s], [y, s], [x, t], [y, t], [y]);
        let all: [(&str, &str, &[HopOfPair]); 10] = [
            ("a", "x", &x_s),
            ("b", "x", &x_s),
            ("c", "x", &x_s),
            ("a", "y", &y_s),
            ("b", "y", &y_s),
            ("c", "y", &y_s),
            ("d", "x", &x_t),
            ("e", "x", &x_t),
            ("d", "y", &y_t),
            ("e", "y", &only_y),
        ];
        assert_eq!(places(&explain(rows(&all)).unwrap().rows), ["to x", "to y"]);
        // A link of which most pairs lose nothing explains less: its pairs stay with the hops that lose at all of them.
        let worse = ("link", 1, "x", 5, 20);
        let (worse_s, worse_t) = ([worse, s], [worse, t]);
        let mut all = all;
        for (at, hops) in [(0, &worse_s), (1, &worse_s), (2, &worse_s), (6, &worse_t), (7, &worse_t)] {
            all[at].2 = hops;
        }
        assert_eq!(places(&explain(rows(&all)).unwrap().rows), ["to s", "to t", "to y"]);
    }

    #[test]
    fn losses_come_before_retransmissions_which_are_not_counted_as_lost() {
        let (resent, lost) = ([("link", 1, "x", 1, 1)], [("link", 1, "y", 1, 1)]);
        let mut all = rows(&[("a", "b", &resent), ("c", "d", &lost)]);
        all[0].extend(
            [("metric", json!(RETRANSMITTED)), ("weight", json!(4_050))]
                .map(|(name, of)| (name.to_owned(), of)),
        );
        let answers = explain(all).unwrap().rows;
        assert_eq!(places(&answers), ["to y", "to x"]);
        assert_eq!((&answers[0]["lost"], &answers[0]["retransmitted"]), (&json!(10.0), &Value::Null));
        assert_eq!((&answers[1]["lost"], &answers[1]["retransmitted"]), (&Value::Null, &json!(4_050.0)));
    }

    #[test]
    fn hops_that_the_pairs_cannot_separate_are_named_together() {
        let hops = [("host", 2, "b", 1, 1), ("link", 1, "b eth0", 1, 1), ("switch", 3, "s", 1, 4)];
        let answers = explain(rows(&[("a", "b", &hops)])).unwrap().rows;
        assert_eq!(places(&answers), ["to b eth0"]);
        assert_eq!(answers[0]["or"], json!("host to b"));
    }

    #[test]
    fn nothing_bad_is_no_answer_and_a_row_without_its_fields_an_error() {
        assert!(explain(Vec::new()).unwrap().rows.is_empty());
        assert!(explain(vec![Row::new()]).is_err());
    }
}
