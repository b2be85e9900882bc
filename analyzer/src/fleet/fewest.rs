//! A set cover with fewer hops than the greedy one, found by an exhaustive search of bounded size.

/// Hops of a greedy set up to which a smaller one is searched.
pub(super) const MOST_HOPS: usize = 4;
/// Maximum number of sets that are looked at.
const MOST_SETS: u32 = 200_000;

/// Bad pairs, and the hops that explain them.
pub(super) struct Search<'a> {
    /// Pairs of each hop.
    hops: &'a [&'a [usize]],
    /// Score of a hop as the explanation of a pair.
    worth: &'a dyn Fn(usize, usize) -> f64,
    /// Hops of each pair.
    of_pair: Vec<Vec<usize>>,
    looked_at: u32,
}

impl<'a> Search<'a> {
    pub(super) fn new(hops: &'a [&'a [usize]], pairs: usize, worth: &'a dyn Fn(usize, usize) -> f64) -> Self {
        let mut of_pair = vec![Vec::new(); pairs];
        for (hop, of_hop) in hops.iter().enumerate() {
            of_hop.iter().for_each(|pair| of_pair[*pair].push(hop));
        }
        Self { hops, worth, of_pair, looked_at: 0 }
    }

    /// A smaller set than `greedy` that explains each pair which `greedy` explains, all of them together as well as
    /// that or better. `None`: there is none, or the greedy set has too many hops for a search.
    pub(super) fn fewer(&mut self, greedy: &[usize]) -> Option<Vec<usize>> {
        if greedy.len() > MOST_HOPS {
            return None;
        }
        let mut is_open = vec![false; self.of_pair.len()];
        greedy.iter().flat_map(|hop| self.hops[*hop]).for_each(|pair| is_open[*pair] = true);
        let open: Vec<usize> = (0..is_open.len()).filter(|pair| is_open[*pair]).collect();
        // Sums in another order differ in the last bits.
        let least = self.total(greedy, &open) * (1.0 - 1e-9);
        (1..greedy.len()).find_map(|size| {
            let mut best = None;
            self.visit(&mut Vec::new(), size, &open, least, &mut best);
            best.map(|(_, hops)| hops)
        })
    }

    /// Score of a set of hops as the explanation of these pairs: each counts at the hop that explains it best.
    fn total(&self, hops: &[usize], pairs: &[usize]) -> f64 {
        let at_best = |pair: &usize| {
            let own = self.of_pair[*pair].iter().filter(|hop| hops.contains(hop));
            own.map(|hop| (self.worth)(*hop, *pair)).fold(0.0, f64::max)
        };
        pairs.iter().map(at_best).sum()
    }

    /// Adds hops to `chosen` until `size`. Some hop of every pair must be in the set, so only those of one unexplained
    /// pair are tried: the one with the fewest.
    fn visit(
        &mut self,
        chosen: &mut Vec<usize>,
        size: usize,
        open: &[usize],
        least: f64,
        best: &mut Option<(f64, Vec<usize>)>,
    ) {
        self.looked_at += 1;
        let is_explained = |pair: &usize| self.of_pair[*pair].iter().any(|hop| chosen.contains(hop));
        let unexplained = open.iter().filter(|pair| !is_explained(pair));
        let Some(pair) = unexplained.min_by_key(|pair| self.of_pair[**pair].len()) else {
            let total = self.total(chosen, open);
            if total >= least && best.as_ref().is_none_or(|(most, _)| total > *most) {
                *best = Some((total, chosen.clone()));
            }
            return;
        };
        if chosen.len() == size {
            return;
        }
        for hop in self.of_pair[*pair].clone() {
            if self.looked_at >= MOST_SETS {
                return;
            }
            chosen.push(hop);
            self.visit(chosen, size, open, least, best);
            chosen.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocescope_common::random::Random;

    fn fewer(
        hops: &[&[usize]],
        pairs: usize,
        greedy: &[usize],
        share: &dyn Fn(usize) -> f64,
    ) -> Option<Vec<usize>> {
        Search::new(hops, pairs, &|hop, _| share(hop)).fewer(greedy)
    }

    #[test]
    fn a_smaller_set_is_found_unless_it_explains_less() {
        // Two hops of five pairs; the greedy set begins with the first six.
        let hops: &[&[usize]] =
            &[&[0, 1, 2, 5, 6, 7], &[3, 4, 8], &[5, 6, 7, 8, 9], &[0, 1, 2, 3, 4], &[0], &[9, 4]];
        assert_eq!(fewer(hops, 10, &[0, 1, 2], &|_| 1.0), Some(vec![3, 2]));
        // The pairs of the smaller set are bad to a smaller share.
        assert_eq!(fewer(hops, 10, &[0, 1, 2], &|hop| if hop == 3 { 0.5 } else { 1.0 }), None);
        assert_eq!(fewer(hops, 10, &[3, 2], &|_| 1.0), None, "no hop has all");
        assert_eq!(fewer(hops, 10, &[], &|_| 1.0), None);
    }

    /// Compared with all sets, on random problems.
    #[test]
    fn it_finds_a_smaller_set_where_there_is_one() {
        let mut numbers = Random::new(4_791);
        let mut random = |below: usize| numbers.index(below);
        let (mut smaller, mut none) = (0, 0);
        for _ in 0..300 {
            let pairs = 4 + random(5);
            let hops: Vec<Vec<usize>> =
                (0..9).map(|_| (0..pairs).filter(|_| random(5) < 2).collect()).collect();
            let hops: Vec<&[usize]> = hops.iter().map(Vec::as_slice).collect();
            let covers = |set: u32| {
                let has =
                    |pair: usize| (0..hops.len()).any(|hop| set >> hop & 1 == 1 && hops[hop].contains(&pair));
                (0..pairs).all(has)
            };
            if !covers(u32::MAX) {
                continue;
            }
            // A set of four or less, as the greedy choice makes it.
            let (mut open, mut greedy): (Vec<usize>, Vec<usize>) = ((0..pairs).collect(), Vec::new());
            while !open.is_empty() {
                let gain = |hop: &usize| hops[*hop].iter().filter(|pair| open.contains(pair)).count();
                let best = (0..hops.len()).max_by_key(gain).unwrap();
                open.retain(|pair| !hops[best].contains(pair));
                greedy.push(best);
            }
            if greedy.len() > MOST_HOPS {
                continue;
            }
            let least =
                (0..1u32 << hops.len()).filter(|set| covers(*set)).map(u32::count_ones).min().unwrap();
            let found = fewer(&hops, pairs, &greedy, &|_| 1.0);
            if let Some(found) = &found {
                assert!(covers(found.iter().fold(0, |set, hop| set | 1 << hop)), "{hops:?} {found:?}");
                assert_eq!(u32::try_from(found.len()).unwrap(), least, "{hops:?}");
                smaller += 1;
            } else {
                assert_eq!(u32::try_from(greedy.len()).unwrap(), least, "{hops:?}");
                none += 1;
            }
        }
        assert!(smaller > 5 && none > 100, "{smaller} {none}");
    }
}
