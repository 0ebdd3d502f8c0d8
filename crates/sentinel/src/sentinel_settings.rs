//! The configuration of the Sentinel itself: addresses, passwords, and the allowed changes.

use crate::config_line_list::ConfigLineList;
use crate::model::effect::Host;
use crate::model::info_report::leading_number;
use crate::model::instance_address::{Address, AddressError, numeric};
use resp::number::parse_i64;

/// The reply to a statement that there is not.
pub(crate) const UNRECOGNIZED: &str = "Unrecognized sentinel configuration statement.";

/// The configuration of the Sentinel itself.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    announce_ip: Option<String>,
    announce_port: i64,
    deny_scripts_reconfig: bool,
    auth_pass: Option<Vec<u8>>,
    auth_user: Option<Vec<u8>>,
    resolve_hostnames: bool,
    announce_hostnames: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            announce_ip: None,
            announce_port: 0,
            deny_scripts_reconfig: true,
            auth_pass: None,
            auth_user: None,
            resolve_hostnames: false,
            announce_hostnames: false,
        }
    }
}

impl Settings {
    /// Returns whether the scripts of primaries must not be changed by commands.
    pub fn denies_script_changes(&self) -> bool {
        self.deny_scripts_reconfig
    }

    /// Returns whether names of hosts are resolved.
    pub fn resolves_names(&self) -> bool {
        self.resolve_hostnames
    }

    /// Returns the form in which an address is announced to others.
    pub fn announced<'a>(&self, address: &'a Address) -> &'a str {
        if self.announce_hostnames { &address.hostname } else { &address.ip }
    }

    /// Returns the password and the user for other Sentinels.
    pub fn credentials(&self, host: &dyn Host) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        match &self.auth_pass {
            Some(pass) => (Some(pass.clone()), self.auth_user.clone()),
            None => (host.requirepass(), None),
        }
    }

    /// Returns this Sentinel's own address for others; `local`: the address of the connection on this side.
    pub fn own_address(&self, local: Option<String>, host: &dyn Host) -> Option<(String, i64)> {
        let ip = self.announce_ip.clone().or(local)?;
        let port = if self.announce_port == 0 { i64::from(host.port()) } else { self.announce_port };
        Some((ip, port))
    }

    /// Returns the numeric form of a host. Names are only resolved if the configuration allows it.
    pub fn resolve(&self, name: &str, host: &mut dyn Host) -> Option<String> {
        match numeric(name) {
            None if self.resolve_hostnames => host.resolve(name),
            found => found,
        }
    }

    /// Returns an address. A name that does not resolve now may do so later, if the caller accepts that (`unresolved`).
    pub fn address(
        &self,
        name: &str,
        port: i64,
        unresolved: bool,
        host: &mut dyn Host,
    ) -> Result<Address, AddressError> {
        let port = u16::try_from(port).map_err(|_| AddressError::Port)?;
        let ip = match self.resolve(name, host) {
            Some(ip) => ip,
            None if self.resolve_hostnames && unresolved => String::new(),
            None => return Err(AddressError::Host),
        };
        Ok(Address { hostname: name.to_string(), ip, port })
    }

    /// Returns whether this host is the address's.
    pub fn is_host_of(&self, address: &Address, name: &str, host: &mut dyn Host) -> bool {
        match self.resolve(name, host) {
            Some(ip) => address.ip.eq_ignore_ascii_case(&ip),
            None if self.resolve_hostnames => address.hostname.eq_ignore_ascii_case(name),
            None => address.ip.eq_ignore_ascii_case(name),
        }
    }

    /// Reads a statement of the configuration file.
    pub fn statement(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(value).into_owned();
        let given = (!value.is_empty()).then(|| value.to_vec());
        match name {
            "announce-ip" => self.announce_ip = given.map(|_| text),
            "announce-port" => self.announce_port = leading_number(&text),
            "sentinel-user" => self.auth_user = given,
            "sentinel-pass" => self.auth_pass = given,
            "deny-scripts-reconfig" => {
                let wrong = "Please specify yes or no for the deny-scripts-reconfig options.";
                self.deny_scripts_reconfig = yes_or_no(&text).ok_or(wrong)?;
            }
            "resolve-hostnames" => {
                let wrong = "Please specify yes or no for the resolve-hostnames option.";
                self.resolve_hostnames = yes_or_no(&text).ok_or(wrong)?;
            }
            "announce-hostnames" => {
                let wrong = "Please specify yes or no for the announce-hostnames option.";
                self.announce_hostnames = yes_or_no(&text).ok_or(wrong)?;
            }
            _ => return Err(UNRECOGNIZED.to_string()),
        }
        Ok(())
    }

    /// Returns the value of an option of SENTINEL CONFIG.
    pub fn value(&self, name: &str, host: &dyn Host) -> Vec<u8> {
        let yes_no = |yes: bool| if yes { b"yes".to_vec() } else { b"no".to_vec() };
        match name {
            "resolve-hostnames" => yes_no(self.resolve_hostnames),
            "announce-hostnames" => yes_no(self.announce_hostnames),
            "announce-ip" => self.announce_ip.clone().unwrap_or_default().into_bytes(),
            "announce-port" => self.announce_port.to_string().into_bytes(),
            "sentinel-user" => self.auth_user.clone().unwrap_or_default(),
            "sentinel-pass" => self.auth_pass.clone().unwrap_or_default(),
            _ => host.log_level().into_bytes(),
        }
    }

    /// Changes an option of SENTINEL CONFIG. Returns whether connections to other Sentinels must be made anew.
    pub fn change(&mut self, option: &str, value: &[u8], host: &mut dyn Host) -> bool {
        let text = String::from_utf8_lossy(value).into_owned();
        let given = (!value.is_empty()).then(|| value.to_vec());
        match option {
            "resolve-hostnames" => self.resolve_hostnames = yes_or_no(&text).unwrap_or_default(),
            "announce-hostnames" => self.announce_hostnames = yes_or_no(&text).unwrap_or_default(),
            "announce-ip" => self.announce_ip = Some(text).filter(|text| !text.is_empty()),
            "announce-port" => self.announce_port = parse_i64(value).unwrap_or_default(),
            "loglevel" => host.set_log_level(&text.to_ascii_lowercase()),
            "sentinel-user" => {
                self.auth_user = given;
                return true;
            }
            _ => {
                self.auth_pass = given;
                return true;
            }
        }
        false
    }

    /// Puts the lines of switches, which stand before those of primaries.
    pub fn put_switches(&self, lines: &mut ConfigLineList) {
        let yes_no = |yes: bool| if yes { "yes" } else { "no" };
        let deny = self.deny_scripts_reconfig;
        lines.put("sentinel deny-scripts-reconfig", !deny, yes_no(deny));
        lines.put("sentinel resolve-hostnames", self.resolve_hostnames, yes_no(self.resolve_hostnames));
        lines.put("sentinel announce-hostnames", self.announce_hostnames, yes_no(self.announce_hostnames));
    }

    /// Puts the lines of this Sentinel's address, user and password, which stand behind those of primaries.
    pub fn put_identity(&self, lines: &mut ConfigLineList) {
        if let Some(ip) = &self.announce_ip {
            lines.put_quoted("sentinel announce-ip", "", &[ip.as_bytes()]);
        }
        if self.announce_port != 0 {
            lines.put("sentinel announce-port", true, &self.announce_port.to_string());
        }
        if let Some(user) = &self.auth_user {
            lines.put_quoted("sentinel sentinel-user", "", &[user]);
        }
        if let Some(pass) = &self.auth_pass {
            lines.put_quoted("sentinel sentinel-pass", "", &[pass]);
        }
    }
}

/// Reads a switch.
pub(crate) fn yes_or_no(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}
