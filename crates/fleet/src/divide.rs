// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes into shards of about the same size. A shard holds volumes of one node, or volumes that any node can open.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::list::Item;

/// What a volume costs whatever its size, in bytes: starting a check and writing a record.
const COST_OF_ONE: u64 = 64 << 20;

/// Volumes that one worker checks, one after the other, in the order of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The only node that can open them.
    pub node: Option<String>,
    /// The volumes.
    pub items: Vec<Item>,
}

impl Shard {
    /// Bytes, as far as the list says.
    pub fn bytes(&self) -> u64 {
        self.items.iter().fold(0, |sum, item| sum.saturating_add(item.size.unwrap_or(0)))
    }
}

/// Divides `items` into `count` shards, or one for each node where there are more of those. No shard is empty.
pub fn divide(items: Vec<Item>, count: usize) -> Vec<Shard> {
    let default = usual_size(&items);
    let weight = |item: &Item| item.size.unwrap_or(default).saturating_add(COST_OF_ONE);
    let mut groups: BTreeMap<Option<String>, Vec<Item>> = BTreeMap::new();
    for item in items {
        groups.entry(item.node.clone()).or_default().push(item);
    }
    let sizes: Vec<(u64, usize)> = groups
        .values()
        .map(|group| (group.iter().map(weight).fold(0, u64::saturating_add), group.len()))
        .collect();
    let counts = shares(&sizes, count);
    let divided = groups.into_iter().zip(counts);
    divided
        .flat_map(|((node, group), count)| {
            let parts = balanced(group, count, weight);
            parts.into_iter().map(move |items| Shard { node: node.clone(), items })
        })
        .collect()
}

/// The size that is assumed of volumes whose size is not known: the mean of the others.
fn usual_size(items: &[Item]) -> u64 {
    let known: Vec<u64> = items.iter().filter_map(|item| item.size).collect();
    let sum: u128 = known.iter().map(|size| u128::from(*size)).sum();
    u64::try_from(sum / (known.len() as u128).max(1)).unwrap_or(u64::MAX)
}

/// How many of `count` shards each group gets: one at least, no more than it has volumes, and the next one where shards are largest.
fn shares(groups: &[(u64, usize)], count: usize) -> Vec<usize> {
    let mut shares = vec![1; groups.len()];
    let per_shard = |at: usize, share: usize| groups[at].0 / share as u64;
    let mut largest: BinaryHeap<(u64, Reverse<usize>)> =
        (0..groups.len()).filter(|at| groups[*at].1 > 1).map(|at| (per_shard(at, 1), Reverse(at))).collect();
    for _ in groups.len()..count {
        let Some((_, Reverse(at))) = largest.pop() else { break };
        shares[at] += 1;
        if shares[at] < groups[at].1 {
            largest.push((per_shard(at, shares[at]), Reverse(at)));
        }
    }
    shares
}

/// The largest volume first, always to the shard that has least.
fn balanced(items: Vec<Item>, count: usize, weight: impl Fn(&Item) -> u64) -> Vec<Vec<Item>> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|at| Reverse(weight(&items[*at])));
    let mut loads: BinaryHeap<Reverse<(u64, usize, usize)>> =
        (0..count.max(1)).map(|shard| Reverse((0, 0, shard))).collect();
    let mut shard_of = vec![0; items.len()];
    for at in order {
        let Some(Reverse((load, volumes, shard))) = loads.pop() else { break };
        shard_of[at] = shard;
        loads.push(Reverse((load.saturating_add(weight(&items[at])), volumes + 1, shard)));
    }
    let mut shards = vec![Vec::new(); count.max(1)];
    for (item, shard) in items.into_iter().zip(shard_of) {
        shards[shard].push(item);
    }
    shards.retain(|shard| !shard.is_empty());
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn item(number: usize, size: Option<u64>, node: Option<&str>) -> Item {
        Item {
            id: format!("v{number}"),
            target: format!("/v{number}"),
            size,
            partition: None,
            node: node.map(str::to_owned),
            options: crate::Choices::default(),
        }
    }

    #[test]
    fn one_huge_volume_does_not_drag_others_along() {
        let sizes = [18 * GIB, GIB, GIB, GIB, GIB, GIB, GIB];
        let items = sizes.iter().enumerate().map(|(number, size)| item(number, Some(*size), None)).collect();
        let shards = divide(items, 3);
        let counts: Vec<usize> = shards.iter().map(|shard| shard.items.len()).collect();
        assert_eq!(counts, [1, 3, 3]);
        assert_eq!(shards[0].bytes(), 18 * GIB);
    }

    #[test]
    fn shards_keep_to_nodes_and_every_volume_is_in_one() {
        let nodes = [Some("a"), Some("b"), None];
        let items: Vec<Item> =
            (0..100).map(|number| item(number, Some(number as u64 * GIB), nodes[number % 3])).collect();
        for count in [1, 3, 10, 1000] {
            let shards = divide(items.clone(), count);
            assert_eq!(shards.len(), count.clamp(3, 100), "{count}");
            assert!(shards.iter().all(|shard| shard.items.iter().all(|item| item.node == shard.node)));
            let mut all: Vec<&str> =
                shards.iter().flat_map(|shard| &shard.items).map(|item| item.id.as_str()).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 100);
        }
    }

    #[test]
    fn volumes_without_a_size_are_spread_evenly() {
        let items = (0..90).map(|number| item(number, None, None)).collect();
        assert!(divide(items, 9).iter().all(|shard| shard.items.len() == 10));
        assert!(divide(Vec::new(), 9).is_empty());
        let absurd = vec![item(0, Some(u64::MAX), None), item(1, Some(u64::MAX), None)];
        assert_eq!(divide(absurd, 2).len(), 2);
    }
}
