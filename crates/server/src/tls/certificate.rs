//! The fields of a certificate beside those that rustls verifies: its number, its end, the names in it.
//!
//! ```text
//!   certificate { to be signed { [0] version, serial, .., validity { from, to }, subject, .., [3] extensions } .. }
//! ```

use engine::config::{Config, Directive};

/// Returns the users that a certificate names (`tls-auth-clients-user`), in the order in which they are looked for.
pub fn named_users(certificate: &[u8], config: &Config) -> Vec<Vec<u8>> {
    let Some(certificate) = Certificate::read(certificate) else { return Vec::new() };
    match config.choice(Directive::TLS_AUTH_CLIENTS_USER) {
        "CN" => certificate.common_name().into_iter().map(<[u8]>::to_vec).collect(),
        "URI" => certificate.uris().map(<[u8]>::to_vec).collect(),
        _ => Vec::new(),
    }
}

/// A certificate, read as far as it is needed here.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'c> {
    /// The version of X.509, from 1.
    pub version: u32,
    serial: &'c [u8],
    /// End of its validity, in seconds of Unix time.
    pub expires_at: i64,
    subject: &'c [u8],
    extensions: Option<&'c [u8]>,
}

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const LONG_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// A URI among a certificate's names.
const URI: u8 = 0x86;

const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 17];

/// Values of DER, one after the other.
#[derive(Clone, Copy)]
struct Values<'d>(&'d [u8]);

impl<'d> Iterator for Values<'d> {
    type Item = (u8, &'d [u8]);

    /// Returns the next value's tag and content; None at the end and at a malformed value.
    fn next(&mut self) -> Option<(u8, &'d [u8])> {
        let (&[tag, first], mut rest) = self.0.split_first_chunk()?;
        let len = match first {
            0..=0x7f => usize::from(first),
            0x81..=0x84 => {
                let (digits, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
                rest = after;
                digits.iter().fold(0, |len, &digit| len << 8 | usize::from(digit))
            }
            _ => return None,
        };
        let (content, after) = rest.split_at_checked(len)?;
        self.0 = after;
        Some((tag, content))
    }
}

impl<'d> Values<'d> {
    /// Returns the content of the next value, which has to have this tag.
    fn tagged(&mut self, tag: u8) -> Option<&'d [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

impl<'c> Certificate<'c> {
    /// Reads a certificate; None if it is none.
    pub fn read(der: &'c [u8]) -> Option<Certificate<'c>> {
        let mut fields = Values(Values(Values(der).tagged(SEQUENCE)?).tagged(SEQUENCE)?);
        let (version, serial) = match fields.next()? {
            (VERSION, version) => (Values(version).tagged(INTEGER)?, fields.tagged(INTEGER)?),
            (INTEGER, serial) => (&[0][..], serial),
            _ => return None,
        };
        let &[version] = version else { return None };
        // The algorithm of the signature and the issuer are skipped.
        fields.tagged(SEQUENCE)?;
        fields.tagged(SEQUENCE)?;
        let (tag, until) = Values(fields.tagged(SEQUENCE)?).nth(1)?;
        let subject = fields.tagged(SEQUENCE)?;
        fields.tagged(SEQUENCE)?;
        let extensions = fields.find(|(tag, _)| *tag == EXTENSIONS).and_then(|(_, all)| Values(all).tagged(SEQUENCE));
        let version = u32::from(version) + 1;
        Some(Certificate { version, serial, expires_at: unix_seconds(tag, until)?, subject, extensions })
    }

    /// Returns its number in hexadecimal digits, as OpenSSL prints it.
    pub fn serial(&self) -> String {
        let zeros = self.serial.iter().take_while(|&&byte| byte == 0).count();
        let digits: String = self.serial[zeros..].iter().map(|byte| format!("{byte:02X}")).collect();
        if digits.is_empty() { "0".to_owned() } else { digits }
    }

    /// Returns the subject's first common name, whatever bytes it has; None when there is none, or an empty one.
    pub fn common_name(&self) -> Option<&'c [u8]> {
        let sets = Values(self.subject).filter(|(tag, _)| *tag == SET);
        let mut names = sets.flat_map(|(_, set)| Values(set)).filter_map(|(_, attribute)| {
            let mut parts = Values(attribute);
            (parts.tagged(OBJECT)? == COMMON_NAME).then(|| parts.next())?.map(|(_, name)| name)
        });
        names.next().filter(|name| !name.is_empty())
    }

    /// Returns the URIs among its alternative names, but for empty ones and those with a NUL.
    pub fn uris(&self) -> impl Iterator<Item = &'c [u8]> {
        let extensions = Values(self.extensions.unwrap_or_default());
        let names = extensions.filter_map(|(_, extension)| {
            let mut parts = Values(extension);
            (parts.tagged(OBJECT)? == ALTERNATIVE_NAMES).then_some(())?;
            let (_, octets) = parts.find(|(tag, _)| *tag == OCTETS)?;
            Values(octets).tagged(SEQUENCE)
        });
        names
            .flat_map(Values)
            .filter(|(tag, uri)| *tag == URI && !uri.is_empty() && !uri.contains(&0))
            .map(|(_, uri)| uri)
    }
}

/// Parses `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn unix_seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    let pairs = digits.chunks_exact(2).map(|pair| match pair {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some(i64::from(a - b'0') * 10 + i64::from(b - b'0')),
        _ => None,
    });
    let pairs: Vec<i64> = pairs.collect::<Option<_>>()?;
    let (year, rest) = match (tag, &pairs[..]) {
        (UTC_TIME, [year, rest @ ..]) => (year + if *year < 50 { 2000 } else { 1900 }, rest),
        (LONG_TIME, [century, year, rest @ ..]) => (century * 100 + year, rest),
        _ => return None,
    };
    let &[month @ 1..=12, day @ 1..=31, hour, minute, second] = rest else { return None };
    Some(days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second)
}

/// Counts in the calendar that has leap years every four years but three in four centuries. Years begin in March here.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, SerialNumber, date_time_ymd};

    fn made(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        change(&mut parameters);
        parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn names_number_and_end_are_found() {
        let der = made(|it| {
            it.distinguished_name.push(DnType::OrganizationName, "Cinnabar");
            it.distinguished_name.push(DnType::CommonName, "some\0one");
            it.subject_alt_names.push(SanType::URI("urn:a".try_into().unwrap()));
            it.subject_alt_names.push(SanType::URI("urn:b".try_into().unwrap()));
            it.serial_number = Some(SerialNumber::from_slice(&[0x8a, 0, 0x0b]));
            it.not_after = date_time_ymd(2049, 12, 31);
        });
        let read = Certificate::read(&der).unwrap();
        assert_eq!((read.version, read.serial().as_str(), read.expires_at), (3, "8A000B", 2_524_521_600));
        assert_eq!(read.uris().collect::<Vec<_>>(), [b"urn:a", b"urn:b"]);
        let late = made(|it| it.not_after = date_time_ymd(2052, 3, 1));
        assert_eq!(Certificate::read(&late).map(|read| read.expires_at), Some(2_592_864_000));
    }

    #[test]
    fn a_name_is_all_of_its_bytes() {
        let der = made(|it| it.distinguished_name.push(DnType::CommonName, "some\0one"));
        assert_eq!(Certificate::read(&der).unwrap().common_name(), Some(&b"some\0one"[..]));
        let empty = made(|it| it.distinguished_name = rcgen::DistinguishedName::new());
        assert_eq!(Certificate::read(&empty).unwrap().common_name(), None);
    }

    proptest! {
        #[test]
        fn nothing_that_is_malformed_ends_the_process(at in 0usize..400, byte: u8, cut in 0usize..600) {
            let mut der = made(|it| it.subject_alt_names.push(SanType::URI("urn:a".try_into().unwrap())));
            let len = der.len();
            der[at % len] = byte;
            der.truncate(cut.max(1));
            if let Some(read) = Certificate::read(&der) {
                let _ = (read.serial(), read.common_name(), read.uris().count());
            }
        }
    }
}
