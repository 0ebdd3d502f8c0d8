//! Changes of directives around the engine: listeners, log, title, requests to the system.

use crate::admin::plane;
use crate::listener::acceptor::Acceptor;
use crate::listener::sockets::Port;
use crate::process::crash;
use crate::process::title;
use crate::system::allocator;
use crate::system::log;
use crate::system::oom;
use crate::system::rlimit;
use crate::workers::shared::{Shared, worker_count};
use engine::config::{Applied, Config, Directive, ServerHooks, os_message};

/// A configuration that the process is to follow.
pub struct DirectiveChange<'c> {
    /// Listening sockets; None before there are any.
    pub acceptor: Option<&'c Acceptor>,
    /// State shared by the threads; None before there are threads.
    pub shared: Option<&'c Shared>,
    pub config: &'c Config,
}

impl DirectiveChange<'_> {
    /// Opens the listeners at these ports anew; the error is `refused`.
    fn listen_again(&self, ports: &[Port], refused: &str) -> Applied {
        if let Some(acceptor) = self.acceptor {
            acceptor.listen_again(ports, self.config).map_err(|error| {
                log::warning(error);
                refused.to_owned()
            })?;
        }
        self.process_title()
    }
}

const NO_PORT: &str = "Unable to listen on this port. Check server logs.";
const NO_TLS: &str = "Unable to update TLS configuration. Check server logs.";
const NO_ADDRESS: &str = "Failed to bind to specified addresses.";

impl ServerHooks for DirectiveChange<'_> {
    fn bind(&self) -> Applied {
        self.listen_again(&Port::ALL, NO_ADDRESS)
    }

    fn port(&self) -> Applied {
        self.listen_again(&[Port::Resp], NO_PORT)
    }

    fn book_port(&self) -> Applied {
        self.listen_again(&[Port::Book], NO_PORT)
    }

    fn tls_port(&self) -> Applied {
        self.tls()?;
        self.listen_again(&[Port::Tls], NO_PORT)
    }

    fn tls(&self) -> Applied {
        if let Some(acceptor) = self.acceptor {
            acceptor.tls.configure(self.config).map_err(|error| {
                log::warning(error);
                NO_TLS.to_owned()
            })?;
        }
        Ok(())
    }

    fn threads(&self) -> Applied {
        let Some(shared) = self.shared else { return Ok(()) };
        let (before, workers) = (shared.workers(), worker_count(self.config));
        if before != workers {
            shared.resize(workers).map_err(|error| format!("Unable to start workers: {}", os_message(&error)))?;
            log::notice(format_args!("There are {workers} workers now, {before} until now."));
        }
        Ok(())
    }

    fn max_clients(&self) -> Applied {
        let wanted = self.config.int(Directive::MAXCLIENTS).max(0) as u64;
        match rlimit::admit(wanted, plane::connections(self.config))? {
            possible if possible < wanted => Err(format!(
                "The operating system is not able to handle the specified number of clients, try with {possible}"
            )),
            _ => Ok(()),
        }
    }

    fn keepalive(&self) -> Applied {
        if let Some(acceptor) = self.acceptor {
            acceptor.set_keepalive(self.config);
        }
        Ok(())
    }

    fn process_title(&self) -> Applied {
        title::show(self.config);
        Ok(())
    }

    fn oom_score(&self) -> Applied {
        oom::apply(self.config)
    }

    fn watchdog(&self) -> Applied {
        crash::set_watchdog(self.config);
        Ok(())
    }

    fn allocator_thread(&self) -> Applied {
        allocator::give_back_in_background(self.config.flag(Directive::JEMALLOC_BG_THREAD));
        Ok(())
    }

    fn log(&self) -> Applied {
        log::follow(self.config);
        Ok(())
    }
}
