//! The table of `sentinel` lines: reading follows it, and the page docs/reference/sentinel.md is made from it.

/// Part of the Sentinel that a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The Sentinel itself; read before any primary.
    Own,
    /// A new primary.
    Monitor,
    /// A primary that an earlier line has named.
    Primary,
}

/// A `sentinel` line of the configuration file.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// Word behind `sentinel`.
    pub name: &'static str,
    /// Older word for the same.
    pub alias: Option<&'static str>,
    /// Part of the Sentinel that it is about.
    pub scope: Scope,
    /// Words behind the name; those in brackets may be left out.
    pub syntax: &'static str,
    /// One or two sentences.
    pub meaning: &'static str,
    /// Value without the line; empty if there is none.
    pub default: &'static str,
    /// Command that changes the setting; None for state that the Sentinel writes, and for settings of the start.
    pub changed_by: Option<&'static str>,
    /// Whether the Sentinel writes the line for itself.
    pub is_state: bool,
}

impl Statement {
    /// Returns whether this is the line's name, in small letters.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }

    /// Returns whether so many words may be behind the name.
    pub fn takes(&self, words: usize) -> bool {
        let optional = self.syntax.split(' ').filter(|word| word.starts_with('[')).count();
        let most = self.syntax.split(' ').count();
        (most - optional..=most).contains(&words)
    }

    const fn by(mut self, command: &'static str) -> Statement {
        self.changed_by = Some(command);
        self
    }

    const fn default(mut self, value: &'static str) -> Statement {
        self.default = value;
        self
    }

    const fn alias(mut self, alias: &'static str) -> Statement {
        self.alias = Some(alias);
        self
    }

    const fn state(mut self) -> Statement {
        self.is_state = true;
        self
    }
}

const fn own(name: &'static str, syntax: &'static str, meaning: &'static str) -> Statement {
    let (alias, scope, default, changed_by, is_state) = (None, Scope::Own, "", None, false);
    Statement { name, alias, scope, syntax, meaning, default, changed_by, is_state }
}

const fn of_primary(name: &'static str, syntax: &'static str, meaning: &'static str) -> Statement {
    Statement { scope: Scope::Primary, ..own(name, syntax, meaning) }
}

const SET: &str = "SENTINEL SET";
const CONFIG_SET: &str = "SENTINEL CONFIG SET";

/// All lines.
pub const STATEMENTS: &[Statement] = &[
    Statement {
        scope: Scope::Monitor,
        ..own(
            "monitor",
            "name host port quorum",
            "Watches a primary by this name. So many Sentinels have to agree that it is down before one of them fails over.",
        )
    }
    .by("SENTINEL MONITOR, REMOVE and SET quorum"),
    of_primary(
        "auth-user",
        "name user",
        "User by which the Sentinel logs in at the primary and its replicas; without it the default user.",
    )
    .by(SET),
    of_primary("auth-pass", "name password", "Password for the primary and its replicas.").by(SET),
    of_primary(
        "down-after-milliseconds",
        "name milliseconds",
        "Time without a valid reply after which a server or a Sentinel of the group counts as down.",
    )
    .default("30000")
    .by(SET),
    of_primary(
        "failover-timeout",
        "name milliseconds",
        "Time for each step of a failover. Twice this time passes before the same primary is failed over again.",
    )
    .default("180000")
    .by(SET),
    of_primary(
        "parallel-syncs",
        "name number",
        "Replicas that are sent to a new primary at the same time after a failover.",
    )
    .default("1")
    .by(SET),
    of_primary(
        "primary-reboot-down-after-period",
        "name milliseconds",
        "Time for which a primary that has restarted may load before it counts as down; 0 for no such rule.",
    )
    .alias("master-reboot-down-after-period")
    .default("0")
    .by(SET),
    of_primary("notification-script", "name path", "Program that is run for each event of warning level.").by(SET),
    of_primary("client-reconfig-script", "name path", "Program that is run when the primary changes.").by(SET),
    of_primary(
        "rename-command",
        "name command new-name",
        "Name of a command at servers that have it renamed.",
    )
    .by(SET),
    own("announce-ip", "address", "Address that other Sentinels are told of; without it that of the connection.")
        .by(CONFIG_SET),
    own("announce-port", "port", "Port that other Sentinels are told of; 0 for that of the Sentinel.")
        .default("0")
        .by(CONFIG_SET),
    own("resolve-hostnames", "yes|no", "Accepts host names in the place of addresses.").default("no").by(CONFIG_SET),
    own("announce-hostnames", "yes|no", "Tells clients host names instead of addresses, where they are known.")
        .default("no")
        .by(CONFIG_SET),
    own("sentinel-user", "user", "User by which the Sentinel logs in at other Sentinels.").by(CONFIG_SET),
    own(
        "sentinel-pass",
        "password",
        "Password by which the Sentinel logs in at other Sentinels; without it its own `requirepass`.",
    )
    .by(CONFIG_SET),
    own("deny-scripts-reconfig", "yes|no", "Refuses changes of the scripts by SENTINEL SET.").default("yes"),
    own("myid", "id", "Name of this Sentinel, 40 characters.").state(),
    own("current-epoch", "number", "Number of the latest vote.").state(),
    of_primary("config-epoch", "name number", "Number of the failover that made the present primary.").state(),
    of_primary("leader-epoch", "name number", "Number of the last vote of this Sentinel about the primary.").state(),
    of_primary("known-replica", "name host port", "Replica of the primary.").alias("known-slave").state(),
    of_primary("known-sentinel", "name host port [id]", "Another Sentinel that watches the primary.").state(),
];

/// Returns the line of a name in small letters.
pub fn statement_named(name: &str) -> Option<&'static Statement> {
    STATEMENTS.iter().find(|statement| statement.is_called(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_may_be_left_out_are_not_needed() {
        let known = statement_named("known-sentinel").unwrap();
        assert_eq!([2, 3, 4, 5].map(|words| known.takes(words)), [false, true, true, false]);
        assert!(statement_named("known-slave").is_some_and(|it| it.name == "known-replica"));
    }
}
