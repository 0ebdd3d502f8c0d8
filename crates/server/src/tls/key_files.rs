//! Certificates and keys in files.

use crate::tls::certificate::Certificate;
use engine::config::os_message;
use pkcs8::der::SecretDocument;
use pkcs8::{EncryptedPrivateKeyInfo, der::Decode};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Files of a certificate and its key.
#[derive(Clone, Copy)]
pub struct KeyFiles<'c> {
    pub certificate: &'c [u8],
    pub key: &'c [u8],
    pub password: &'c [u8],
}

/// Returns a path as the configuration has it.
pub fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// Returns all certificates of a file in PEM.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = fs::read(path).map_err(|error| os_message(&error))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    all.map_err(|error| error.to_string())
}

/// Returns a certificate with its key, ready to be shown.
pub fn certified_key(files: KeyFiles<'_>, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let of_file = |what: &str, name: &[u8], why: String| {
        format!("Failed to load {what}: {}: {why}", String::from_utf8_lossy(name))
    };
    let chain = certificates(path(files.certificate))
        .and_then(|chain| if chain.is_empty() { Err("no certificate is there".to_owned()) } else { Ok(chain) })
        .and_then(|chain| check_version(&chain).map(|()| chain))
        .map_err(|why| of_file("certificate", files.certificate, why))?;
    let key = fs::read(path(files.key)).map_err(|error| os_message(&error));
    let key = key.and_then(|text| private_key(&text, files.password));
    let key = key.map_err(|why| of_file("private key", files.key, why))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InvalidCertificate(_) => of_file("certificate", files.certificate, error.to_string()),
        _ => of_file("private key", files.key, error.to_string()),
    })
}

/// The version of X.509 that rustls reads in a certificate that is shown.
const VERSION: u32 = 3;

/// Refuses a chain whose first certificate is of another version.
fn check_version(chain: &[CertificateDer<'_>]) -> Result<(), String> {
    match chain.first().and_then(|first| Certificate::read(first)).map(|first| first.version) {
        Some(version) if version != VERSION => {
            Err(format!("its version of X.509 is {version}, and only version {VERSION} can be shown"))
        }
        _ => Ok(()),
    }
}

const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";

/// Returns a key in PEM, which may need a password.
fn private_key(text: &[u8], password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let lines = String::from_utf8_lossy(text);
    if let Some(at) = lines.find(ENCRYPTED) {
        if password.is_empty() {
            return Err("it is encrypted, and there is no password".to_owned());
        }
        let (_, sealed) = SecretDocument::from_pem(&lines[at..]).map_err(|error| error.to_string())?;
        let opened = EncryptedPrivateKeyInfo::from_der(sealed.as_bytes())
            .map_err(|error| error.to_string())?
            .decrypt(password)
            .map_err(|_| "the password is wrong, or its encryption is not known here".to_owned())?;
        return Ok(PrivatePkcs8KeyDer::from(opened.as_bytes().to_vec()).into());
    }
    if lines.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(
            "keys are not read in the old encrypted form: 'openssl pkcs8 -topk8' writes the newer one".to_owned()
        );
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|error| error.to_string())
}

/// Returns the authorities of a file and of all files in a folder; either may be empty.
pub fn authorities(file: &[u8], folder: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let failed = |why: String| format!("Failed to configure CA certificate(s) file/directory: {why}");
    for certificate in authority_certificates(file, folder).map_err(failed)? {
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    if roots.is_empty() && !file.is_empty() {
        return Err(failed("no certificate is there".to_owned()));
    }
    Ok(roots)
}

/// Returns the authorities' certificates. Files in a folder that are no certificates are skipped.
pub fn authority_certificates(file: &[u8], folder: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut all = Vec::new();
    if !file.is_empty() {
        all = certificates(path(file))?;
    }
    if !folder.is_empty() {
        let entries = fs::read_dir(path(folder)).map_err(|error| os_message(&error))?;
        let mut names: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        names.sort();
        for found in names.iter().filter_map(|name| certificates(name).ok()).flatten() {
            // A folder has links to its files.
            if !all.contains(&found) && Certificate::read(&found).is_some() {
                all.push(found);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pkcs8::pkcs5::pbes2;
    use pkcs8::{LineEnding, PrivateKeyInfo};
    use rcgen::KeyPair;
    use std::{env, process};

    /// A certificate of version 1, and its key. rcgen makes none.
    const OLD: &str = include_str!("../../../../tests/certificates/version_1.crt");
    const OLD_KEY: &str = include_str!("../../../../tests/certificates/version_1.key");

    fn loaded(certificate: &str, key: &str) -> Result<CertifiedKey, String> {
        let folder = env::temp_dir().join(format!("cinnabar-key-files-{}-{}", process::id(), fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        let path = |name: &str| folder.join(name).into_os_string().into_encoded_bytes();
        let (at, key_at) = (path("a.crt"), path("a.key"));
        fs::write(self::path(&at), certificate).unwrap();
        fs::write(self::path(&key_at), key).unwrap();
        let files = KeyFiles { certificate: &at, key: &key_at, password: b"" };
        let loaded = certified_key(files, &rustls::crypto::ring::default_provider());
        fs::remove_dir_all(folder).unwrap();
        loaded
    }

    #[test]
    fn an_error_names_the_file_that_is_wrong() {
        let key = KeyPair::generate().unwrap();
        let made = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
        assert!(loaded(&made, &key.serialize_pem()).is_ok());
        let error = loaded(OLD, OLD_KEY).unwrap_err();
        assert!(error.starts_with("Failed to load certificate: ") && error.contains("a.crt"), "{error}");
        assert!(error.ends_with(": its version of X.509 is 1, and only version 3 can be shown"), "{error}");
        let error = loaded(&made, OLD_KEY).unwrap_err();
        assert!(error.starts_with("Failed to load private key: ") && error.contains("a.key"), "{error}");
        let malformed = "-----BEGIN CERTIFICATE-----\nMTIz\n-----END CERTIFICATE-----\n";
        let error = loaded(malformed, OLD_KEY).unwrap_err();
        assert!(error.starts_with("Failed to load certificate: "), "{error}");
    }

    #[test]
    fn authorities_may_be_of_version_1() {
        let certificate = CertificateDer::from_pem_slice(OLD.as_bytes()).unwrap();
        assert_eq!(RootCertStore::empty().add(certificate), Ok(()));
    }

    #[test]
    fn keys_may_have_a_password() {
        let key = KeyPair::generate().unwrap();
        let plain = private_key(key.serialize_pem().as_bytes(), b"").unwrap();
        let way = pbes2::Parameters::pbkdf2_sha256_aes256cbc(10, b"saltsalt", &[7; 16]).unwrap();
        let der = key.serialize_der();
        let sealed = PrivateKeyInfo::try_from(&der[..]).unwrap().encrypt_with_params(way, "1234").unwrap();
        let pem = sealed.to_pem("ENCRYPTED PRIVATE KEY", LineEnding::LF).unwrap();
        let text = format!("Bag Attributes\n{}", *pem);
        assert_eq!(private_key(text.as_bytes(), b"1234").unwrap(), plain);
        assert!(private_key(text.as_bytes(), b"").unwrap_err().contains("no password"));
        assert!(private_key(text.as_bytes(), b"12345").unwrap_err().contains("wrong"));
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n";
        assert!(private_key(old.as_bytes(), b"1").unwrap_err().contains("openssl pkcs8"));
        assert!(private_key(b"nothing", b"").is_err());
    }
}
