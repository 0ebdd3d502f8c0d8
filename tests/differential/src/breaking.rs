//! A way to a server that breaks: connections through it carry some bytes in each direction, and then end or fall
//! silent.

use fastrand::Rng;
use std::io::{Read, Result, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// The most that a broken direction carries: about as much as a few keys, or the replies to them.
const REQUESTS_MAX: usize = 600;
const REPLIES_MAX: usize = 40;

/// Way in which a direction ends.
#[derive(Clone, Copy)]
struct Limit {
    bytes: usize,
    /// Carries no more, instead of closing both directions.
    falls_silent: bool,
}

/// Listens until the process ends, and returns the port. Each connection draws anew how it breaks.
pub fn breaking_way_to(target: SocketAddr, seed: u64) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let mut rng = Rng::with_seed(seed);
    thread::spawn(move || {
        for from in listener.incoming().flatten() {
            let Ok(to) = TcpStream::connect(target) else { continue };
            let requests = limit(&mut rng, REQUESTS_MAX);
            let replies = limit(&mut rng, REPLIES_MAX);
            let (Ok(from_back), Ok(to_back)) = (from.try_clone(), to.try_clone()) else { continue };
            thread::spawn(move || carry(from, to, requests));
            thread::spawn(move || carry(to_back, from_back, replies));
        }
    });
    Ok(port)
}

fn limit(rng: &mut Rng, most: usize) -> Limit {
    let bytes = if rng.bool() { usize::MAX } else { rng.usize(..most) };
    Limit { bytes, falls_silent: rng.u8(..8) == 0 }
}

fn carry(mut from: TcpStream, mut to: TcpStream, limit: Limit) {
    let (mut left, mut buffer) = (limit.bytes, vec![0; 1 << 14]);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let carried = count.min(left);
        left -= carried;
        if to.write_all(&buffer[..carried]).is_err() || (left == 0 && !limit.falls_silent) {
            break;
        }
    }
    // Either end may have closed before.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_breaks_sooner_or_later() {
        let target = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = breaking_way_to(target.local_addr().unwrap(), 1).unwrap();
        thread::spawn(move || {
            for mut server in target.incoming().flatten() {
                thread::spawn(move || {
                    let mut byte = [0];
                    while server.read_exact(&mut byte).is_ok() && server.write_all(&byte).is_ok() {}
                });
            }
        });
        let breaks = (0..40).any(|_| {
            let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            client.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
            (0..2 * REPLIES_MAX).any(|_| client.write_all(b"x").and_then(|()| client.read_exact(&mut [0])).is_err())
        });
        assert!(breaks);
    }
}
