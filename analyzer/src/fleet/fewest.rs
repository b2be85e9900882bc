//! A set cover with fewer hops than the greedy one, found by an exhaustive search of bounded size, or the proof that
//! there is none.
//!
//! Pairs that no chain of hops and pairs joins have nothing to do with each other: each group of them is searched by
//! itself.

/// Hops of a greedy set of a group up to which a smaller one is searched.
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

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Smaller {
    /// The hops: those of the greedy set, except in groups for which fewer were found.
    pub(super) hops: Vec<usize>,
    /// No smaller set explains the same pairs as well. False: it is not known.
    pub(super) is_smallest: bool,
}

impl<'a> Search<'a> {
    pub(super) fn new(hops: &'a [&'a [usize]], pairs: usize, worth: &'a dyn Fn(usize, usize) -> f64) -> Self {
        let mut of_pair = vec![Vec::new(); pairs];
        for (hop, of_hop) in hops.iter().enumerate() {
            of_hop.iter().for_each(|pair| of_pair[*pair].push(hop));
        }
        Self { hops, worth, of_pair, looked_at: 0 }
    }

    /// A set that explains each pair which `greedy` explains, those of a group together as well as that or better, with
    /// as few hops as were found.
    pub(super) fn smaller(&mut self, greedy: &[usize]) -> Smaller {
        let mut groups = self.groups(greedy);
        groups.sort_by_key(Vec::len);
        let mut all = Smaller { hops: Vec::new(), is_smallest: true };
        for group in groups {
            let (fewer, is_smallest) = self.of_group(&group);
            all.hops.extend(fewer.unwrap_or(group));
            all.is_smallest &= is_smallest;
        }
        all
    }

    /// The hops of a greedy set by group.
    fn groups(&self, greedy: &[usize]) -> Vec<Vec<usize>> {
        let mut group_of: Vec<Option<usize>> = vec![None; self.hops.len()];
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for first in greedy {
            let group = *group_of[*first].get_or_insert(groups.len());
            if let Some(known) = groups.get_mut(group) {
                known.push(*first);
                continue;
            }
            groups.push(vec![*first]);
            let mut next = vec![*first];
            while let Some(hop) = next.pop() {
                for joined in self.hops[hop].iter().flat_map(|pair| &self.of_pair[*pair]) {
                    if group_of[*joined].is_none() {
                        group_of[*joined] = Some(group);
                        next.push(*joined);
                    }
                }
            }
        }
        groups
    }

    /// Fewer hops for the pairs of a greedy set of one group, and whether no set is smaller than these, or than the
    /// greedy one if there are none.
    fn of_group(&mut self, greedy: &[usize]) -> (Option<Vec<usize>>, bool) {
        let mut is_open = vec![false; self.of_pair.len()];
        greedy.iter().flat_map(|hop| self.hops[*hop]).for_each(|pair| is_open[*pair] = true);
        let open: Vec<usize> = (0..is_open.len()).filter(|pair| is_open[*pair]).collect();
        let bound = self.at_least(&open);
        if bound >= greedy.len() || greedy.len() > MOST_HOPS {
            return (None, bound >= greedy.len());
        }
        // Sums in another order differ in the last bits.
        let least = self.total(greedy, &open) * (1.0 - 1e-9);
        let found = (bound..greedy.len()).find_map(|size| {
            let mut best = None;
            self.visit(&mut Vec::new(), size, &open, least, &mut best);
            best.map(|(_, hops)| hops)
        });
        // Sizes are searched in order, and nothing is found after the last set that is looked at.
        let is_smallest = found.is_some() || self.looked_at < MOST_SETS;
        (found, is_smallest)
    }

    /// Minimum number of hops that explain these pairs: those that share no hop need one each.
    fn at_least(&self, pairs: &[usize]) -> usize {
        let mut pairs = pairs.to_vec();
        // One whose hops have few others excludes few.
        pairs.sort_by_cached_key(|pair| {
            self.of_pair[*pair].iter().map(|hop| self.hops[*hop].len()).sum::<usize>()
        });
        let mut taken = vec![false; self.hops.len()];
        let mut apart = 0;
        for own in pairs.into_iter().map(|pair| &self.of_pair[pair]) {
            if !own.iter().any(|hop| taken[*hop]) {
                for hop in own {
                    taken[*hop] = true;
                }
                apart += 1;
            }
        }
        apart
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

    fn smaller(
        hops: &[&[usize]],
        pairs: usize,
        greedy: &[usize],
        share: &dyn Fn(usize) -> f64,
    ) -> (Vec<usize>, bool) {
        let Smaller { hops, is_smallest } = Search::new(hops, pairs, &|hop, _| share(hop)).smaller(greedy);
        (hops, is_smallest)
    }

    #[test]
    fn a_smaller_set_is_found_unless_it_explains_less() {
        // Two hops of five pairs; the greedy set begins with the first six.
        let hops: &[&[usize]] =
            &[&[0, 1, 2, 5, 6, 7], &[3, 4, 8], &[5, 6, 7, 8, 9], &[0, 1, 2, 3, 4], &[0], &[9, 4]];
        assert_eq!(smaller(hops, 10, &[0, 1, 2], &|_| 1.0), (vec![3, 2], true));
        // The pairs of the smaller set are bad to a smaller share.
        let worse = |hop| if hop == 3 { 0.5 } else { 1.0 };
        assert_eq!(smaller(hops, 10, &[0, 1, 2], &worse), (vec![0, 1, 2], true));
        assert_eq!(smaller(hops, 10, &[3, 2], &|_| 1.0), (vec![3, 2], true), "no hop has all");
        assert_eq!(smaller(hops, 10, &[], &|_| 1.0), (vec![], true));
    }

    #[test]
    fn a_set_of_many_hops_is_the_smallest_if_as_many_pairs_share_none() {
        // Nine links, each with a pair of its own; a switch that has the others of all.
        let mut hops: Vec<Vec<usize>> = (0..9).map(|link| vec![link, 9 + link]).collect();
        hops.push((9..18).collect());
        let hops: Vec<&[usize]> = hops.iter().map(Vec::as_slice).collect();
        let links: Vec<usize> = (0..9).collect();
        assert_eq!(smaller(&hops, 18, &links, &|_| 1.0), (links, true));
        // Each two of three pairs share a hop: two hops explain them, and one pair excludes the others. Six hops that
        // all of them have to do with would be searched, if they were of groups of their own.
        let rings = |joined: bool| {
            let mut hops: Vec<Vec<usize>> = Vec::new();
            for first in [0, 3, 6] {
                hops.extend([(0, 1), (1, 2), (2, 0)].map(|(a, b)| vec![first + a, first + b]));
            }
            if joined {
                hops.push(vec![0, 3, 6]);
            }
            let hops: Vec<&[usize]> = hops.iter().map(Vec::as_slice).collect();
            let (hops, is_smallest) = smaller(&hops, 9, &[0, 1, 3, 4, 6, 7], &|_| 1.0);
            (hops.len(), is_smallest)
        };
        assert_eq!(rings(false), (6, true));
        assert_eq!(rings(true), (6, false), "four do: the three first pairs have a hop of their own");
    }

    /// Compared with all sets, on random problems.
    #[test]
    fn it_finds_a_smaller_set_where_there_is_one() {
        let mut numbers = Random::new(4_791);
        let mut random = |below: usize| numbers.index(below);
        let (mut fewer, mut none, mut large, mut unknown) = (0, 0, 0, 0);
        for round in 0..600 {
            // Every other with small hops, of which many are needed.
            let (pairs, most) = if round % 2 == 0 { (4 + random(5), 2) } else { (9 + random(5), 1) };
            let hops: Vec<Vec<usize>> =
                (0..11).map(|_| (0..pairs).filter(|_| random(5) < most).collect()).collect();
            let hops: Vec<&[usize]> = hops.iter().map(Vec::as_slice).collect();
            let covers = |set: u32| {
                let has =
                    |pair: usize| (0..hops.len()).any(|hop| set >> hop & 1 == 1 && hops[hop].contains(&pair));
                (0..pairs).all(has)
            };
            if !covers(u32::MAX) {
                continue;
            }
            // As the greedy choice makes it.
            let (mut open, mut greedy): (Vec<usize>, Vec<usize>) = ((0..pairs).collect(), Vec::new());
            while !open.is_empty() {
                let gain = |hop: &usize| hops[*hop].iter().filter(|pair| open.contains(pair)).count();
                let best = (0..hops.len()).max_by_key(gain).unwrap();
                open.retain(|pair| !hops[best].contains(pair));
                greedy.push(best);
            }
            let least =
                (0..1u32 << hops.len()).filter(|set| covers(*set)).map(u32::count_ones).min().unwrap();
            let (found, is_smallest) = smaller(&hops, pairs, &greedy, &|_| 1.0);
            assert!(covers(found.iter().fold(0, |set, hop| set | 1 << hop)), "{hops:?} {found:?}");
            let is_least = u32::try_from(found.len()).unwrap() == least;
            assert!(is_least || !is_smallest, "{hops:?} {found:?}");
            assert!(is_smallest || greedy.len() > MOST_HOPS, "{hops:?} {found:?}");
            fewer += u32::from(found.len() < greedy.len());
            none += u32::from(is_smallest && found.len() == greedy.len());
            large += u32::from(is_smallest && greedy.len() > MOST_HOPS);
            unknown += u32::from(!is_smallest);
        }
        assert!(fewer > 5 && none > 100 && large > 5 && unknown > 5, "{fewer} {none} {large} {unknown}");
    }
}
