//! Protocols and ciphers by OpenSSL's names.
//!
//! A cipher that rustls lacks is no part of any list: to take it away is fine, to ask for it is an error.

use rustls::crypto::ring::cipher_suite as suites;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Ciphers up to TLS 1.2 in rustls's order of preference, and the words that name them together.
const CIPHERS: &[(&str, SupportedCipherSuite)] = &[
    ("ECDHE-ECDSA-AES256-GCM-SHA384", suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// The ciphers of TLS 1.3.
const SUITES: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", suites::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", suites::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", suites::TLS13_CHACHA20_POLY1305_SHA256),
];

/// Words for all of [`CIPHERS`]: all of them agree on keys and sign their data in these ways.
const ALL: &[&str] =
    &["ALL", "DEFAULT", "COMPLEMENTOFALL", "HIGH", "ECDHE", "EECDH", "KEECDHE", "KEECDH", "TLSV1.2", "FIPS"];

/// Parses `tls-protocols`; an empty text stands for all.
///
/// # Errors
/// The protocol is not supported: a line for the log.
pub fn protocols(text: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut versions = Vec::new();
    for word in text.split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => versions.push(&TLS12),
            "tlsv1.3" => versions.push(&TLS13),
            "tlsv1" | "tlsv1.1" => {
                return Err(format!(
                    "tls-protocols: Cinnabar has no {word}, which is not safe. Use 'TLSv1.2' and 'TLSv1.3'."
                ));
            }
            _ => {
                return Err("Invalid tls-protocols specified. Use a combination of 'TLSv1.2' and 'TLSv1.3'.".to_owned());
            }
        }
    }
    Ok(if versions.is_empty() { vec![&TLS13, &TLS12] } else { versions })
}

/// Parses `tls-ciphersuites` and `tls-ciphers` together, in their orders; an empty text stands for all.
///
/// # Errors
/// A cipher is not supported, or none is left: a line for the log.
pub fn ciphers(ciphersuites: &str, ciphers: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut found = listed_suites(ciphersuites).map_err(|why| format!("Failed to configure ciphersuites: {why}"))?;
    found.extend(listed_ciphers(ciphers).map_err(|why| format!("Failed to configure ciphers: {why}"))?);
    Ok(found)
}

fn listed_suites(text: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    if text.is_empty() {
        return Ok(SUITES.iter().map(|(_, suite)| *suite).collect());
    }
    let find = |name: &str| match SUITES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((_, suite)) => Ok(*suite),
        None => Err(format!("Cinnabar has no '{name}'")),
    };
    text.split(':').filter(|name| !name.is_empty()).map(find).collect()
}

/// Parses words as in `openssl ciphers`: added, taken away for now (`-`) or for good (`!`), or put last (`+`).
fn listed_ciphers(text: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let (mut found, mut banned): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for word in text.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        let (sign, name) = match word.split_at_checked(1) {
            Some((sign @ ("-" | "!" | "+" | "@"), name)) => (sign, name),
            _ => ("", word),
        };
        // The strongest come first already, and there are no weak ones to let in.
        if sign == "@" {
            continue;
        }
        let meant = named(name);
        let moved: Vec<usize> = found.iter().copied().filter(|cipher| meant.contains(cipher)).collect();
        found.retain(|cipher| sign.is_empty() || !meant.contains(cipher));
        match sign {
            "" if meant.is_empty() => return Err(format!("Cinnabar has no '{name}'")),
            "" => {
                let new = meant.into_iter().filter(|cipher| !banned.contains(cipher)).collect::<Vec<_>>();
                found.extend(new.into_iter().filter(|cipher| !found.contains(cipher)).collect::<Vec<_>>());
            }
            "+" => found.extend(moved),
            "!" => banned.extend(meant),
            _ => {}
        }
    }
    if text.is_empty() {
        found = (0..CIPHERS.len()).collect();
    }
    if found.is_empty() {
        return Err(format!("nothing is left of '{text}'"));
    }
    Ok(found.into_iter().map(|cipher| CIPHERS[cipher].1).collect())
}

/// Returns the ciphers that a word means; several properties are joined by `+`.
fn named(word: &str) -> Vec<usize> {
    let has = |cipher: &str, property: &str| {
        let property = property.to_ascii_uppercase();
        match property.as_str() {
            "AES" | "AESGCM" => cipher.contains("-AES"),
            "AES128" => cipher.contains("AES128"),
            "AES256" => cipher.contains("AES256"),
            "CHACHA20" => cipher.contains("CHACHA20"),
            "SHA256" => cipher.ends_with("SHA256"),
            "SHA384" => cipher.ends_with("SHA384"),
            "ARSA" => cipher.contains("-RSA-"),
            "AECDSA" | "ECDSA" => cipher.contains("-ECDSA-"),
            _ => ALL.contains(&property.as_str()) || cipher == property,
        }
    };
    let is_meant = |cipher: &usize| word.split('+').all(|property| has(CIPHERS[*cipher].0, property));
    (0..CIPHERS.len()).filter(is_meant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<&'static str>, String> {
        let name = |cipher| CIPHERS.iter().find(|(_, known)| *known == cipher).map(|(name, _)| *name).unwrap();
        listed_ciphers(text).map(|all| all.into_iter().map(name).collect())
    }

    #[test]
    fn ciphers_have_the_names_of_openssl() {
        assert_eq!(names("").unwrap().len(), 6);
        assert_eq!(names("DEFAULT:-AES128-SHA256:!aNULL:@SECLEVEL=1").unwrap().len(), 6);
        assert_eq!(names("ECDHE-RSA-AES128-GCM-SHA256").unwrap(), ["ECDHE-RSA-AES128-GCM-SHA256"]);
        let both = names("aRSA+AESGCM:+AES256").unwrap();
        assert_eq!(both, ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"]);
        assert_eq!(names("!ECDSA:ALL:-CHACHA20:CHACHA20").unwrap().last(), Some(&"ECDHE-RSA-CHACHA20-POLY1305"));
        assert_eq!(names("AES128-SHA256").unwrap_err(), "Cinnabar has no 'AES128-SHA256'");
        assert!(names("ALL:!ALL").is_err());
    }

    #[test]
    fn suites_and_protocols_have_them_too() {
        assert_eq!(listed_suites("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256").unwrap().len(), 2);
        assert!(ciphers("TLS_AES_128_CCM_SHA256", "").is_err());
        assert_eq!(ciphers("", "").unwrap().len(), 9);
        let is_first = |text: &str, first| protocols(text).map(|found| found[0].version == first);
        assert_eq!(is_first("tlsv1.2 TLSv1.3", rustls::ProtocolVersion::TLSv1_2), Ok(true));
        assert_eq!(protocols("").unwrap().len(), 2);
        assert!(protocols("TLSv1.1").is_err() && protocols("SSLv3").is_err());
    }
}
