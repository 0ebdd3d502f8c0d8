//! What a configuration asks for and is not here: modules, users, TLS, replication, clusters.
//!
//! Who counts on a module's commands, on users with less rights, or on a port with TLS must not get a server without:
//! there is no start. Of users there is one, `default`, who may do everything with the password of `requirepass`; lines
//! that say just that are how Valkey rewrites a file without users, and taken. What becomes of the other directives
//! that nothing here acts on stands in their entries: with some of them there is no start either, the others are named
//! in the log.

use crate::system::files::path;
use crate::system::log;
use engine::config::{Config, Directive, LoadedConfig, Unmet, os_message};
use sha2::{Digest, Sha256};

/// Refuses to start without what the configuration counts on; the error is the last line of the log.
pub fn refuse(loaded: &LoadedConfig) -> Result<(), String> {
    let LoadedConfig { config, users, modules, module_settings, .. } = loaded;
    refuse_modules(modules, module_settings)?;
    refuse_users(config, users)?;
    refuse_directives(config)?;
    Ok(())
}

fn refuse_modules(modules: &[Vec<Vec<u8>>], settings: &[(Vec<u8>, Vec<u8>)]) -> Result<(), String> {
    if let Some(path) = modules.first().and_then(|words| words.first()) {
        let path = String::from_utf8_lossy(path);
        log::warning(format_args!("Module {path} failed to load: Cinnabar has no interface for modules"));
        return Err(format!("Can't load module from {path}: server aborting"));
    }
    for (name, _) in settings {
        log::warning(format_args!("Unused Module Configuration: {}", String::from_utf8_lossy(name)));
    }
    let refused = "Module Configuration detected without loadmodule directive or no ApplyConfig call: aborting";
    if settings.is_empty() { Ok(()) } else { Err(refused.to_owned()) }
}

/// Refuses what the server cannot do without breaking a promise; names what it does without in one line of the log.
fn refuse_directives(config: &Config) -> Result<(), String> {
    let mut without: Vec<(&str, Vec<&str>)> = Vec::new();
    for (entry, unsupported) in config.unmet() {
        if unsupported.unmet == Unmet::Refused {
            return Err(format!("Can't start with '{}': {}", entry.name, unsupported.reason));
        }
        match without.iter_mut().find(|(reason, _)| *reason == unsupported.reason) {
            Some((_, names)) => names.push(entry.name),
            None => without.push((unsupported.reason, vec![entry.name])),
        }
    }
    let texts: Vec<String> = without.iter().map(|(reason, names)| format!("{} ({reason})", names.join(", "))).collect();
    if !texts.is_empty() {
        log::warning(format_args!("These directives of the configuration have no effect: {}", texts.join("; ")));
    }
    Ok(())
}

fn refuse_users(config: &Config, users: &[Vec<Vec<u8>>]) -> Result<(), String> {
    let file = config.text(Directive::ACLFILE);
    let shown = String::from_utf8_lossy(file);
    if !file.is_empty() && !users.is_empty() {
        return Err(
            "Users are declared in the configuration file and in an ACL file: only one of them can count".to_owned()
        );
    }
    let mut declared = users.to_vec();
    if !file.is_empty() {
        let opening = "Aborting Cinnabar startup because of ACL errors: Error loading ACLs, opening file";
        let text = std::fs::read(path(file)).map_err(|error| format!("{opening} '{shown}': {}", os_message(&error)))?;
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        declared = lines.map(|line| line.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect()).collect();
    }
    for words in &declared {
        let [user, name, rules @ ..] = words.as_slice() else {
            return Err(format!("Aborting Cinnabar startup because of ACL errors: {shown}: a line names no user"));
        };
        if user != b"user" || name != b"default" || !may_do_everything(rules, config.text(Directive::REQUIREPASS)) {
            let name = String::from_utf8_lossy(name);
            log::warning(format_args!(
                "User {name} cannot be had: Cinnabar has no users but default, who may do everything"
            ));
            return Err("Critical error while loading ACLs. Exiting.".to_owned());
        }
    }
    Ok(())
}

/// Whether a user of these rules is the one that is here: who logs in with this password, if there is one, may do
/// everything.
fn may_do_everything(rules: &[Vec<u8>], password: &[u8]) -> bool {
    let [mut on, mut keys, mut channels, mut commands, mut authenticated] = [false; 5];
    for rule in rules.iter().filter(|rule| !rule.is_empty()) {
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => on = true,
            b"~*" | b"allkeys" => keys = true,
            b"&*" | b"allchannels" => channels = true,
            b"+@all" | b"allcommands" => commands = true,
            b"nopass" if password.is_empty() => authenticated = true,
            [b'>', ..] if !password.is_empty() && &rule[1..] == password => authenticated = true,
            [b'#', hash @ ..] if !password.is_empty() && hash == hex(&Sha256::digest(password)) => authenticated = true,
            b"sanitize-payload" | b"alldbs" => {}
            _ => return false,
        }
    }
    on && keys && channels && commands && authenticated
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_default(line: &str, password: &str) -> bool {
        let rules: Vec<Vec<u8>> = line.split(' ').map(|rule| rule.as_bytes().to_vec()).collect();
        may_do_everything(&rules, password.as_bytes())
    }

    #[test]
    fn lines_that_say_what_holds_anyway_are_taken() {
        let hash = "#2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
        assert!(is_default("on nopass sanitize-payload ~* &* +@all", ""));
        assert!(is_default("on nopass sanitize-payload ~* &* alldbs +@all", ""));
        assert!(is_default("ON >Secret allkeys allchannels allcommands", "Secret"));
        assert!(is_default(&format!("on sanitize-payload {hash} ~* &* +@all"), "x"));
        for (line, password) in [
            ("on nopass ~* &* +@all", "x"),
            ("on >y ~* &* +@all", "x"),
            ("on > ~* &* +@all", ""),
            (&format!("on {hash} ~* &* +@all"), "y"),
            ("on ~* &* +@all", ""),
            ("off nopass ~* &* +@all", ""),
            ("nopass ~* &* +@all", ""),
            ("on nopass ~app:* &* +@all", ""),
            ("on nopass ~* +@all", ""),
            ("on nopass ~* &* +@all -flushall", ""),
            ("on nopass ~* &* +@read", ""),
            ("", ""),
        ] {
            assert!(!is_default(line, password), "{line} with {password:?}");
        }
    }
}
