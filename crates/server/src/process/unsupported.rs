//! Parts of a configuration that this server does not have: modules, and directives without effect.
//!
//! A server that is to have a module's commands does not start without them. Directives without effect that do not
//! prevent the reading of the configuration are named in the log.

use crate::system::log;
use engine::config::{Config, LoadedConfig};

/// Refuses to start without a part that the configuration counts on; the error is the last line of the log. A Sentinel
/// loads no modules, so it starts without them.
pub fn refuse(loaded: &LoadedConfig, is_sentinel: bool) -> Result<(), String> {
    let LoadedConfig { config, modules, module_settings, .. } = loaded;
    if !is_sentinel {
        refuse_modules(modules, module_settings)?;
    }
    name_directives(config);
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

/// Names directives without effect in one line of the log.
fn name_directives(config: &Config) {
    let mut without: Vec<(&str, Vec<&str>)> = Vec::new();
    for (entry, unsupported) in config.unmet() {
        match without.iter_mut().find(|(reason, _)| *reason == unsupported.reason) {
            Some((_, names)) => names.push(entry.name),
            None => without.push((unsupported.reason, vec![entry.name])),
        }
    }
    let texts: Vec<String> = without.iter().map(|(reason, names)| format!("{} ({reason})", names.join(", "))).collect();
    if !texts.is_empty() {
        log::warning(format_args!("These directives of the configuration have no effect: {}", texts.join("; ")));
    }
}
