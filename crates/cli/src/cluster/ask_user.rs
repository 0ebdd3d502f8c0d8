//! Questions to the user, answered by lines of standard input.

use std::io::BufRead;

use super::console::Console;

/// Returns whether the user agrees.
pub fn confirm(console: Console, question: &str) -> bool {
    is_yes(console, &format!("{question} (type 'yes' to accept): "))
}

/// Returns whether the answer is yes.
pub fn is_yes(console: Console, prompt: &str) -> bool {
    ask(console, prompt).is_some_and(|answer| answer == "yes")
}

/// Returns the answer; None at the end of the input.
pub fn ask(console: Console, prompt: &str) -> Option<String> {
    console.plain(prompt);
    let mut line = String::new();
    let length = std::io::stdin().lock().read_line(&mut line).unwrap_or(0);
    (length > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}
