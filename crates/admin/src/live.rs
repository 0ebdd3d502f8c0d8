//! The numbers of the page as plain data, and as JSON.
//!
//! All counters are of all time: the page computes rates as the difference of two answers.
//!
//! ```text
//! { "now": 1753430400000, "user": "ada", "may": ["scan", ..], "reasons": ["loading"],
//!   "info": { "used_memory": "1048576", .. }, "errors": { "WRONGTYPE": 3, .. },
//!   "commands": { "get": { "calls": 5, "nanos": 900, .., "p50": 200, .., "steps": [[1031, 5]] } },
//!   "workers": [ { "busy_seconds_total": 7.5, .., "steps": [[1031, 2]] } ] }
//! ```

use serde_json::{Map, Value, json};

/// Everything that the page shows without asking a worker.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Unix time in milliseconds.
    pub now: i64,
    /// The user who views it; None where commands would have no user.
    pub user: Option<String>,
    /// The page's commands that this user may run.
    pub may: Vec<&'static str>,
    /// The reasons that clients must not be sent to the server.
    pub reasons: Vec<String>,
    /// Fields of INFO.
    pub info: Vec<(String, String)>,
    /// Error replies by their first word.
    pub errors: Vec<(String, u64)>,
    /// Commands that were called, by name.
    pub commands: Vec<(String, CommandNumbers)>,
    /// Workers in their order.
    pub workers: Vec<WorkerNumbers>,
}

/// One command.
#[derive(Clone, Debug, Default)]
pub struct CommandNumbers {
    /// Completed calls.
    pub calls: u64,
    /// The sum of their run times.
    pub nanos: u64,
    /// Calls that were refused before they ran.
    pub rejected: u64,
    /// Calls that ran and replied an error.
    pub failed: u64,
    /// The nanoseconds that 50, 99 and 99.9 percent of the calls did not exceed.
    pub percentiles: [u64; 3],
    /// Steps of nanoseconds, each with the count of calls that took at most so many, and more than the step before.
    pub steps: Vec<(u64, u64)>,
}

/// One worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerNumbers {
    /// Its metrics by name, without the common part of the names.
    pub numbers: Vec<(&'static str, f64)>,
    /// Steps of nanoseconds, each with the count of turns that took at most so many, and more than the step before.
    pub steps: Vec<(u64, u64)>,
}

impl Live {
    /// Returns the numbers in the page's form.
    pub fn json(&self) -> Value {
        let info: Map<String, Value> = self.info.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let errors: Map<String, Value> = self.errors.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
        let commands: Map<String, Value> =
            self.commands.iter().map(|(name, numbers)| (name.clone(), numbers.json())).collect();
        json!({
            "now": self.now,
            "user": self.user,
            "may": self.may,
            "reasons": self.reasons,
            "info": info,
            "errors": errors,
            "commands": commands,
            "workers": self.workers.iter().map(WorkerNumbers::json).collect::<Vec<Value>>(),
        })
    }
}

impl CommandNumbers {
    fn json(&self) -> Value {
        let CommandNumbers { calls, nanos, rejected, failed, percentiles: [p50, p99, p999], steps } = self;
        json!({
            "calls": calls, "nanos": nanos, "rejected": rejected, "failed": failed,
            "p50": p50, "p99": p99, "p999": p999, "steps": steps,
        })
    }
}

impl WorkerNumbers {
    fn json(&self) -> Value {
        let mut numbers: Map<String, Value> =
            self.numbers.iter().map(|(name, number)| ((*name).to_owned(), json!(number))).collect();
        numbers.insert("steps".to_owned(), json!(self.steps));
        Value::Object(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_reads_names_and_numbers() {
        let get = CommandNumbers { calls: 5, percentiles: [1, 2, 3], steps: vec![(1031, 5)], ..Default::default() };
        let worker = WorkerNumbers { numbers: vec![("ticks_total", 7.5)], steps: vec![(1031, 7)] };
        let live = Live {
            now: 9,
            may: vec!["scan"],
            info: vec![("role".to_owned(), "master".to_owned())],
            errors: vec![("ERR".to_owned(), 2)],
            commands: vec![("get".to_owned(), get)],
            workers: vec![worker],
            ..Live::default()
        };
        assert_eq!(
            live.json(),
            json!({
                "now": 9, "user": null, "may": ["scan"], "reasons": [], "info": {"role": "master"}, "errors": {"ERR": 2},
                "commands": {"get": {"calls": 5, "nanos": 0, "rejected": 0, "failed": 0, "p50": 1, "p99": 2, "p999": 3,
                                     "steps": [[1031, 5]]}},
                "workers": [{"ticks_total": 7.5, "steps": [[1031, 7]]}],
            })
        );
    }
}
