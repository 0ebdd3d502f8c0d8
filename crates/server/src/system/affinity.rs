//! The processors that a thread may run on, and the kinds of pages that the process gets: `server-cpulist`,
//! `bio-cpulist`, `bgsave-cpulist`, `aof-rewrite-cpulist` and `disable-thp`.
//!
//! A thread has the processors of the one that made it until it asks for others. A refusal by the system leaves all as
//! it is: the server works on other processors, too.

use crate::system::log;
use engine::config::{Config, Directive};
use rustix::thread::{CpuSet, disable_transparent_huge_pages, sched_setaffinity};
use std::fs::read_to_string;

/// Pins the calling thread to the processors that `directive` lists, if it lists any.
pub fn pin(config: &Config, directive: Directive) {
    let list = config.text(directive);
    if list.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    parse(list).unwrap_or_default().into_iter().for_each(|cpu| set.set(cpu));
    if set.count() == 0 || sched_setaffinity(None, &set).is_err() {
        let list = String::from_utf8_lossy(list);
        log::warning(format_args!("Can't keep a thread on the processors '{list}': it runs on any"));
    }
}

/// Parses `0,2,4-6,8-14:2`: single processors, and ranges with a step.
fn parse(list: &[u8]) -> Option<Vec<usize>> {
    let number = |text: &str| text.parse().ok().filter(|cpu| *cpu < CpuSet::MAX_CPU);
    let mut cpus = Vec::new();
    for part in std::str::from_utf8(list).ok()?.split(',') {
        let (range, step) = part.split_once(':').map_or((part, Some(1)), |(range, step)| (range, number(step)));
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(range)?, number(range)?),
        };
        cpus.extend((first.min(last)..=first.max(last)).step_by(step.filter(|step| *step > 0)?));
    }
    Some(cpus)
}

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Switches huge pages off for this process if the configuration says so, also when the system gives them to everybody.
pub fn choose_pages(config: &Config) {
    let for_all = read_to_string(HUGE_PAGES).is_ok_and(|ways| ways.contains("[always]"));
    if for_all
        && config.flag(Directive::DISABLE_THP)
        && let Err(error) = disable_transparent_huge_pages(true)
    {
        log::warning(format_args!("Can't do without transparent huge pages: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::config::ConfigStore;
    use rustix::thread::sched_getaffinity;

    #[test]
    fn lists_have_numbers_and_ranges_with_steps() {
        for (list, cpus) in [
            ("0", Some(vec![0])),
            ("0,2-4", Some(vec![0, 2, 3, 4])),
            ("1-7:3,9", Some(vec![1, 4, 7, 9])),
            ("3-1", Some(vec![1, 2, 3])),
            ("", None),
            ("x", None),
            ("1-", None),
            ("1-2:0", None),
            ("0-99999999", None),
        ] {
            assert_eq!(parse(list.as_bytes()), cpus, "{list}");
        }
    }

    #[test]
    fn a_thread_stays_on_its_processors() {
        std::thread::spawn(|| {
            let all = sched_getaffinity(None).unwrap();
            let last = (0..CpuSet::MAX_CPU).rfind(|cpu| all.is_set(*cpu)).unwrap();
            let store = ConfigStore::new(Config::default());
            pin(&store.snapshot(), Directive::BIO_CPULIST);
            assert_eq!(sched_getaffinity(None).unwrap().count(), all.count());
            store.update(|config| config.set_text(Directive::BIO_CPULIST, last.to_string().as_bytes()));
            pin(&store.snapshot(), Directive::BIO_CPULIST);
            let own = sched_getaffinity(None).unwrap();
            assert!(own.count() == 1 && own.is_set(last));
        })
        .join()
        .unwrap();
    }
}
