//! History of a replica's data, beside that of its primary.

/// Relation of a replica's data to its primary's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataHistory {
    /// The data is a part of the primary's history.
    #[default]
    Primary,
    /// The node has led itself, and has not been synchronized with its successor: its data may be no part of the
    /// primary's history.
    Own,
    /// The data is of another primary's history.
    Other,
}

impl DataHistory {
    /// Returns its number in `nodes.conf`.
    pub fn number(self) -> u64 {
        match self {
            DataHistory::Primary => 0,
            DataHistory::Other => 1,
            DataHistory::Own => 2,
        }
    }

    /// Returns the history of a number in `nodes.conf`.
    pub fn of_number(number: u64) -> DataHistory {
        match number {
            0 => DataHistory::Primary,
            2 => DataHistory::Own,
            _ => DataHistory::Other,
        }
    }
}
