//! What the rules have to know of the commands.

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
    /// It is a subcommand itself.
    pub is_inner: bool,
}

/// All commands under their own names, whatever they are called now.
pub trait CommandCatalog {
    /// How many commands and subcommands there are.
    fn count(&self) -> usize;

    /// The command of this full name, in whatever case.
    fn find(&self, full_name: &[u8]) -> Option<CommandNumber>;

    /// The commands of a category, in whatever case, without `@`; None: there is no such category.
    fn of_category(&self, category: &[u8]) -> Option<Vec<CommandNumber>>;
}
