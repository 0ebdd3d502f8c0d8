//! The parts of packages that are made from the entries: a configuration file, its manual page, and the words that
//! shells complete.

use super::{configuration_file, default_of, facts, is_up_to_date};
use commands::core::command_table::CommandTable;
use engine::config::{AREAS, DirectiveEntry};
use std::fmt::Write as _;

/// Debian's directories for a service's files. Its unit waits for the server's notification.
const DEBIAN: [(&str, &str); 4] = [
    ("dir", "/var/lib/cinnabar"),
    ("logfile", "/var/log/cinnabar/cinnabar-server.log"),
    ("bind", "127.0.0.1 -::1"),
    ("supervised", "systemd"),
];

#[test]
fn debians_configuration_file_is_up_to_date() {
    let text = configuration_file(&DEBIAN);
    for (name, value) in DEBIAN {
        assert!(text.contains(&format!("\n{name} {value}\n")), "{name} is a directive");
    }
    is_up_to_date("packaging/debian/cinnabar.conf", &text);
}

#[test]
fn the_manual_page_of_the_configuration_file_is_up_to_date() {
    is_up_to_date("packaging/man/cinnabar.conf.5", &manual_page());
}

#[test]
fn words_for_completions_are_up_to_date() {
    is_up_to_date("packaging/completions/commands", &command_words());
    is_up_to_date("packaging/completions/directives", &directive_words());
}

fn shown() -> impl Iterator<Item = &'static DirectiveEntry> {
    AREAS.iter().flat_map(|(_, entries)| entries.iter()).filter(|entry| entry.unsupported.is_none() && !entry.hidden)
}

// ---- cinnabar.conf(5) -----------------------------------------------------------------------------------------------

fn manual_page() -> String {
    let mut page = String::from(
        ".TH CINNABAR.CONF 5 \"\" Cinnabar \"File formats\"\n.SH NAME\ncinnabar.conf \\- configuration of \
         cinnabar\\-server\n.SH DESCRIPTION\nA line has the name of a directive and its values; a line that begins \
         with # is a comment. A directive that is not set has its\ndefault. On the command line a directive is an \
         option, as in\n.BR \"cinnabar\\-server /etc/cinnabar/cinnabar.conf \\-\\-port 7000\" ,\nand counts more \
         than in the file. CONFIG GET shows directives, CONFIG SET changes those that are not marked as\n.IR \"at \
         the start only\" ,\nand CONFIG REWRITE writes to the file what was changed.\n.P\nSizes are numbers of bytes \
         or have a unit: 1k is 1000, 1kb is 1024 bytes, and so on with m and g. A text with blanks\nstands in quotes. \
         The line\n.B include\n.I file\nreads another file at that place.\n",
    );
    for (title, entries) in AREAS {
        let mut shown = entries.iter().filter(|entry| entry.unsupported.is_none() && !entry.hidden).peekable();
        if shown.peek().is_none() {
            continue;
        }
        let _ = writeln!(page, ".SH \"{}\"", title.to_uppercase());
        for entry in shown {
            let _ = writeln!(page, ".TP\n.B {} {}", roff(entry.name), roff(&default_of(entry)));
            for line in entry.documentation.iter().copied().map(str::trim).filter(|line| !line.is_empty()) {
                let _ = writeln!(page, "{}", roff(line));
            }
            for fact in facts(entry).iter().filter(|fact| !fact.starts_with("Default:")) {
                let _ = writeln!(page, "{}", roff(fact));
            }
        }
    }
    page.push_str(".SH SEE ALSO\n.BR cinnabar\\-server (1),\n.BR cinnabar\\-cli (1)\n");
    page
}

/// Returns text in which the formatter finds no order.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('`', "");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

// ---- words for completions ------------------------------------------------------------------------------------------

/// Returns a command a line, its subcommands behind it.
fn command_words() -> String {
    commands::install(&[]);
    let mut lines: Vec<String> = CommandTable::get()
        .iter()
        .map(|entry| {
            let mut words: Vec<&str> = entry.command.subcommands.iter().map(|subcommand| subcommand.name).collect();
            words.sort_unstable();
            words.insert(0, entry.command.name);
            words.join(" ") + "\n"
        })
        .collect();
    lines.sort_unstable();
    lines.concat()
}

fn directive_words() -> String {
    let mut names: Vec<&str> = shown().map(|entry| entry.name).collect();
    names.sort_unstable();
    names.join("\n") + "\n"
}
