//! The shape of a traffic matrix, when it is clear enough to say.

use super::facts::traffic::Cell;
use crate::sample::Address;
use crate::util::definition::definitions;

definitions! {
    EDGE_SHARE: f64 = 0.1,
        "Minimum bytes of a pair of hosts over those of the largest, for it to count in the shape of a traffic matrix",
        "The rest is set-up and control";
    EVEN_SHARE: f64 = 0.25,
        "In an all-to-all, minimum bytes of the smallest pair over those of the largest",
        "Collectives share data evenly";
}

/// Hosts up to which a shape is looked for.
const MAX_HOSTS: usize = 1024;

/// Number of different hosts.
pub(super) fn hosts(matrix: &[Cell]) -> u64 {
    names(matrix.iter()).iter().filter(|host| !host.is_multicast()).count() as u64
}

fn names<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<Address> {
    let mut hosts: Vec<Address> = cells.flat_map(|cell| [cell.src, cell.dst]).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// `pairs`, `ring`, `all_to_all` or `tree`; `None` when it is none of these, or only a part is in sight.
///
/// One host's own link shows its neighbours only: in a ring a chain of three, which has no name.
pub(super) fn shape(matrix: &[Cell]) -> Option<&'static str> {
    let most = matrix.iter().map(|cell| cell.data_bytes).max().filter(|most| *most > 0)?;
    let strong: Vec<&Cell> =
        matrix.iter().filter(|cell| cell.data_bytes as f64 >= EDGE_SHARE * most as f64).collect();
    let hosts = names(strong.iter().copied());
    if hosts.len() > MAX_HOSTS {
        return None;
    }
    let number = |host: Address| hosts.binary_search(&host).unwrap_or(0);
    let mut edges: Vec<(usize, usize)> =
        strong.iter().map(|cell| (number(cell.src), number(cell.dst))).collect();
    edges.retain(|(src, dst)| src != dst);
    edges.sort_unstable();
    edges.dedup();
    let mut links: Vec<(usize, usize)> = edges.iter().map(|(a, b)| (*a.min(b), *a.max(b))).collect();
    links.sort_unstable();
    links.dedup();
    let n = hosts.len();
    let degree = |host: usize| links.iter().filter(|(a, b)| *a == host || *b == host).count();
    let parts = components(n, &links);
    if links.is_empty() {
        None
    } else if (0..n).all(|host| degree(host) == 1) {
        Some("pairs")
    } else if n < 3 || parts != 1 {
        None
    } else if (0..n).any(|host| edges.iter().all(|(a, b)| *a == host || *b == host)) {
        // All pairs include one host: the traffic among the others is not visible.
        None
    } else if edges.len() == n * (n - 1) {
        let least = strong.iter().map(|cell| cell.data_bytes).min().unwrap_or(0);
        (least as f64 >= EVEN_SHARE * most as f64).then_some("all_to_all")
    } else if (0..n).all(|host| degree(host) == 2) && one_way(&edges) {
        Some("ring")
    } else if links.len() == n - 1 && n > 3 && edges.len() == 2 * links.len() {
        Some("tree")
    } else {
        None
    }
}

/// Every host sends to as many as it receives from: a ring turns one way, or both.
fn one_way(edges: &[(usize, usize)]) -> bool {
    edges.iter().all(|(src, _)| {
        let (out, back) =
            (edges.iter().filter(|(s, _)| s == src).count(), edges.iter().filter(|(_, d)| d == src).count());
        out == back
    })
}

fn components(hosts: usize, links: &[(usize, usize)]) -> usize {
    let mut part: Vec<usize> = (0..hosts).collect();
    // Each round carries the smallest number one link further: at most as many rounds as hosts.
    for _ in 0..hosts {
        let mut changed = false;
        for (a, b) in links {
            let least = part.get(*a).copied().unwrap_or(0).min(part.get(*b).copied().unwrap_or(0));
            for host in [*a, *b] {
                if let Some(own) = part.get_mut(host)
                    && *own != least
                {
                    *own = least;
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    part.iter().enumerate().filter(|(host, own)| host == *own).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(edges: &[(u8, u8, u64)]) -> Vec<Cell> {
        let ip = |host: u8| Address::from([10, 0, 0, host]);
        (edges.iter())
            .map(|(src, dst, data_bytes)| Cell {
                src: ip(*src),
                dst: ip(*dst),
                packets: 1,
                bytes: *data_bytes,
                data_bytes: *data_bytes,
            })
            .collect()
    }

    #[test]
    fn shapes() {
        let ring = cells(&[(1, 2, 100), (2, 3, 100), (3, 4, 99), (4, 1, 100), (2, 1, 2)]);
        assert_eq!((shape(&ring), hosts(&ring)), (Some("ring"), 4));
        assert_eq!(shape(&cells(&[(1, 2, 100), (2, 3, 100), (3, 1, 90)])), Some("ring"));
        assert_eq!(shape(&cells(&[(1, 2, 100), (3, 4, 100), (4, 3, 80)])), Some("pairs"));
        let all: Vec<(u8, u8, u64)> =
            (1..5).flat_map(|a| (1..5).filter(move |b| *b != a).map(move |b| (a, b, 100))).collect();
        assert_eq!(shape(&cells(&all)), Some("all_to_all"));
        let tree = [(1, 2, 9), (2, 1, 9), (1, 3, 9), (3, 1, 9), (3, 4, 9), (4, 3, 9)];
        assert_eq!(shape(&cells(&tree)), Some("tree"));
    }

    #[test]
    fn what_is_not_clear_is_not_said() {
        assert_eq!(shape(&[]), None);
        // A ring as one host sees it.
        assert_eq!(shape(&cells(&[(4, 1, 100), (1, 2, 100)])), None);
        // Two rings.
        // Everything, as one host sees it.
        let star = [(1, 2, 9), (2, 1, 9), (1, 3, 9), (3, 1, 9), (1, 4, 9), (4, 1, 9)];
        assert_eq!(shape(&cells(&star)), None);
        let two = [(1, 2, 9), (2, 3, 9), (3, 1, 9), (4, 5, 9), (5, 6, 9), (6, 4, 9)];
        assert_eq!(shape(&cells(&two)), None);
        // Neither turns one way.
        assert_eq!(shape(&cells(&[(1, 2, 9), (3, 2, 9), (3, 4, 9), (1, 4, 9)])), None);
        assert_eq!(shape(&cells(&[(1, 2, 9), (2, 3, 9), (3, 4, 9), (4, 1, 9), (1, 3, 9)])), None);
    }
}
