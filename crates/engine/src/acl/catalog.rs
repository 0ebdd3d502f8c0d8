//! Commands as the rules see them: numbers, names and categories.

use std::ops::Range;

/// A command, or a subcommand of one.
#[derive(Clone, Debug)]
pub struct CommandNumber {
    /// Its number among all commands and subcommands.
    pub id: usize,
    /// `container|subcommand`, or the name, in lower case.
    pub full_name: String,
    /// The numbers of its subcommands.
    pub subcommands: Range<usize>,
    /// Whether it is a subcommand.
    pub is_inner: bool,
}

/// All commands under their own names, whatever they are called now.
pub trait CommandCatalog {
    /// Returns how many commands and subcommands there are.
    fn count(&self) -> usize;

    /// Returns the command of this full name, in whatever case.
    fn find(&self, full_name: &[u8]) -> Option<CommandNumber>;

    /// Returns the commands of a category, given in any case and without `@`; None: there is no such category.
    fn of_category(&self, category: &[u8]) -> Option<Vec<CommandNumber>>;
}
