//! Makes a failing history short.
//!
//! Only the last item shows the failure; the ones before it made the state in which it does. So the last item stays,
//! and of those before it as few as possible:
//!
//! 1. the shortest suffix of the history that still fails, among lengths 1, 2, 4, 8 ... (most failures need little);
//! 2. delta debugging on it: cut out chunks of half its length, then of a quarter, down to single items, for as long
//!    as anything could be cut.
//!
//! Each trial replays a history on real servers, so their number is limited; the shortest history so far is returned.

/// The shortest history found that still fails. `fails` must be true of the whole of `items`.
pub fn shrink<T: Clone>(items: &[T], trials_max: usize, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut trials_left = trials_max;
    let mut attempt = |candidate: &[T]| {
        if trials_left == 0 {
            return false;
        }
        trials_left -= 1;
        fails(candidate)
    };
    let mut shortest = shortest_suffix(items, &mut attempt);
    let mut chunk = shortest.len().saturating_sub(1).div_ceil(2);
    while chunk > 0 {
        let cut = cut_chunks(&mut shortest, chunk, &mut attempt);
        if chunk > 1 {
            chunk = chunk.div_ceil(2);
        } else if !cut {
            break;
        }
    }
    shortest
}

fn shortest_suffix<T: Clone>(items: &[T], fails: &mut impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut length = 1;
    while length < items.len() {
        let suffix = &items[items.len() - length..];
        if fails(suffix) {
            return suffix.to_vec();
        }
        length *= 2;
    }
    items.to_vec()
}

/// Cuts chunks out of all but the last item, latest first: what happened long ago matters least, but what is late
/// was more often the cause of nothing. True if any was cut.
fn cut_chunks<T: Clone>(items: &mut Vec<T>, chunk: usize, fails: &mut impl FnMut(&[T]) -> bool) -> bool {
    let mut any = false;
    let mut end = items.len() - 1;
    while end > 0 {
        let start = end.saturating_sub(chunk);
        let mut candidate = items[..start].to_vec();
        candidate.extend_from_slice(&items[end..]);
        if fails(&candidate) {
            *items = candidate;
            any = true;
        }
        end = start;
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails when all of `needed` occur in this order, the last of them at the end.
    fn needs<'a>(needed: &'a [u32]) -> impl Fn(&[u32]) -> bool + 'a {
        move |history| {
            let mut rest = history.iter();
            history.last() == needed.last() && needed.iter().all(|n| rest.any(|h| h == n))
        }
    }

    #[test]
    fn finds_exactly_what_is_needed() {
        let history: Vec<u32> = (0..1000).collect();
        for needed in [vec![999], vec![998, 999], vec![0, 999], vec![3, 500, 501, 997, 999], vec![0, 1, 2, 3, 999]] {
            assert_eq!(shrink(&history, 10_000, needs(&needed)), needed);
        }
    }

    #[test]
    fn a_failure_of_the_last_item_alone_takes_one_trial() {
        let mut trials = 0;
        let found = shrink(&[1, 2, 3, 4], 100, |_| {
            trials += 1;
            true
        });
        assert_eq!((found, trials), (vec![4], 1));
    }

    #[test]
    fn the_result_fails_even_when_trials_run_out() {
        let history: Vec<u32> = (0..1000).collect();
        let needed = [3, 500, 999];
        for trials_max in 0..60 {
            let mut trials = 0;
            let found = shrink(&history, trials_max, |candidate| {
                trials += 1;
                needs(&needed)(candidate)
            });
            assert!(needs(&needed)(&found), "{trials_max} trials");
            assert!(trials <= trials_max);
        }
    }

    #[test]
    fn items_that_only_fail_together_are_kept_together() {
        let history: Vec<u32> = (0..64).collect();
        let found = shrink(&history, 10_000, |h| {
            h.contains(&10) == h.contains(&11) && h.contains(&12) && h.last() == Some(&63)
        });
        assert!(found.len() <= 4, "{found:?}");
        assert!(found.contains(&12) && found.contains(&63));
    }
}
